"""Point queries over HTTP while input is read: Kafka Streams and StoatFlow, both sides in one run on one broker.

`python benches/versus/queries.py --records 2000000 --rounds 3`

Needs a JDK, Maven, confluent-kafka, and StoatFlow installed in the interpreter. Each engine sums a value per key,
exactly once, with its defaults, and answers `GET /stores/revenue/<key>`: Kafka Streams by the JDK's HTTP server in
front of its interactive queries, with as many threads as StoatFlow reads with. 16 connections ask for 2,000 keys a
second from a process of their own; latency counts from when a request was due. Prints for each engine the records per
second without and with queries, the CPU seconds of its process per million records, and the latency of answers. On a
machine with few cores the clients take CPU from the engines; their share is printed. Owns the broker, the input, and
the order of runs.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "integration"))

import kstreams_build  # noqa: E402
from bench_broker import bench_broker  # noqa: E402
from broker.java_home import BrokerError, cache_dir, find_java  # noqa: E402
from confluent_kafka import Consumer, TopicPartition  # noqa: E402
from engines import EngineError  # noqa: E402
from machine import describe, process_cpu  # noqa: E402
from restore import KSTREAMS, SIDES, say, write  # noqa: E402
from stopping import stop_with_all_of_it  # noqa: E402

SOURCE, PARTITIONS, KEYS = "orders", 4, 100_000
CLIENT = ROOT / "benches" / "scaling" / "http_queries.py"
START_S = 120.0


@dataclass(frozen=True)
class Round:
    """One engine that read the input once."""

    engine: str
    number: int
    records_per_s: float
    cpu_per_million: float
    queries: dict[str, Any] = field(default_factory=dict)


def orders(count: int) -> Iterator[tuple[bytes, bytes]]:
    """Keys and values."""
    chance = random.Random(1)
    value = struct.pack(">q", 1)
    return ((f"customer-{chance.randrange(KEYS)}".encode(), value) for _ in range(count))


def command(engine: str, bootstrap: str, application: str, state: str, options: argparse.Namespace) -> list[str]:
    """The command that starts an engine."""
    if engine == KSTREAMS:
        return [
            str(find_java()), "-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
            # Without it, head and body are sent apart, and each answer waits for a delayed acknowledgement.
            "-Dsun.net.httpserver.nodelay=true", "-cp", kstreams_build.class_path(), "stoatflow.versus.Queried",
            bootstrap, application, SOURCE, str(options.threads), state,
        ]  # fmt: skip
    return [
        options.python, str(Path(__file__).resolve().parent / "stoatflow_queried.py"), "--bootstrap", bootstrap,
        "--application-id", application, "--input", SOURCE, "--state-dir", state,
    ]  # fmt: skip


def wait_until_committed(bootstrap: str, application: str, count: int, process: subprocess.Popen[bytes]) -> None:
    """Return once the group has committed all input."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": application, "log_level": 3})
    partitions = [TopicPartition(SOURCE, number) for number in range(PARTITIONS)]
    ends = sum(consumer.get_watermark_offsets(each, timeout=10)[1] for each in partitions)
    # The input is written without transactions, so the ends count its records only.
    if ends != count:
        raise EngineError(f"the input ends at {ends}, not at {count}")
    try:
        while sum(max(each.offset, 0) for each in consumer.committed(partitions, timeout=10)) < count:
            if process.poll() is not None:
                raise EngineError(f"{application} ended before its input")
            time.sleep(0.05)
    finally:
        consumer.close()


def run(engine: str, number: int, bootstrap: str, rate: int, options: argparse.Namespace) -> Round:
    """Start an engine, let it read everything, and kill it."""
    application = f"queried-{engine}-{number}-{rate}"
    folder = Path(tempfile.mkdtemp(prefix="stoatflow-queries-"))
    log, client = folder / "log", None
    start = command(engine, bootstrap, application, str(folder / "state"), options)
    with log.open("ab") as err:
        process = subprocess.Popen(start, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=err)
    try:
        ready, _, _ = select.select([process.stdout], [], [], START_S)
        line = process.stdout.readline() if ready and process.stdout else b""
        if not line:
            raise EngineError(f"{engine} did not say that it runs; its log:\n{log.read_text()[-3000:]}")
        began, cpu = time.monotonic(), process_cpu(process.pid)
        if rate:
            ask = [sys.executable, str(CLIENT), "--client", json.loads(line)["url"], "--rate", str(rate)]
            ask += ["--connections", str(options.connections)]
            client = subprocess.Popen(ask, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        wait_until_committed(bootstrap, application, options.records, process)
        seconds, cpu = time.monotonic() - began, process_cpu(process.pid) - cpu
        answers = json.loads(client.communicate("", timeout=60)[0]) if client else {}
    finally:
        for each in (client, process):
            if each is not None:
                each.kill()
                each.wait()
                if each.stdout:
                    each.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)
    return Round(engine, number, options.records / seconds, cpu / options.records * 1e6, answers)


