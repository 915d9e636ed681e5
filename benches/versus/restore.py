"""Restore of a large store: Kafka Streams and StoatFlow, both sides in one run on one broker.

`python benches/versus/restore.py --keys 2000000 --repeats 3`

Needs a JDK, Maven, confluent-kafka, and StoatFlow installed in the interpreter. Prints, for each side, the time from
start() to RUNNING with an empty state directory (cold), and after SIGKILL during processing with the directory intact
(warm), CPU seconds, peak memory, and ratios; the same as JSON. Owns the broker, the changelogs (the same keys and
values for both sides) and the order of the runs. Restored stores are verified: after the warm start, the counts that
continue from them must be correct.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "integration"))

import kstreams_build  # noqa: E402
from bench_broker import bench_broker  # noqa: E402
from broker.java_home import BrokerError, cache_dir, find_java  # noqa: E402
from broker.kafka_broker import KafkaBroker  # noqa: E402
from confluent_kafka import KafkaError, Message, Producer  # noqa: E402
from engines import EngineError  # noqa: E402
from final_table import TableError, differences, read_final_table  # noqa: E402
from machine import describe, machine_cpu, process_cpu  # noqa: E402
from stopping import stop_with_all_of_it  # noqa: E402

KSTREAMS, STOATFLOW = "kstreams", "native"
SIDES = (KSTREAMS, STOATFLOW)
PARTITIONS = 8
KEYS, FEED = 2_000_000, 20_000
# A step coprime to any round number of keys: every key once, in pseudo-random order.
STRIDE = 1_299_709
METRICS = (
    ("seconds", "s from start() to RUNNING"),
    ("launch_seconds", "s from launch to RUNNING"),
    ("restore_seconds", "s of restoring"),
    ("cpu_seconds", "CPU s until RUNNING"),
    ("peak_rss_mb", "peak RSS, MB"),
    ("broker_cpu_seconds", "CPU s of the broker"),
    ("other_cores", "cores used by others"),
)


def say(text: str) -> None:
    """Print progress on stderr; stdout is for the result."""
    print(text, file=sys.stderr, flush=True)


def key_of(number: int) -> str:
    """The key of a number."""
    return f"customer-{number:09d}"


def start_value(number: int) -> int:
    """The key's value in the changelog."""
    return number % 1000 + 1


