"""The word count that most integration tests run, and what its topics must hold.

Takes lines and rows; computes the counts by hand, and checks that say which word is wrong and how.
"""

from __future__ import annotations

import random
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from topics import Row

from stoatflow import BrokerUnavailableError, StoatFlow
from stoatflow.cli.word_count import topology

PATIENCE_S = 90.0
"""Timeout of waits: threads of a busy machine may stand still for seconds."""
ASKED_AGAIN_S = 15.0
"""How long the lag may be unavailable: one request takes ten seconds at most."""


def lines(seed: int, count: int) -> list[str]:
    """Lines of five words, some words far more frequent than others, upper and lower case."""
    rng = random.Random(seed)
    words = [f"w{n}" for n in range(300)] + ["Émile", "ÄRGER", "日本"]
    weights = [1.0 / (n + 1) for n in range(len(words))]
    return [
        " ".join(w.upper() if rng.random() < 0.3 else w for w in rng.choices(words, weights, k=5)) for _ in range(count)
    ]


def by_hand(given: Iterable[str]) -> dict[str, int]:
    """The count, without the engine."""
    return dict(Counter(word for line in given for word in line.lower().split()))


def updates(rows: Iterable[Row]) -> dict[str, list[int]]:
    """The counts of each word, in the order of its partition."""
    found: dict[str, list[int]] = {}
    home: dict[str, int] = {}
    for row in rows:
        assert row.key is not None
        assert row.value is not None
        word = row.key.decode()
        assert home.setdefault(word, row.partition) == row.partition, f"{word!r} is in two partitions"
        found.setdefault(word, []).append(struct.unpack(">q", row.value)[0])
    return found


def table(rows: Iterable[Row]) -> dict[str, int]:
    """The last count of every word in a changelog or an output topic."""
    return {word: counts[-1] for word, counts in updates(rows).items()}


def check_every_update(rows: Iterable[Row], given: Iterable[str]) -> None:
    """Exactly once, with every update: the counts of each word are 1..n, in order, without gaps or duplicates."""
    found, expected = updates(rows), by_hand(given)
    wrong = []
    for word in sorted(found.keys() | expected.keys()):
        counts, times = found.get(word, []), expected.get(word, 0)
        if counts != list(range(1, times + 1)):
            missing = sorted(set(range(1, times + 1)) - set(counts))
            doubled = sorted(count for count, seen in Counter(counts).items() if seen > 1)
            foreign = sorted(set(counts) - set(range(1, times + 1)))
            wrong.append(
                f"{word!r}: {len(counts)} of {times} updates; missing {missing[:8]}, twice {doubled[:8]}, "
                f"never counted {foreign[:8]}, in order: {counts == sorted(counts)}"
            )
    assert not wrong, f"{len(wrong)} of {len(expected)} words are wrong:\n  " + "\n  ".join(wrong[:10])


def check_nothing_lost(rows: Iterable[Row], given: Iterable[str]) -> None:
    """At least once: every word is there and counted at least as often as it was written."""
    found, expected = table(rows), by_hand(given)
    others = sorted(found.keys() ^ expected.keys())
    assert not others, f"{len(others)} words are not there, or were never written: {others[:8]}"
    lost = {word: (found[word], times) for word, times in expected.items() if found[word] < times}
    assert not lost, f"counted too few times (found, written): {dict(list(lost.items())[:10])}"


def make(address: str, name: str, state: Path, flavour: str = "native", **settings: object) -> StoatFlow:
    """A word count from `<name>-in` to `<name>-out` that emits every update."""
    config: dict[str, object] = {
        "application.id": name,
        "bootstrap.servers": address,
        "state.dir": state,
        "statestore.cache.max.bytes": 0,
        "lanes.count": 4,
    }
    config |= {key.replace("_", "."): value for key, value in settings.items()}
    return StoatFlow(topology(f"{name}-in", f"{name}-out", flavour), config)


def until(what: Callable[[], bool], why: str, patience: float = PATIENCE_S) -> float:
    """Wait for a condition; returns how long it took."""
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < patience, f"{why}: not within {patience} s"
        time.sleep(0.02)
    return time.monotonic() - began


def until_running(app: StoatFlow, patience: float = PATIENCE_S) -> None:
    """Wait until it runs; an engine that ends before raises."""
    until(lambda: str(app.state) == "RUNNING" or app.wait(0.01), "it runs", patience)
    assert str(app.state) == "RUNNING"


def consume(app: StoatFlow) -> None:
    """Run until all of the input is committed, then close."""
    with app:
        until_consumed(app)


def until_consumed(app: StoatFlow) -> None:
    """Wait until all of the input is committed; an engine that ends before raises."""
    began = time.monotonic()
    while _is_behind(app, began):
        assert not app.wait(0.02), "the engine ended by itself"
        assert time.monotonic() - began < PATIENCE_S, f"not consumed within {PATIENCE_S} s: {app.metrics()}"


def _is_behind(app: StoatFlow, began: float) -> bool:
    """Whether there is more to commit. If a broker is held up beyond the request timeout, the request is repeated."""
    try:
        return app.lag() > 0
    except BrokerUnavailableError:
        if time.monotonic() - began > ASKED_AGAIN_S:
            raise
        return True
