"""Word count with exactly-once: Kafka Streams and StoatFlow, both sides in one run on one broker.

`python benches/versus/word_count.py --lines 200000 --repeats 3`

Takes: a JDK, Maven, confluent-kafka, and StoatFlow installed in the interpreter.
Gives: a table of CPU seconds per million records, peak memory and ratios, and the same as JSON.
Owns: the broker (see tests/integration/broker) and the order of the runs.
Never: compares times before every final table was found equal to the true counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "integration"))

from broker.java_home import BrokerError, cache_dir, find_java  # noqa: E402
from broker.kafka_broker import KafkaBroker  # noqa: E402
from engines import ENGINES, KSTREAMS, Conditions, EngineError, Run, prepare, run_engine  # noqa: E402
from final_table import TableError, differences, read_final_table, table_hash  # noqa: E402
from machine import describe  # noqa: E402
from report import Measurement, as_json, as_text  # noqa: E402
from workload import Workload, fill_topic, true_counts  # noqa: E402

SOURCE = "lines"


def say(text: str) -> None:
    """Progress goes to stderr; stdout holds the result."""
    print(text, file=sys.stderr, flush=True)


def order_of(repeat: int, engines: list[str]) -> list[str]:
    """Alternating: each repeat begins with the next engine, so that none is always first or last."""
    shift = repeat % len(engines)
    return engines[shift:] + engines[:shift]


def checked(run: Run, bootstrap: str, sink: str, partitions: int, wanted: Mapping[str, int]) -> Run:
    """The run with its final table's hash, or an error that says what is wrong with the table."""
    table = read_final_table(bootstrap, sink, partitions)
    if table.hash != table_hash(wanted):
        wrong = "; ".join(differences(table.counts, wanted))
        raise TableError(f"{run.engine}, repeat {run.repeat}: the final table is wrong, no time is reported: {wrong}")
    return replace(run, output_records=table.records, table_hash=table.hash)


def measure(options: argparse.Namespace, engines: list[str], load: Workload) -> tuple[list[Measurement], Conditions]:
    """All runs, each with a checked result."""
    loads = {"short": replace(load, lines=max(1, load.lines // 4)), "full": load}
    wanted = {length: true_counts(part) for length, part in loads.items()}
    with KafkaBroker() as broker:
        for length, part in loads.items():
            say(f"Kafka at {broker.bootstrap}: writing {part.lines} lines")
            broker.create_topic(f"lines-{length}", part.partitions)
            fill_topic(broker.bootstrap, f"lines-{length}", part)
        at = Conditions(
            bootstrap=broker.bootstrap,
            broker_pid=broker.pid,
            commit_interval_ms=options.commit_interval_ms,
            cache_bytes=options.cache_bytes,
            guarantee=options.guarantee,
            threads=options.threads,
            timeout_s=options.timeout,
            python=options.python,
        )

        def one_run(name: str, repeat: int, length: str) -> Run:
            sink, part = f"counts-{name}-{length}-{repeat}", loads[length]
            broker.create_topic(sink, part.partitions)
            run = run_engine(name, repeat, at, part.lines, f"lines-{length}", sink)
            run = checked(run, at.bootstrap, sink, part.partitions, wanted[length])
            say(
                f"repeat {repeat + 1} of {options.repeats}, {name:9} {run.records:9} lines: {run.seconds:6.1f} s, "
                f"{run.process_cpu_seconds:6.1f} CPU s, {run.peak_rss_kb / 1024:6.0f} MB, table right"
            )
            return run

        turns = [(repeat, name) for repeat in range(options.repeats) for name in order_of(repeat, engines)]
        lengths = ("short", "full")
        return [Measurement(*(one_run(name, repeat, length) for length in lengths)) for repeat, name in turns], at


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Word count: StoatFlow against Kafka Streams, on one broker.")
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engines", default=",".join(ENGINES), help="comma-separated, of: %(default)s")
    parser.add_argument("--commit-interval-ms", type=int, default=100)
    parser.add_argument("--cache-bytes", type=int, default=10 * 1024 * 1024)
    parser.add_argument("--guarantee", choices=["exactly_once_v2", "at_least_once"], default="exactly_once_v2")
    parser.add_argument("--threads", type=int, default=2, help="num.stream.threads of Kafka Streams")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds that one run may take")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has StoatFlow")
    parser.add_argument("--json", type=Path, default=cache_dir() / "versus" / "word_count.json", help="where JSON goes")
    options = parser.parse_args()
    unknown = sorted(set(options.engines.split(",")) - set(ENGINES))
    if unknown:
        parser.error(f"unknown engine {unknown[0]!r}; there are {', '.join(ENGINES)}")
    if options.lines < 8 or options.repeats < 1:
        parser.error("--lines must be at least 8, --repeats at least 1")
    return options


def main() -> int:
    """Measures, prints, writes."""
    options = arguments()
    engines = list(dict.fromkeys(options.engines.split(",")))
    load = Workload(options.lines, options.seed)
    began = time.monotonic()
    try:
        prepare(engines, options.python)
        measured, at = measure(options, engines, load)
    except (BrokerError, EngineError, TableError) as error:
        say(f"error: {error}")
        return 1
    machine = describe(find_java())
    conditions = {
        "lines": load.lines,
        "seed": load.seed,
        "partitions": load.partitions,
        "repeats": options.repeats,
        "commit.interval.ms": at.commit_interval_ms,
        "statestore.cache.max.bytes": at.cache_bytes,
        "processing.guarantee": at.guarantee,
        "kafka_streams": f"4.1.1, {at.threads} threads, -Xmx1g",
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(as_json(measured, machine, conditions), indent=2) + "\n")
    print("\nmachine: " + ", ".join(f"{key} {value}" for key, value in machine.items()))
    print("conditions: " + ", ".join(f"{key} {value}" for key, value in conditions.items()))
    print(as_text(measured))
    if KSTREAMS not in engines:
        print("no ratios: Kafka Streams did not run (--engines)")
    print(f"all {2 * len(measured)} final tables equal the true counts; {time.monotonic() - began:.0f} s in all")
    print(f"JSON: {options.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