def write(bootstrap: str, topic: str, records: Iterable[tuple[bytes, bytes]]) -> None:
    """Write records, partitioned as Java's clients do."""
    refused: list[str] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "linger.ms": 20,
            "queue.buffering.max.messages": 500_000,
            "log_level": 3,
        }
    )
    for number, (key, value) in enumerate(records):
        while True:
            try:
                producer.produce(topic, key=key, value=value, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(120)
    if left or refused:
        raise EngineError(f"{left} records were not delivered, {len(refused)} refused: {refused[:1]}")


@dataclass(frozen=True)
class Task:
    """What is restored, by which engines, how often: the same for both sides."""

    keys: int
    feed: int
    repeats: int
    threads: int
    timeout_s: float
    python: str


class Side:
    """One engine with its topics and its expected counts."""

    def __init__(self, name: str, broker: KafkaBroker, task: Task) -> None:
        """Create nothing on the broker yet."""
        self.name, self.broker, self.task = name, broker, task
        self.application = f"restore-{name}"
        self.source, self.sink = f"{name}-in", f"{name}-out"
        self.fed: Counter[int] = Counter()
        self.folder = Path(tempfile.mkdtemp(prefix=f"stoatflow-restore-{name}-"))

    def fill(self) -> None:
        """Create the topics, and write the changelog as an application would have left it."""
        keys = self.task.keys
        changelog = f"{self.application}-counts-changelog"
        for topic in (self.source, self.sink):
            self.broker.create_topic(topic, PARTITIONS)
        self.broker.create_topic(changelog, PARTITIONS, {"cleanup.policy": "compact"})
        numbers = (number * STRIDE % keys for number in range(keys))
        rows = ((key_of(n).encode(), struct.pack(">q", start_value(n))) for n in numbers)
        write(self.broker.bootstrap, changelog, rows)

    def feed(self, repeat: int, part: int) -> None:
        """Write input for some keys, so that there is work when the engine is killed."""
        first = (repeat * 2 + part) * self.task.feed
        numbers = [(first + n) * STRIDE % self.task.keys for n in range(self.task.feed)]
        write(self.broker.bootstrap, self.source, ((key_of(n).encode(), b"x") for n in numbers))
        self.fed.update(numbers)

    def check(self, timeout: float = 90.0) -> None:
        """Check the counts that continue from the restored ones."""
        wanted = {key_of(n): start_value(n) + times for n, times in self.fed.items()}
        deadline = time.monotonic() + timeout
        wrong: list[str] = []
        while time.monotonic() < deadline:
            time.sleep(0.3)
            try:
                wrong = differences(read_final_table(self.broker.bootstrap, self.sink, PARTITIONS).rows, wanted)
            except TableError as error:  # a transaction is open
                wrong = [str(error)]
            if not wrong:
                return
        raise TableError(f"{self.name}: the counts after the restart are wrong, no time is reported: {wrong}")

    def command(self) -> list[str]:
        """The command that starts it."""
        state = str(self.folder / "state")
        if self.name == KSTREAMS:
            return [
                str(find_java()), "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                "-cp", kstreams_build.class_path(), "stoatflow.versus.Restore", self.broker.bootstrap,
                self.application, self.source, self.sink, str(self.task.threads), state,
            ]  # fmt: skip
        return [
            self.task.python, str(Path(__file__).resolve().parent / "stoatflow_restore.py"),
            "--bootstrap", self.broker.bootstrap, "--application-id", self.application, "--input", self.source,
            "--output", self.sink, "--state-dir", state,
        ]  # fmt: skip

    @contextmanager
    def run(self) -> Iterator[dict[str, Any]]:
        """Start it and return what it reports once it runs; it is killed at the end, as in a crash."""
        command, log = self.command(), self.folder / "log"
        broker, everything = process_cpu(self.broker.pid), machine_cpu()
        began = time.monotonic()
        with log.open("ab") as err:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err)
        if process.stdout is None:
            raise EngineError("a pipe was asked for and is not there")
        try:
            line = _line(process.stdout, self.task.timeout_s)
            if not line:
                raise EngineError(f"{self.name} did not say that it runs; its log:\n{log.read_text()[-3000:]}")
            output: dict[str, Any] = json.loads(line)
            wall = time.monotonic() - began
            output["launch_seconds"] = round(wall, 3)
            output["peak_rss_mb"] = round(output.pop("peak_rss_kb") / 1024, 1)
            output["broker_cpu_seconds"] = round(process_cpu(self.broker.pid) - broker, 2)
            others = machine_cpu() - everything - output["broker_cpu_seconds"] - output["cpu_seconds"]
            output["other_cores"] = round(max(0.0, others) / wall, 2)
            yield output
        finally:
            process.kill()
            process.wait()
            process.stdout.close()


def _line(stream: IO[bytes], timeout: float) -> bytes:
    """The first line; empty if none arrives in time."""
    ready, _, _ = select.select([stream], [], [], timeout)
    return stream.readline() if ready else b""


def one_repeat(side: Side, repeat: int) -> Restored:
    """Cold start, kill during processing, warm start."""
    shutil.rmtree(side.folder / "state", ignore_errors=True)
    with side.run() as cold:
        side.feed(repeat, 0)
        time.sleep(1.0)
        side.feed(repeat, 1)
    with side.run() as warm:
        side.check()
    for kind, found in (("cold", cold), ("warm", warm)):
        say(f"repeat {repeat + 1}, {side.name:9} {kind}: " + ", ".join(f"{k} {found[k]}" for k, _ in METRICS))
    return Restored(side.name, repeat, side.task.keys, cold, warm)


@dataclass(frozen=True)
class Restored:
    """One side in one repeat."""

    engine: str
    repeat: int
    keys: int
    cold: dict[str, Any]
    warm: dict[str, Any]

    def as_runs(self) -> list[dict[str, Any]]:
        """For JSON."""
        return [asdict(self)]


@dataclass
class Outcome:
    """The measurements, and the errors of sides that failed and have no figures."""

    restored: list[Restored] = field(default_factory=list)
    wrong: dict[str, str] = field(default_factory=dict)


def _take(outcome: Outcome, side: Side, repeat: int) -> None:
    outcome.restored.append(one_repeat(side, repeat))


