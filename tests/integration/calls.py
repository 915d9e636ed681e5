"""What the tests of slow functions share: keyed input, the run with kills, and what must hold of its output."""

from __future__ import annotations

import random
import signal
import threading
import time
import urllib.request
from pathlib import Path
from statistics import quantiles

from confluent_kafka import KafkaException, Producer
from counting import until
from processes import Process
from topics import KafkaTopics

HERE = Path(__file__).resolve().parent
PARTITIONS = 8


class Probe:
    """Asks `/health/live` twenty times a second, and remembers how long each answer took."""

    def __init__(self, url: str) -> None:
        self._url = f"{url}health/live"
        self._stop = threading.Event()
        self.took_ms: list[float] = []
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def __enter__(self) -> Probe:
        """Begin."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self._stop.set()
        self._thread.join(10)

    def _ask(self) -> None:
        while not self._stop.wait(0.05):
            began = time.monotonic()
            with urllib.request.urlopen(self._url, timeout=10) as answer:  # noqa: S310  # its own port
                assert answer.status == 200
            self.took_ms.append((time.monotonic() - began) * 1000)

    @property
    def words(self) -> str:
        """Median, 99th percentile and most, in milliseconds."""
        cuts = quantiles(self.took_ms, n=100)
        return f"/health/live p50 {cuts[49]:.1f} p99 {cuts[98]:.1f} most {max(self.took_ms):.1f} ms"


def write(kafka: KafkaTopics, name: str, first: int, records: int, keys: int) -> None:
    """Append records whose values count up within each key: `key:number`."""
    producer = Producer({"bootstrap.servers": kafka.address, "linger.ms": 5, "acks": "all", "log_level": 0})
    for number in range(first, first + records):
        key = f"k{number % keys}"
        while True:
            try:
                producer.produce(f"{name}-in", f"{key}:{number}".encode(), key=key.encode())
                break
            except BufferError:
                producer.poll(0.05)
    assert producer.flush(30) == 0


def create(kafka: KafkaTopics, name: str) -> None:
    """Make both topics."""
    for topic in ("in", "out"):
        kafka.create(f"{name}-{topic}", PARTITIONS)
        until(lambda of=f"{name}-{topic}": written(kafka, of) == 0, "it has leaders")  # type: ignore[misc]


def written(kafka: KafkaTopics, topic: str) -> int:
    """How far a topic has come, at little cost: with what is not committed yet, and the ends of transactions."""
    try:
        return sum(kafka.ends(topic).values())
    except KafkaException:
        return -1


def child(kafka: KafkaTopics, name: str, state: Path, kind: str, lanes: int, seconds: float) -> Process:
    """The application."""
    return Process([HERE / "calling.py", kafka.address, name, state, kind, lanes, seconds])


def admin_url(running: Process) -> str:
    """Where it answers, once it runs."""
    running.until(lambda: any(line.startswith("RUNNING ") for line in running.lines), "it runs")
    return next(line.split()[1] for line in running.lines if line.startswith("RUNNING "))


def check(kafka: KafkaTopics, name: str, records: int) -> None:
    """Each record is there once, those of a key in their order."""
    rows = kafka.read(f"{name}-out")
    assert len(rows) == records
    last: dict[bytes, int] = {}
    for row in rows:
        assert row.key is not None
        assert row.value is not None
        key, _, number = row.value.decode().partition(":")
        assert key.encode() == row.key
        assert last.get(row.key, -1) < int(number), f"{row.value!r} came after {last[row.key]}"
        last[row.key] = int(number)
    numbers = sorted(int((row.value or b"").decode().partition(":")[2]) for row in rows)
    assert numbers == list(range(records)), "each once"


def rate(kafka: KafkaTopics, name: str, running: Process, from_share: float, records: int) -> float:
    """Records per second between that share of them and all but a tenth: neither start nor tail."""
    first, last = int(records * from_share), int(records * 0.9)
    topic = f"{name}-out"
    until(lambda: written(kafka, topic) >= first, "it is at work", 60)
    began, at = time.monotonic(), written(kafka, topic)
    until(lambda: written(kafka, topic) >= last, "it goes on", 60)
    done, took = written(kafka, topic), time.monotonic() - began
    assert running.code is None, running.told()
    return (done - at) / took


def kill_and_finish(
    kafka: KafkaTopics, name: str, state: Path, kind: str, lanes: int, seconds: float, records: int, seed: int
) -> None:
    """Kill it five times while it works, with other lane counts in between, then let it finish."""
    rng = random.Random(seed)
    topic = f"{name}-out"
    for _ in range(5):
        with child(kafka, name, state, kind, rng.choice([lanes, max(lanes // 3, 1)]), seconds) as running:
            # Records of transactions that a kill leaves open count too: it always meets work under way.
            goal = written(kafka, topic) + rng.randint(1, records // 10)
            running.until(lambda goal=goal: written(kafka, topic) >= goal, "it is at work")  # type: ignore[misc]
            running.signal(signal.SIGKILL)
            running.wait()
    assert kafka.count(topic) < records, "the kills came too late"
    with child(kafka, name, state, kind, lanes, seconds) as running:
        until(lambda: written(kafka, topic) >= records and kafka.count(topic) >= records, "all is written", 60)
        running.signal(signal.SIGTERM)
        assert running.wait() == 0, running.told()
    check(kafka, name, records)
