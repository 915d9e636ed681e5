"""A commit every few milliseconds, with kills: both transactional ids use up their epochs repeatedly.

`python tests/integration/chaos/commits.py --minutes 30` counts words line by line. Every update must appear once
and in order, each id must have had several producer ids, and memory, files and threads must not grow.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

if __package__ in {None, ""}:  # run as a script: the packages are in the folder above
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from broker.kafka_broker import KafkaBroker
from confluent_kafka import KafkaError, Message, Producer
from counting import by_hand, check_every_update, lines, table
from processes import Process
from topics import KafkaTopics
from transactions import batches_of

from chaos.harness import reported
from chaos.soak import Sample, growth, sample

KILL_EVERY_S = 60.0
SAMPLE_EVERY_S = 0.5
APP = """
import json, signal, sys, threading
from pathlib import Path
from counting import make

address, name, state, interval = sys.argv[1:]
stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
with make(address, name, Path(state), commit_interval_ms=int(interval)) as app:
    while not app.wait(0.2) and not stop.is_set():
        print(json.dumps({"commits": app.metrics()["commits"]}), flush=True)
"""


class Lines:
    """Writes lines at an interval, in its own thread, until stopped."""

    def __init__(self, bootstrap: str, topic: str, every_s: float) -> None:
        self.written: list[str] = []
        self._topic, self._every = topic, every_s
        # Idempotent: a request that is sent again after a time-out must not write its lines twice.
        settings = {"bootstrap.servers": bootstrap, "linger.ms": 0, "enable.idempotence": True}
        self._producer = Producer(settings)
        self._undelivered: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._write, name="lines")

    def __enter__(self) -> Lines:
        """Start writing."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop writing."""
        self.stop()

    def stop(self) -> None:
        """Stop; returns when all lines are written."""
        self._over.set()
        self._thread.join()
        assert self._producer.flush(60) == 0
        assert self._undelivered == []

    def _write(self) -> None:
        began = time.monotonic()
        while not self._over.is_set():
            line = lines(len(self.written), 1)[0]
            self.written.append(line)
            self._producer.produce(self._topic, line.encode(), on_delivery=self._delivered)
            self._producer.poll(0)
            # Lines that are overdue are written immediately.
            time.sleep(max(0.0, began + self._every * len(self.written) - time.monotonic()))

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._undelivered.append(str(error))


class CommitsSoak:
    """One application that commits as often as possible."""

    def __init__(self, kafka: KafkaTopics, name: str, folder: Path, *, minutes: float, interval_ms: int) -> None:
        self._kafka, self._name, self._folder = kafka, name, folder
        self._seconds, self._interval = minutes * 60, interval_ms
        self.kills = self.commits = self.words = 0
        self.steady: list[Sample] = []
        self.producers: Counter[int] = Counter()
        """Batches by producer id."""

    def run(self) -> list[str]:
        """Runs half of the time with kills, half without; returns what is wrong with the use of resources."""
        script = self._folder / "app.py"
        script.write_text(APP, "utf-8")
        for topic in ("in", "out"):
            self._kafka.create(f"{self._name}-{topic}")
        given = [script, self._kafka.address, self._name, self._folder / "state", self._interval]
        rng, began = random.Random(7), time.monotonic()
        out = f"{self._name}-out"
        with Lines(self._kafka.address, f"{self._name}-in", self._interval / 1000) as written:
            while (left := began + self._seconds / 2 - time.monotonic()) > 0:
                with Process(given) as child:
                    self._watch(child, min(left, rng.uniform(0.5, 1.5) * KILL_EVERY_S))
                    child.signal(signal.SIGKILL)
                    child.wait()
                    self.kills += 1
                    self._count(child)
            with Process(given) as child:
                self.steady = self._watch(child, began + self._seconds - time.monotonic())
                written.stop()
                # Each line is in the topic once: what is counted wrong is then the engine's.
                assert self._kafka.count(f"{self._name}-in") == len(written.written)
                expected = by_hand(written.written)
                self.words = sum(expected.values())
                child.until(lambda: self._kafka.count(out) >= self.words, "all is counted")
                child.until(lambda: table(self._kafka.read(out)) == expected, "it is counted right")
                child.signal(signal.SIGTERM)
                assert child.wait() == 0, child.reported()
                self._count(child)
        check_every_update(self._kafka.read(out), written.written)
        self.producers = Counter(batch.producer for batch in batches_of(self._kafka.address, out))
        return growth(self.steady)[2]

    def _watch(self, child: Process, seconds: float) -> list[Sample]:
        samples: list[Sample] = []
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            used = sample(child.pid)
            assert used is not None and child.code is None, child.reported()  # noqa: PT018 (one thing: it lives)
            samples.append(used)
            time.sleep(SAMPLE_EVERY_S)
        return samples

    def _count(self, child: Process) -> None:
        self.commits += int(str(reported(child).get("commits") or 0))

    def report(self) -> str:
        """Figures."""
        early, late, _ = growth(self.steady)
        return (
            f"{self._seconds / 60:.1f} min at a commit every {self._interval} ms: {self.kills} kills, {self.commits:,} "
            f"commits, {len(self.producers)} producer ids, {self.words:,} updates, each once and in order; "
            f"{early.mib:.0f} MiB warm and {late.mib:.0f} MiB at the end, {early.files} and {late.files} files, "
            f"{early.threads} and {late.threads} threads"
        )


def main() -> int:
    """One run, on a broker of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--interval-ms", type=int, default=7)
    parser.add_argument("--producers", type=int, default=2, help="so many producer ids there must have been at least")
    given = parser.parse_args()
    with KafkaBroker() as broker, tempfile.TemporaryDirectory(prefix="stoatflow-commits-") as folder:
        kafka = KafkaTopics(broker.bootstrap)
        soak = CommitsSoak(kafka, "commits", Path(folder), minutes=given.minutes, interval_ms=given.interval_ms)
        wrong = soak.run()
        if len(soak.producers) < given.producers:
            wrong.append(f"{len(soak.producers)} producer ids: fewer than {given.producers}")
    sys.stdout.write(f"{soak.report()}\n")
    sys.stdout.writelines(f"wrong: {what}\n" for what in wrong)
    sys.stdout.write(json.dumps({"producers": soak.producers}) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
