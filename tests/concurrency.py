"""Several threads that do the same thing at the same time.

Takes a function for each thread, returns the results; raises what one of them raised. Makes threads of an
interpreter with a GIL interleave as much as possible. Never waits forever.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

THREADS = 8


@contextmanager
def frequent_thread_switches() -> Iterator[None]:
    """Change threads as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def run_concurrently(work: Callable[[int], T], threads: int = THREADS) -> list[T]:
    """Run the function in this many threads that start together; return the results, raise what one of them raised."""
    gate = threading.Barrier(threads)
    results: dict[int, T] = {}
    errors: list[BaseException] = []

    def run(number: int) -> None:
        gate.wait()
        try:
            results[number] = work(number)
        except BaseException as error:  # raised below, where the test sees it
            errors.append(error)

    running = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(60)
        assert not thread.is_alive(), "a thread waits for ever"
    if errors:
        raise errors[0]
    return [results[number] for number in range(threads)]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def changing_dict(shared: dict[str, Any], stop: threading.Event) -> None:
    """Change a dict all the time, in size too."""
    while not stop.is_set():
        for number in range(20):
            shared[f"k{number}"] = {"n": number}
        for number in range(20):
            shared.pop(f"k{number}", None)
