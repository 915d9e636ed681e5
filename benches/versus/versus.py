"""Seven jobs on Kafka Streams, StoatFlow and others, exactly once, all in one run on one broker.

`python benches/versus/versus.py --workloads w1,w3 --records 200000 --repeats 3`

Needs a JDK, Maven, confluent-kafka, and StoatFlow installed in the interpreter. Prints, for each workload, a table of
CPU seconds per million records, memory, speed, bytes on the broker and ratios; the same as JSON, as Markdown, and as
pictures. Owns the broker (see tests/integration/broker) and the order of the runs. Times are compared only after every
output was verified; engines that are left out are reported.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "integration"))

import page  # noqa: E402
import restore  # noqa: E402
import restore_row  # noqa: E402
from bench_broker import LISTENERS, AnyBroker, bench_broker  # noqa: E402
from broker.java_home import BrokerError, cache_dir, find_java  # noqa: E402
from broker.kafka_broker import KafkaBroker  # noqa: E402
from broker_bytes import KEEP_DELETED, bytes_of  # noqa: E402
from conditions import Conditions, add_arguments, names  # noqa: E402
from engines import ENGINES, FLAVOURS, KSTREAMS, USUAL, Available, EngineError, Job, Run, prepare, run_engine  # noqa: E402
from filling import FillingError, fill_topic  # noqa: E402
from final_table import TableError, differences, read_final_table, table_hash  # noqa: E402
from machine import describe  # noqa: E402
from peers import PEERS  # noqa: E402
from report import Measurement, Results, as_json, as_text, notes_on  # noqa: E402
from stopping import stop_with_all_of_it  # noqa: E402
from workloads import WORKLOADS  # noqa: E402
from workloads.reading import Cell  # noqa: E402
from workloads.workload import Load, Workload  # noqa: E402

TITLES = {one.name: one.title for one in WORKLOADS.values()} | {restore_row.WORKLOAD.name: restore_row.WORKLOAD.title}
ALL = sorted(TITLES)
LENGTHS = ("short", "full")
# Age of the inputs' first event time: nothing is in the future, nothing is old enough to be deleted.
AGO_MS = 6 * 3600 * 1000


def say(text: str) -> None:
    """Print progress on stderr; stdout is for the result."""
    print(text, file=sys.stderr, flush=True)


def order_of(repeat: int, engines: list[str]) -> list[str]:
    """Rotate the engines: each repeat begins with the next one, so that none is always first or last."""
    shift = repeat % len(engines) if engines else 0
    return engines[shift:] + engines[:shift]


def chosen(workload: Workload, engines: Collection[str], found: Available) -> tuple[list[str], dict[str, str]]:
    """Return the engines that run a workload, and the requested ones that cannot, with the reason."""
    asked = [engine for engine in (*workload.engines, *PEERS) if engine in engines]
    left_out = {engine: why for engine in asked if (why := found.why_not(workload.name, engine))}
    return [engine for engine in asked if engine not in left_out], left_out


def checked(run: Run, bootstrap: str, sinks: Sequence[str], partitions: int, wanted: Mapping[str, Cell]) -> Run:
    """Return the run with the hash of its outputs; raise an error that says what is wrong with them."""
    at = f"{run.workload}, {run.engine}, repeat {run.repeat}"
    rows: dict[str, Cell] = {}
    records = 0
    for output, sink in zip(WORKLOADS[run.workload].outputs, sinks, strict=True):
        try:
            table = read_final_table(bootstrap, sink, partitions, output.read_of(run.engine), updates=output.updates)
        except TableError as error:
            raise TableError(f"{at}: the output is wrong, no time is reported: {error}") from error
        rows.update(output.settled(run.engine, table.rows))
        records += table.records
    if table_hash(rows) != table_hash(wanted):
        wrong = "; ".join(differences(rows, wanted))
        raise TableError(f"{at}: the output is wrong, no time is reported: {wrong}")
    return replace(run, output_records=records, table_hash=table_hash(rows))


class Bench:
    """One workload on a running broker: its inputs are written once, every output is verified."""

    def __init__(self, workload: Workload, load: Load, broker: AnyBroker, at: Conditions) -> None:
        """Write nothing yet."""
        self._workload, self._broker, self._at = workload, broker, at
        self._loads = {"short": replace(load, records=max(1, load.records // 4)), "full": load}
        self.wrong: dict[str, str] = {}
        self._wanted: dict[tuple[str, object], Mapping[str, Cell]] = {}

    def fill(self) -> None:
        """Write the inputs; every run reads them again."""
        for length, load in self._loads.items():
            for source, topic in zip(self._workload.inputs, self._topics(length), strict=True):
                say(f"{self._workload.name}: writing {source.count(load)} {source.name}, {length}")
                self._broker.create_topic(topic, load.partitions)
                fill_topic(self._at.bootstrap, topic, source.rows(load))

    def measure(self, engines: list[str], repeats: int) -> list[Measurement]:
        """Run all repeats, engines in turn. An engine that is wrong once has no figures; the others continue."""
        measured: list[Measurement] = []
        for repeat, name in ((turn, name) for turn in range(repeats) for name in order_of(turn, engines)):
            if name in self.wrong:
                continue
            try:
                measured.append(Measurement(*(self._run(name, repeat, length) for length in LENGTHS)))
            except (BrokerError, EngineError, FillingError, TableError) as error:
                say(f"error: {error}")
                self.wrong[name] = str(error)
        return [one for one in measured if one.engine not in self.wrong]

    def _topics(self, length: str) -> tuple[str, ...]:
        return tuple(f"{self._workload.name}-{source.name}-{length}" for source in self._workload.inputs)

    def _run(self, engine: str, repeat: int, length: str) -> Run:
        workload, load = self._workload, self._loads[length]
        name = f"{workload.name}-{engine}-{length}-{repeat}"
        sinks = tuple(f"{name}-{output.name}" for output in workload.outputs)
        for sink in sinks:
            self._broker.create_topic(sink, load.partitions)
        consumed = sum(source.count(load) for source in workload.inputs)
        job = Job(workload.name, engine, name, self._topics(length), sinks, load.records, consumed)
        run = run_engine(job, repeat, self._at)
        wanted = self._wanted_of(engine, length)
        run = checked(run, self._at.bootstrap, sinks, load.partitions, wanted)
        run = replace(run, broker_bytes=bytes_of(self._broker.folder, job.application, sinks))
        say(
            f"{workload.name}, repeat {repeat + 1}, {engine:11} {run.records:9} records: {run.seconds:6.1f} s, "
            f"{run.process_cpu_seconds:6.1f} CPU s, {run.peak_rss_kb / 1024:6.0f} MB, output right"
        )
        return run

    def _wanted_of(self, engine: str, length: str) -> Mapping[str, Cell]:
        make = self._workload.wanted_of(engine)
        if (length, make) not in self._wanted:
            self._wanted[length, make] = make(self._loads[length])
        return self._wanted[length, make]


def measure(options: argparse.Namespace, found: Available) -> list[Results]:
    """Measure all workloads, one after the other, on one broker."""
    load = Load(
        records=options.records,
        seed=options.seed,
        table_keys=options.table_keys,
        base_ms=time.time_ns() // 1_000_000 - AGO_MS,
    )
    all_results: list[Results] = []
    task = restore.Task(
        options.keys, min(restore.FEED, options.keys), options.repeats, options.threads, options.timeout, options.python
    )
    with bench_broker(KEEP_DELETED, options.security) as broker:
        say(f"Kafka at {broker.bootstrap}")
        at = Conditions.of(options, broker)
        for name in options.workloads:
            if name == restore_row.WORKLOAD.name and isinstance(broker, KafkaBroker):
                all_results.append(restore_row.measure(options.engines, broker, task))
                continue
            workload = WORKLOADS[name]
            engines, left_out = chosen(workload, options.engines, found)
            for engine, why in left_out.items():
                say(f"{name}: {engine} is left out: {why}")
            bench = Bench(workload, load, broker, at)
            try:
                bench.fill()
            except (BrokerError, FillingError) as error:
                say(f"error: {error}")
                bench.wrong.update(dict.fromkeys(engines, f"{name}: {error}"))
            measured = bench.measure(engines, options.repeats)
            notes = notes_on(measured, updates=workload.updates)
            all_results.append(Results(workload, measured, left_out, bench.wrong, notes=notes))
    return all_results


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description="StoatFlow against Kafka Streams, on one broker.")
    parser.add_argument(
        "--workloads", type=names(ALL, "workload"), default=list(ALL),
        help="comma-separated, of: " + "; ".join(f"{name} {TITLES[name]}" for name in ALL),
    )  # fmt: skip
    parser.add_argument(
        "--engines", type=names(ENGINES, "engine"), default=list(USUAL),
        help=f"comma-separated, of: {', '.join(ENGINES)}; each runs the workloads that it has; "
        f"{', '.join(PEERS)} are installed when they are asked for, and left out otherwise",
    )  # fmt: skip
    parser.add_argument("--records", "--lines", type=int, default=200_000, help="per workload (a line is a record)")
    parser.add_argument("--keys", type=int, default=restore.KEYS, help="that w6 restores")
    add_arguments(parser, repeats=3)
    parser.add_argument("--json", type=Path, default=cache_dir() / "versus" / "versus.json", help="where JSON goes")
    parser.add_argument(
        "--security", choices=["plaintext", *LISTENERS], default="plaintext",
        help="how engines come to the broker: sasl_ssl is TLS with SCRAM-SHA-512; for Kafka Streams and StoatFlow only",
    )  # fmt: skip
    parser.add_argument(
        "--compression", choices=["none", "gzip", "snappy", "lz4", "zstd"], default="none",
        help="of what engines write; for Kafka Streams and StoatFlow only",
    )  # fmt: skip
    page.add_arguments(parser)
    options = parser.parse_args(given)
    if (options.security, options.compression) != ("plaintext", "none"):
        # Other engines, and restores, ignore these settings, so they could not be compared.
        both = (KSTREAMS, *FLAVOURS)
        without = [one for one in options.engines if one not in both]
        options.engines = [one for one in options.engines if one in both]
        options.workloads = [one for one in options.workloads if one != restore_row.WORKLOAD.name]
        if not options.engines or not options.workloads:
            parser.error("--security and --compression are for Kafka Streams and StoatFlow, and not for w6")
        if without:
            say(f"left out, because of --security or --compression: {', '.join(without)}")
    if options.records < 400:
        parser.error("--records must be at least 400")
    if why := restore.refused_keys(options.keys):
        parser.error(why)
    return options


def main() -> int:
    """Measure, print, write."""
    options = arguments()
    began = time.monotonic()
    try:
        found = prepare(options.engines, options.python)
        results = measure(options, found)
    except (BrokerError, EngineError, TableError) as error:
        say(f"error: {error}")
        return 1
    machine = describe(find_java()) | {"stoatflow": found.version}
    conditions = {
        "records": options.records,
        "restored_keys": options.keys,
        "table_keys": options.table_keys,
        "seed": options.seed,
        "partitions": Load(1, 1).partitions,
        "repeats": options.repeats,
        "commit.interval.ms": options.commit_interval_ms,
        "statestore.cache.max.bytes": options.cache_bytes,
        "processing.guarantee": options.guarantee,
        "security": options.security,
        "compression": options.compression,
        "stoatflow_settings": options.set or "defaults",
        "kafka_streams": f"4.1.1, {options.threads} threads, -Xmx1g",
        **{name: PEERS[name].version for name in options.engines if name in PEERS},
    }
    options.json.parent.mkdir(parents=True, exist_ok=True)
    report = as_json(results, machine, conditions)
    options.json.write_text(json.dumps(report, indent=2) + "\n")
    print("\nmachine: " + ", ".join(f"{key} {value}" for key, value in machine.items()))
    print("conditions: " + ", ".join(f"{key} {value}" for key, value in conditions.items()))
    for one in results:
        print(as_text(one))
    if KSTREAMS not in options.engines:
        print("no ratios to Kafka Streams: it did not run (--engines)")
    runs = sum(len(one.as_runs()) for result in results for one in result.measured)
    print(f"\nall {runs} outputs behind these figures are what they must be; {time.monotonic() - began:.0f} s in all")
    print(f"JSON: {options.json}")
    for file in page.write(report, options.markdown, options.charts):
        print(f"written: {file}")
    return 1 if any(one.wrong for one in results) else 0


if __name__ == "__main__":
    stop_with_all_of_it()
    sys.exit(main())
