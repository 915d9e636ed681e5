"""Steady work for a long time, with kills: memory, file handles and threads stay bounded, and the result is exact.

`python tests/integration/chaos/soak.py --minutes 30` runs half of the time with regular kills, half undisturbed.
The usage at the end of the undisturbed half is compared with the usage after warming up.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

if __package__ in {None, ""}:  # run as a script: the packages are in the folder above
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from broker.kafka_broker import KafkaBroker
from processes import Process
from topics import KafkaTopics

from chaos.harness import BROKER, KAFKA, Chaos, reported
from chaos.run import EXACTLY, check_results

EVERY_S = 0.5
KILL_EVERY_S = 15.0
WARM_UP = 0.3
"""Share of the undisturbed half that is ignored: caches and write buffers fill up."""
MOST_MIB = 1024
FACTOR, MORE_MIB, MORE_FILES, MORE_THREADS = 1.25, 64, 40, 2
"""How much more the last quarter may use than before; files of a store come and go."""


class Sample(NamedTuple):
    """Resource usage of a process."""

    mib: float
    files: int
    threads: int


def sample(pid: int) -> Sample | None:
    """Measure a process; None when it is gone."""
    try:
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return Sample(
            int(status["VmRSS"].split()[0]) / 1024, len(os.listdir(f"/proc/{pid}/fd")), int(status["Threads"])
        )
    except (OSError, KeyError):
        return None


def most(samples: Iterable[Sample]) -> Sample:
    """The highest of each."""
    all_of = list(samples)
    return Sample(max(s.mib for s in all_of), max(s.files for s in all_of), max(s.threads for s in all_of))


def growth(samples: list[Sample]) -> tuple[Sample, Sample, list[str]]:
    """The usage after warming up, in the last quarter, and what is wrong with the difference."""
    warm = samples[int(len(samples) * WARM_UP) :]
    early, late = most(warm[: len(warm) * 2 // 3]), most(warm[len(warm) * 2 // 3 :])
    wrong = []
    if late.mib > MOST_MIB:
        wrong.append(f"{late.mib:.0f} MiB of memory: more than {MOST_MIB}")
    if late.mib > early.mib * FACTOR + MORE_MIB:
        wrong.append(f"memory grows: {early.mib:.0f} MiB, then {late.mib:.0f}")
    if late.files > early.files + MORE_FILES:
        wrong.append(f"file handles grow: {early.files}, then {late.files}")
    if late.threads > early.threads + MORE_THREADS:
        wrong.append(f"threads grow: {early.threads}, then {late.threads}")
    return early, late, wrong


class Soak:
    """One application under steady work."""

    def __init__(self, kafka: KafkaTopics, name: str, state: Path, seed: int, minutes: float) -> None:
        self._seconds = minutes * 60
        # One round per second.
        self.chaos = Chaos(kafka, name, state, seed, EXACTLY, rounds=int(self._seconds) + 60)
        self.lives: list[Sample] = []
        self.steady: list[Sample] = []
        self.most_lag = 0

    def run(self) -> list[str]:
        """What is wrong with the use of resources."""
        began = time.monotonic()
        while (left := began + self._seconds / 2 - time.monotonic()) > 0:
            with self.chaos.process("--follow", environ={}) as child:
                self.lives.append(most(self._work(child, min(KILL_EVERY_S, left))))
                child.signal(signal.SIGKILL)
                child.wait()
                self.chaos.kills += 1
        with self.chaos.process("--follow", environ={}) as child:
            self.steady = self._work(child, began + self._seconds - time.monotonic())
            child.signal(signal.SIGTERM)
            assert child.wait() == 0, child.reported()
        self.chaos.close()
        return growth(self.steady)[2]

    def _work(self, child: Process, seconds: float) -> list[Sample]:
        began, fed, samples = time.monotonic(), 0, []
        while (now := time.monotonic() - began) < seconds:
            if fed <= now:
                self.chaos.feed()
                fed += 1
            used = sample(child.pid)
            assert used is not None, child.reported()
            assert child.code is None, child.reported()
            samples.append(used)
            lag = reported(child).get("lag")
            self.most_lag = max(self.most_lag, lag if isinstance(lag, int) else 0)
            time.sleep(EVERY_S)
        return samples

    def report(self) -> str:
        """Figures."""
        early, late, _ = growth(self.steady)
        lives = most(self.lives)
        rows = [
            ("most of the lives with kills", lives),
            ("undisturbed, warm", early),
            ("undisturbed, at its end", late),
        ]
        described = [f"  {what:<30}{s.mib:>8.0f} MiB{s.files:>8} files{s.threads:>6} threads" for what, s in rows]
        head = f"soak of {self._seconds / 60:.1f} min, seed {self.chaos.seed}: {self.chaos.kills} kills, "
        return "\n".join([f"{head}{self.chaos.inputs.count:,} records, most lag {self.most_lag:,}", *described])


def main() -> int:
    """One soak, on its own broker."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with (
        KafkaBroker(settings=BROKER, version=KAFKA) as broker,
        tempfile.TemporaryDirectory(prefix="stoatflow-soak-") as folder,
    ):
        kafka = KafkaTopics(broker.bootstrap)
        soak = Soak(kafka, "soak", Path(folder) / "state", given.seed, given.minutes)
        wrong = soak.run()
        # Printed first, because the checks read millions of records again.
        sys.stdout.write(f"{soak.report()}\n")
        sys.stdout.writelines(f"wrong: {what}\n" for what in wrong)
        sys.stdout.flush()
        right, text = check_results(kafka, soak.chaos)
    sys.stdout.write(f"{text}\n")
    return 0 if right and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())