def measure(names: list[str], broker: KafkaBroker, task: Task) -> Outcome:
    """Run all repeats on a running broker, sides in turn; one that fails once has no figures, the other continues."""
    outcome = Outcome()
    sides = [Side(name, broker, task) for name in names]

    def attempt(side: Side, what: Callable[[], None]) -> None:
        if side.name in outcome.wrong:
            return
        try:
            what()
        except (BrokerError, EngineError, TableError) as error:
            say(f"error: {error}")
            outcome.wrong[side.name] = str(error)

    try:
        for side in sides:
            say(f"Kafka at {broker.bootstrap}: writing the changelog of {side.name}, {task.keys} keys")
            attempt(side, side.fill)
        for repeat in range(task.repeats):
            shift = repeat % len(sides)
            for side in sides[shift:] + sides[:shift]:
                attempt(side, partial(_take, outcome, side, repeat))
    finally:
        for side in sides:
            shutil.rmtree(side.folder, ignore_errors=True)
    outcome.restored = [one for one in outcome.restored if one.engine not in outcome.wrong]
    return outcome


def table(restored: Sequence[Restored]) -> str:
    """Medians and paired ratios."""
    lines = []
    for kind in ("cold", "warm"):
        title = "cold: empty state directory" if kind == "cold" else "warm: after SIGKILL, state directory intact"
        lines += ["", f"{title:44} {'min':>9} {'median':>9} {'max':>9}   Kafka Streams / this (min median max)"]
        for metric, words in METRICS:
            values = {(one.engine, one.repeat): getattr(one, kind)[metric] for one in restored}
            for name in SIDES:
                found = [value for (engine, _), value in values.items() if engine == name]
                if not found:
                    continue
                row = f"  {words:28} {name:13} {min(found):9.2f} {statistics.median(found):9.2f} {max(found):9.2f}"
                ratios = [
                    values[KSTREAMS, repeat] / value
                    for (engine, repeat), value in values.items()
                    if engine == name == STOATFLOW and (KSTREAMS, repeat) in values and value
                ]
                if ratios and metric not in {"broker_cpu_seconds", "other_cores"}:
                    row += f"   {min(ratios):.1f}x {statistics.median(ratios):.1f}x {max(ratios):.1f}x"
                lines.append(row)
    return "\n".join(lines)


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description="Restore: StoatFlow against Kafka Streams, on one broker.")
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--feed", type=int, default=FEED, help="input records before and at the kill")
    parser.add_argument("--engines", default=",".join(SIDES), help="comma-separated, of: %(default)s")
    parser.add_argument("--threads", type=int, default=2, help="num.stream.threads of Kafka Streams")
    parser.add_argument("--timeout", type=float, default=180.0, help="seconds that one start may take")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has StoatFlow")
    parser.add_argument("--json", type=Path, default=cache_dir() / "versus" / "restore.json", help="where JSON goes")
    options = parser.parse_args()
    unknown = sorted(set(options.engines.split(",")) - set(SIDES))
    if unknown:
        parser.error(f"unknown engine {unknown[0]!r}; there are {', '.join(SIDES)}")
    if options.repeats < 1:
        parser.error("--repeats must be at least 1")
    if why := refused_keys(options.keys):
        parser.error(why)
    return options


def refused_keys(keys: int) -> str | None:
    """Why this many keys can't be restored; `None` if they can."""
    return "--keys must be at least 2, and no multiple of 1299709" if keys < 2 or keys % STRIDE == 0 else None


def main() -> int:
    """Measure, print, write."""
    options = arguments()
    names = list(dict.fromkeys(options.engines.split(",")))
    task = Task(options.keys, options.feed, options.repeats, options.threads, options.timeout, options.python)
    began = time.monotonic()
    try:
        if KSTREAMS in names:
            kstreams_build.class_path()
        with bench_broker() as broker:
            outcome = measure(names, broker, task)
    except (BrokerError, EngineError) as error:
        say(f"error: {error}")
        return 1
    machine = describe(find_java()) | {"load": os.getloadavg()[0]}
    conditions = {
        "keys": options.keys,
        "partitions": PARTITIONS,
        "repeats": options.repeats,
        "threads": options.threads,
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    runs = [run for one in outcome.restored for run in one.as_runs()]
    report = {
        "benchmark": "restore",
        "machine": machine,
        "conditions": conditions,
        "runs": runs,
        "wrong": outcome.wrong,
    }
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    print("\nmachine: " + ", ".join(f"{key} {value}" for key, value in machine.items()))
    print("conditions: " + ", ".join(f"{key} {value}" for key, value in conditions.items()))
    print(table(outcome.restored))
    for why in outcome.wrong.values():
        print(f"FAILED, so without figures: {why}")
    print(f"all counts behind these figures went on from the restored ones; {time.monotonic() - began:.0f} s in all")
    print(f"JSON: {options.json}")
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    stop_with_all_of_it()
    sys.exit(main())