def measure(bootstrap: str, names: Sequence[str], options: argparse.Namespace) -> list[Round]:
    """All rounds; engines in turn, each without queries and then with."""
    rounds = []
    for number in range(options.rounds):
        for engine in names if number % 2 == 0 else reversed(names):
            for rate in (0, options.rate):
                one = run(engine, number, bootstrap, rate, options)
                say(f"round {number + 1}, {engine:9} {json.dumps(asdict(one))}")
                rounds.append(one)
    return rounds


def table(rounds: Sequence[Round]) -> str:
    """Medians."""
    lines = []
    for engine in dict.fromkeys(one.engine for one in rounds):
        without = [one for one in rounds if one.engine == engine and not one.queries]
        beside = [one for one in rounds if one.engine == engine and one.queries]
        alone, both = (statistics.median(one.records_per_s for one in group) for group in (without, beside))
        cpu, more = (statistics.median(one.cpu_per_million for one in group) for group in (without, beside))
        p50, p99 = (statistics.median(one.queries[name] for one in beside) for name in ("p50_ms", "p99_ms"))
        found = sum(one.queries["codes"].get("200", 0) for one in beside)
        asked = sum(sum(one.queries["codes"].values()) for one in beside)
        lines.append(
            f"{engine:9} {alone:10,.0f} records/s without, {both:10,.0f} beside queries ({both / alone - 1:+.0%}); "
            f"CPU s per million {cpu:.2f}, {more:.2f}; answers P50 {p50:.1f} ms, P99 {p99:.1f} ms, "
            f"{statistics.median(one.queries['per_s'] for one in beside):,.0f} a second, {found:,} of {asked:,} found; "
            f"clients used {statistics.median(one.queries['client_cpu_share'] for one in beside):.2f} cores"
        )
    return "\n".join(lines)


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description="Point queries over HTTP: StoatFlow against Kafka Streams.")
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=int, default=2_000, help="queries a second")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--engines", default=",".join(SIDES), help="comma-separated, of: %(default)s")
    parser.add_argument("--threads", type=int, default=2, help="num.stream.threads of Kafka Streams")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has StoatFlow")
    parser.add_argument("--json", type=Path, default=cache_dir() / "versus" / "queries.json", help="where JSON goes")
    options = parser.parse_args()
    names = list(dict.fromkeys(options.engines.split(",")))
    if unknown := sorted(set(names) - set(SIDES)):
        parser.error(f"unknown engine {unknown[0]!r}; there are {', '.join(SIDES)}")
    try:
        if KSTREAMS in names:
            kstreams_build.class_path()
        with bench_broker() as broker:
            broker.create_topic(SOURCE, PARTITIONS)
            say(f"Kafka at {broker.bootstrap}: writing {options.records:,} records")
            write(broker.bootstrap, SOURCE, orders(options.records))
            rounds = measure(broker.bootstrap, names, options)
    except (BrokerError, EngineError) as error:
        say(f"error: {error}")
        return 1
    machine = describe(find_java()) | {"load": os.getloadavg()[0]}
    conditions = {name: getattr(options, name) for name in ("records", "rounds", "rate", "connections", "threads")}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    report = {"benchmark": "queries", "machine": machine, "conditions": conditions, "runs": [asdict(r) for r in rounds]}
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    for name, facts in (("machine", machine), ("conditions", conditions)):
        print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in facts.items()))
    print(table(rounds))
    print(f"JSON: {options.json}")
    return 0


if __name__ == "__main__":
    stop_with_all_of_it()
    sys.exit(main())
