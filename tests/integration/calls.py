"""What the tests of slow functions share: keyed input, the run with kills, and the checks of its output."""

from __future__ import annotations

import random
import signal
import threading
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles

from confluent_kafka import KafkaException, Producer
from counting import until
from processes import Process
from topics import KafkaTopics

HERE = Path(__file__).resolve().parent
PARTITIONS = 8
# Seconds per call. While kills are still to come, calls are slow, so that all the work takes far longer
# than the test may be held up; after that the rest must finish soon.
SLOW, FAST = 1.0, 0.05
_64 = (1 << 64) - 1


class Probe:
    """Requests `/health/live` twenty times a second, and records how long each answer took."""

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
            with urllib.request.urlopen(self._url, timeout=60) as answer:  # noqa: S310  # its own port
                assert answer.status == 200
            self.took_ms.append((time.monotonic() - began) * 1000)

    @property
    def words(self) -> str:
        """Median, 99th percentile and most, in milliseconds."""
        cuts = quantiles(self.took_ms, n=100)
        return f"/health/live p50 {cuts[49]:.1f} p99 {cuts[98]:.1f} most {max(self.took_ms):.1f} ms"


def lane_of(key: bytes, lanes: int) -> int:
    """The lane of a key of eight bytes, as in the engine (`operators/src/support/lane_hash.rs`)."""

    def fold(one: int, two: int) -> int:
        product = one * two
        return (product & _64) ^ (product >> 64)

    assert len(key) == 8
    eight = int.from_bytes(key, "little")
    state = fold(0x8EBC_6AF0_9C88_C6E3 ^ 8, fold(eight ^ 0xE703_7ED1_A0B4_28DB, eight ^ 0xA076_1D64_78BD_642F))
    lane, following = 0, 0
    while following < lanes:
        lane = following
        state = (state * 2_862_933_555_777_941_757 + 1) & _64
        following = int((lane + 1) * (float(1 << 31) / float((state >> 33) + 1)))
    return lane


def even_keys(lanes: int, each: int) -> list[str]:
    """The same number of keys for every lane, so that the lanes are measured and not the luck of the keys."""
    of_lane: list[list[str]] = [[] for _ in range(lanes)]
    number = 0
    while any(len(keys) < each for keys in of_lane):
        key, number = f"k{number:07d}", number + 1
        keys = of_lane[lane_of(key.encode(), lanes)]
        if len(keys) < each:
            keys.append(key)
    return [keys[at] for at in range(each) for keys in of_lane]


def write(kafka: KafkaTopics, name: str, records: int, keys: Sequence[str]) -> None:
    """Append records, key after key, with values that count up: `key:number`."""
    producer = Producer({"bootstrap.servers": kafka.address, "linger.ms": 5, "acks": "all", "log_level": 0})
    for number in range(records):
        key = keys[number % len(keys)]
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
    """The end of a topic, cheaply: counts uncommitted records and transaction markers."""
    try:
        return sum(kafka.ends(topic).values())
    except KafkaException:
        return -1


def child(
    kafka: KafkaTopics,
    name: str,
    state: Path,
    kind: str,
    lanes: int,
    seconds: float,
    guarantee: str = "exactly_once_v2",
) -> Process:
    """The application."""
    return Process([HERE / "calling.py", kafka.address, name, state, kind, lanes, seconds, guarantee])


def admin_url(running: Process) -> str:
    """The address of the admin port, once the application runs."""
    running.until(lambda: any(line.startswith("RUNNING ") for line in running.lines), "it runs")
    return next(line.split()[1] for line in running.lines if line.startswith("RUNNING "))


def check(kafka: KafkaTopics, name: str, records: int) -> None:
    """Each record is there once, those of a key in order."""
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
    """Records per second between that share of them and 90 %: without start and tail."""
    first, last = int(records * from_share), int(records * 0.9)
    topic = f"{name}-out"
    until(lambda: written(kafka, topic) >= first, "it is at work")
    began, at = time.monotonic(), written(kafka, topic)
    until(lambda: written(kafka, topic) >= last, "it goes on")
    done, took = written(kafka, topic), time.monotonic() - began
    assert running.code is None, running.reported()
    return (done - at) / took


def kill_and_finish(kafka: KafkaTopics, name: str, state: Path, kind: str, lanes: int, records: int, seed: int) -> None:
    """Kill it five times while it works, with other lane counts in between, then let it finish.

    Calls take longer until the last kill, because a fast machine would be done before it.
    """
    rng = random.Random(seed)
    topic = f"{name}-out"
    for _ in range(5):
        with child(kafka, name, state, kind, rng.choice([lanes, max(lanes // 3, 1)]), SLOW) as running:
            # Records of transactions that a kill leaves open count too, so a kill always hits work in
            # progress.
            goal = written(kafka, topic) + rng.randint(1, records // 12)
            running.until(lambda goal=goal: written(kafka, topic) >= goal, "it is at work")  # type: ignore[misc]
            running.signal(signal.SIGKILL)
            running.wait()
    assert kafka.count(topic) < records, "the kills came too late"
    with child(kafka, name, state, kind, lanes, FAST) as running:
        until(lambda: written(kafka, topic) >= records and kafka.count(topic) >= records, "all is written", 120)
        running.signal(signal.SIGTERM)
        assert running.wait() == 0, running.reported()
    check(kafka, name, records)
