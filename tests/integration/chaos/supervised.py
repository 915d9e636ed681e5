"""Word counts under a supervisor: those that end are started again, and why they ended is counted and checked.

Takes the settings of each application; owns their processes, and a thread that supervises them. An application may
end by itself only with an error that has a name and says what to do, and only with one that a current fault
explains. Never checks the output.
"""

from __future__ import annotations

import json
import shutil
import signal
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from processes import Process

from chaos.harness import SENTENCE, reported

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11 only

PAUSE_S = 1.0
"""Between an end and the next start."""
LOOK_EVERY_S = 0.1
ALWAYS = {"BrokerUnavailableError", "UnknownOutcomeError"}
"""Errors with which an application may end while brokers come and go."""


TOLD = 1200
"""Maximum characters of its last output in a violation."""


def clock() -> str:
    """The time in the format of the applications' logs."""
    return time.strftime("%H:%M:%S", time.gmtime())


class Counted:
    """One application over all its lives."""

    def __init__(self, name: str, config: Mapping[str, object], folder: Path) -> None:
        self.name, self.folder = name, folder
        self.config = {
            "application.id": name,
            "client.id": name,
            "state.dir": str(folder / "state"),
            "statestore.cache.max.bytes": 0,
            "lanes.count": 4,
            "metadata.max.age.ms": 5000,
            **config,
        }
        self.guarantee = str(config["processing.guarantee"])
        self.lives = self.kills = self.restarts = 0
        """`restarts` counts those within a process."""
        self.ended: Counter[str] = Counter()
        """By the error that it ended with."""
        self.excused: set[str] = set()
        """Errors that the current faults explain."""
        self.violations: list[str] = []
        self.lock = threading.RLock()
        """Held while its process is inspected or changed."""
        self.child: Process | None = None
        self._not_before = 0.0

    @property
    def source(self) -> str:
        """The input topic."""
        return f"from-{self.name}"

    @property
    def sink(self) -> str:
        """The output topic."""
        return f"to-{self.name}"

    @property
    def changelog(self) -> str:
        """The changelog of its one store."""
        return f"{self.name}-counts-changelog"

    @property
    def topics(self) -> list[str]:
        """All of its topics except the offsets topic, which only some have."""
        return [self.source, self.sink, self.changelog]

    def start(self) -> None:
        """Start another life."""
        with self.lock:
            script = Path(__file__).with_name("counting_words.py")
            environ = {"RUST_LOG": "info,stoatflow::kafka=info"}
            self.child = Process([script, json.dumps(self.config)], environ).__enter__()
            self.lives += 1

    def end(self) -> None:
        """Its process has ended: count what it did, keep what it printed."""
        with self.lock:
            if self.child is not None:
                self.restarts += int(str(reported(self.child).get("restarts") or 0))
                self.folder.mkdir(parents=True, exist_ok=True)
                with (self.folder / "said.log").open("a", encoding="utf-8") as log:
                    log.write(f"=== life {self.lives}, until {clock()}\n{self.child.errors}")
                self.child.__exit__(None, None, None)
                self.child = None
                self._not_before = time.monotonic() + PAUSE_S

    def kill(self, *, wipe: bool) -> None:
        """SIGKILL; the supervisor starts it again on its local state or, with `wipe`, without."""
        with self.lock:
            if self.child is not None and self.child.code is None:
                self.child.signal(signal.SIGKILL)
                self.child.wait()
                self.kills += 1
                self.end()
            if wipe:
                shutil.rmtree(self.folder / "state", ignore_errors=True)

    def stop(self) -> None:
        """Stop it cleanly: it must end without an error."""
        with self.lock:
            assert self.child is not None, f"{self.name} does not run"
            self.child.signal(signal.SIGTERM)
            code = self.child.wait()
            if code != 0:
                self.violations.append(f"{self.name} was asked to stop and ended with {code}. {self.child.reported()}")
            self.end()

    def look_after(self) -> None:
        """Start it if it has ended, and report what is wrong with how it ended."""
        with self.lock:
            if self.child is None:
                if time.monotonic() >= self._not_before:
                    self.start()
            elif (code := self.child.code) is not None:
                self.child.wait()
                self._check_exit(code, self.child)
                self.end()

    def _check_exit(self, code: int, child: Process) -> None:
        found = SENTENCE.findall(child.errors)
        error = found[-1] if found and code > 0 else f"exit code {code}"
        self.ended[error] += 1
        if error not in ALWAYS | self.excused:
            self.violations.append(
                f"{clock()} {self.name} ended with {error}, which nothing explains: {child.errors[-TOLD:]}"
            )

    def progress(self) -> tuple[int, int]:
        """The number of its life, and of its committed records."""
        with self.lock:
            last = reported(self.child) if self.child is not None else {}
            return self.lives, int(str(last.get("committed") or 0))

    def works(self) -> bool:
        """Whether it is running."""
        with self.lock:
            return self.child is not None and reported(self.child).get("state") == "RUNNING"

    def has_moved(self, since: tuple[int, int]) -> bool:
        """Whether it is running and has committed something since."""
        with self.lock:
            return self.works() and self.progress() > max(since, (self.lives, 0))

    def stands_at(self) -> str:
        """Its own status when it should have made progress, including its barriers."""
        with self.lock:
            if self.child is None:
                return "it does not run"
            output, url = self.child.reported(), reported(self.child).get("url")
        if url is None:
            return output
        try:
            with urllib.request.urlopen(f"{url}debug/barriers", timeout=10) as answer:  # noqa: S310 (loopback)
                return f"{output}\nbarriers: {answer.read().decode()[:3000]}"
        except OSError as error:
            return f"{output}\nno barriers: {error}"


class Supervisor:
    """`with Supervisor(applications): ...`: they run until the block ends, unless they were stopped before."""

    def __init__(self, applications: list[Counted]) -> None:
        self._applications = applications
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="supervisor")

    def __enter__(self) -> Self:
        """Start all of them."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all of them at once."""
        self.leave_alone()
        for application in self._applications:
            application.end()

    def leave_alone(self) -> None:
        """From now on nothing is started again."""
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            for application in self._applications:
                application.look_after()
