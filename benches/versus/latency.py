"""Latency of a record from its scheduled instant to a committed consumer: Kafka Streams and StoatFlow at equal rates.

`python benches/versus/latency.py --workloads w1,w3 --rates 500,2000 --seconds 15`

Needs a JDK, Maven, confluent-kafka, and StoatFlow installed in the interpreter. Prints, for each workload and rate, the
latencies P50 to P99.9, CPU seconds and memory of each engine, and ratios, and the time from the start of its process
until it ran; the same as JSON, as Markdown, and as pictures. If records did not arrive in time, the number of MISSING
records is printed with the figures: the engine did not keep up. Owns the broker, which is warmed up before anything is
measured, and the order of the runs. An engine that failed, or wrote a record twice, is not reported. Latency is counted
from when a record was due, not from when it was sent. With `--security plaintext,sasl_ssl` each engine connects in both
ways in turn, and its P99 is compared with its own on plaintext.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "integration"))

import page  # noqa: E402
from bench_broker import LISTENERS, AnyBroker, bench_broker  # noqa: E402
from broker.java_home import BrokerError, cache_dir, find_java  # noqa: E402
from conditions import Conditions, add_arguments, names  # noqa: E402
from engines import FLAVOURS, KSTREAMS, EngineError, Job, command, prepare  # noqa: E402
from filling import FillingError, fill_topic  # noqa: E402
from machine import describe, machine_cpu, peak_rss_kb, process_cpu  # noqa: E402
from probe import Reader, Stage  # noqa: E402
from stopping import stop_with_all_of_it  # noqa: E402
from versus import order_of, say  # noqa: E402
from workloads import WORKLOADS  # noqa: E402
from workloads.probes import PROBES  # noqa: E402
from workloads.workload import NEW_YEAR_MS, Load, Row  # noqa: E402

ENGINES = (KSTREAMS, *FLAVOURS)
USUAL = (KSTREAMS, "native", "lambda")
PLAINTEXT = "plaintext"
# Arguments about places on this machine, which don't affect the measurement.
PLACES = ("python", "json", "markdown", "charts")
QUANTILES = (50.0, 95.0, 99.0, 99.9)
# How long an engine may take to end after a signal.
END_S = 60.0


@dataclass(frozen=True)
class Latency:
    """One engine at one rate, in one repeat."""

    workload: str
    engine: str
    rate: float
    repeat: int
    records: int
    missing: int
    repeated: int
    quantiles_ms: dict[str, float]
    worst_ms: float
    cpu_per_million: float
    sender_behind_ms: float
    other_cores: float
    # From the start of its process until it reported that it runs; the same for all rates.
    ready_seconds: float
    # Peak memory until the end of this rate.
    peak_rss_mb: float
    # How it came to the broker.
    security: str = PLAINTEXT

    @property
    def p99(self) -> float:
        """The quantile that is compared."""
        return self.quantiles_ms["99"]


def quantile(ordered: Sequence[float], percent: float) -> float:
    """The smallest value that `percent` of all values do not exceed."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


@dataclass(frozen=True)
class Running:
    """A process, and the time until its engine ran."""

    pid: int
    ready_seconds: float


@contextmanager
def running(job: Job, at: Conditions) -> Iterator[Running]:
    """Run the engine in a process of its own, and yield once it runs."""
    who = f"{job.workload}, {job.engine}"
    with tempfile.TemporaryDirectory(prefix="stoatflow-latency-") as folder:
        output, errors = Path(folder) / "stdout", Path(folder) / "stderr"

        def failed(how: str) -> EngineError:
            return EngineError(f"{who} {how}; its last words:\n{errors.read_text(errors='replace')[-2000:]}")

        begun = command(job, at, str(Path(folder) / "state"), follow=True)
        with errors.open("wb") as err, output.open("wb") as out:
            start = time.monotonic()
            process = subprocess.Popen(begun, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
            try:
                deadline = start + at.timeout_s
                while "RUNNING" not in output.read_text():
                    if process.poll() is not None:
                        raise failed("ended before it ran")
                    if time.monotonic() > deadline:
                        raise failed(f"does not run after {at.timeout_s:g} s (--timeout)")
                    time.sleep(0.01)
                yield Running(process.pid, round(time.monotonic() - start, 2))
                if process.poll() is not None:
                    raise failed("ended by itself")
                process.terminate()
                try:
                    process.wait(END_S)
                except subprocess.TimeoutExpired:
                    raise failed(f"did not end within {END_S:g} s of a signal") from None
            finally:
                process.kill()
                process.wait()


class Bench:
    """One workload on a running broker."""

    def __init__(
        self,
        workload: str,
        options: argparse.Namespace,
        broker: AnyBroker,
        at: Conditions,
        called: str = "latency",
        security: str = PLAINTEXT,
    ) -> None:
        """Nothing is written yet; names of topics and applications begin with `called`."""
        self._security = security
        self._name, self._options, self._broker, self._at = workload, options, broker, at
        self._called = f"{called}-{workload}" if security == PLAINTEXT else f"{called}-{security}-{workload}"
        self._load = Load(0, options.seed, table_keys=options.table_keys, base_ms=NEW_YEAR_MS)
        self._probing, self._of = PROBES[workload], WORKLOADS[workload]
        self._tables: list[str] = []
        self.wrong: dict[str, str] = {}

    def fill(self) -> None:
        """Write the input that precedes the first record: the tables, once for all engines."""
        now = replace(self._load, base_ms=time.time_ns() // 1_000_000 - 60_000)
        for source in self._of.inputs[self._probing.sent :]:
            topic = f"{self._called}-{source.name}"
            self._broker.create_topic(topic, self._load.partitions)
            fill_topic(self._at.bootstrap, topic, chain(source.rows(now), self._beside(source.name, now.base_ms)))
            self._tables.append(topic)

    def _beside(self, table: str, time_ms: int) -> Iterable[Row]:
        """Rows of a table that the measured records are joined with."""
        row_of = self._probing.beside.get(table)
        if row_of is None:
            return []
        probes = (self._probing.make(one.first, one.count, one.table_keys) for one in self._stages())
        answers = (answer for one in probes for answer in one.answers if answer is not None)
        return (row_of(answer)._replace(timestamp_ms=time_ms) for answer in answers)

    def _stages(self) -> list[Stage]:
        """A warm-up, then all rates."""
        held = [(min(self._options.rates), self._options.warm)]
        held += [(rate, self._options.seconds) for rate in self._options.rates]
        stages: list[Stage] = []
        for rate, seconds in held:
            first = stages[-1].first + stages[-1].count if stages else 0
            stages.append(Stage(self._name, first, int(rate * seconds), rate, self._load.table_keys))
        return stages

    def all(self, engines: list[str], repeats: int) -> list[Latency]:
        """Measure the engines in turn. One that fails once has no figures; the others continue."""
        return in_turn([self], engines, repeats)

    def attempt(self, engine: str, repeat: int) -> list[Latency]:
        """Measure all rates; empty if the engine has ever been `wrong`."""
        if engine in self.wrong:
            return []
        try:
            return self.measure(engine, repeat)
        except (EngineError, RuntimeError) as error:
            say(f"error: {error}")
            self.wrong[engine] = str(error)
            return []

    def measure(self, engine: str, repeat: int) -> list[Latency]:
        """Measure one engine in one process: all rates, after a warm-up."""
        name = f"{self._called}-{engine}-{repeat}"
        sources = tuple(f"{name}-{one.name}" for one in self._of.inputs[: self._probing.sent])
        sinks = tuple(f"{name}-to-{one.name}" for one in self._of.outputs)
        for topic in (*sources, *sinks):
            self._broker.create_topic(topic, self._load.partitions)
        job = Job(self._name, engine, name, (*sources, *self._tables), sinks, 0, 0)
        read = sinks[self._probing.output]
        with running(job, self._at) as process, Reader(self._at.bootstrap, read, self._load.partitions) as reader:
            say(f"{self._name}, repeat {repeat + 1}, {engine:9} runs after {process.ready_seconds:.2f} s")
            held = [self._stage(engine, repeat, process, reader, sources, stage) for stage in self._stages()]
        return held[1:]

    def _stage(
        self, engine: str, repeat: int, process: Running, reader: Reader, sources: Sequence[str], stage: Stage
    ) -> Latency:
        began = time.monotonic()
        before, machine = process_cpu(process.pid), machine_cpu()
        taken = reader.take(sources, stage, self._options.patience)
        cpu = process_cpu(process.pid) - before
        other = (machine_cpu() - machine - cpu) / (time.monotonic() - began)
        ordered = sorted(taken.latencies_ms)
        if not ordered:
            raise EngineError(f"{self._name}, {engine}: no record came out at {stage.rate:.0f}/s")
        latency = Latency(
            workload=self._name,
            engine=engine,
            rate=stage.rate,
            repeat=repeat,
            records=taken.expected,
            missing=taken.missing,
            repeated=taken.repeated,
            quantiles_ms={f"{percent:g}": round(quantile(ordered, percent), 2) for percent in QUANTILES},
            worst_ms=round(ordered[-1], 2),
            cpu_per_million=round(cpu / stage.count * 1e6, 2),
            sender_behind_ms=round(taken.sender_behind_ms, 2),
            other_cores=round(other, 2),
            ready_seconds=process.ready_seconds,
            peak_rss_mb=round(peak_rss_kb(process.pid) / 1024, 1),
            security=self._security,
        )
        say(f"{self._name}, repeat {repeat + 1}, {_line(latency)}{'' if stage.first else ', getting warm'}")
        # Missing records mean that it could not keep up. Duplicates are worse: its figures are discarded.
        if latency.repeated:
            raise EngineError(f"{self._name}, {engine}: {latency.repeated} of {latency.records} records came twice")
        return latency


def in_turn(benches: Sequence[Bench], engines: list[str], repeats: int) -> list[Latency]:
    """Measure the engines in turn, and each of them on every bench before the next one.

    An engine that fails once has no figures; the others continue.
    """
    measured = [
        one
        for repeat in range(repeats)
        for name in order_of(repeat, engines)
        for bench in (benches if repeat % 2 == 0 else benches[::-1])
        for one in bench.attempt(name, repeat)
    ]
    return [one for one in measured if not any(one.engine in bench.wrong for bench in benches)]


def _line(one: Latency) -> str:
    quantiles = " ".join(f"{value:8.1f}" for value in one.quantiles_ms.values())
    late = f", {one.missing} MISSING: it did not keep up" if one.missing else ""
    return (
        f"{_who(one):9} {one.rate:7.0f}/s: {quantiles} {one.worst_ms:8.1f} ms (P50 P95 P99 P99.9 worst), "
        f"{one.cpu_per_million:7.1f} CPU s per million, {one.peak_rss_mb:.0f} MB{late}"
    )


def _who(one: Latency) -> str:
    return one.engine if one.security == PLAINTEXT else f"{one.engine} {one.security}"


def _against(name: str, of_engine: Sequence[Latency], base: Sequence[Latency]) -> str:
    """The median ratio of P99 to another measurement in the same repeat; empty if that did not keep up."""
    others = {one.repeat: one.p99 for one in base if not one.missing}
    ratios = sorted(one.p99 / others[one.repeat] for one in of_engine if one.repeat in others)
    return f"   P99 against {name}: {ratios[len(ratios) // 2]:.3f}x" if ratios else ""


def as_text(measured: Sequence[Latency]) -> str:
    """The table for people: the median of the repeats of each figure; ratios of P99 are paired within a repeat."""
    lines: list[str] = []
    for workload, rate in dict.fromkeys((one.workload, one.rate) for one in measured):
        lines += ["", f"{workload}, {WORKLOADS[workload].title}, {rate:.0f} records a second"]
        at = [one for one in measured if (one.workload, one.rate) == (workload, rate)]
        for engine, security in dict.fromkeys((one.engine, one.security) for one in at):
            alike = [one for one in at if one.security == security]
            of_engine = sorted((one for one in alike if one.engine == engine), key=lambda one: one.p99)
            line = _line(of_engine[len(of_engine) // 2])
            if engine != KSTREAMS:
                line += _against(KSTREAMS, of_engine, [one for one in alike if one.engine == KSTREAMS])
            if security != PLAINTEXT:
                own = [one for one in at if (one.engine, one.security) == (engine, PLAINTEXT)]
                line += _against("its own on plaintext", of_engine, own)
            lines.append(f"  {line}")
    return "\n".join(lines)


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for what, there, usual in (("workload", tuple(PROBES), tuple(PROBES)), ("engine", ENGINES, USUAL)):
        output = f"comma-separated, of: {', '.join(there)}"
        parser.add_argument(f"--{what}s", type=names(there, what), default=list(usual), help=output)
    parser.add_argument("--rates", default="500,1000,2000", help="records a second, comma-separated")
    parser.add_argument("--seconds", type=float, default=15.0, help="how long each rate is held")
    parser.add_argument("--warm", type=float, default=15.0, help="how long the lowest rate is held before")
    parser.add_argument(
        "--warm-broker", type=float, default=10.0,
        help="how long each engine uses the broker at the highest rate before anything is measured; 0: not at all",
    )  # fmt: skip
    parser.add_argument(
        "--security", type=names((PLAINTEXT, *LISTENERS), "security"), default=[PLAINTEXT],
        help=f"how engines connect, of: {', '.join((PLAINTEXT, *LISTENERS))}; sasl_ssl is TLS with SCRAM-SHA-512; "
        "with plaintext,sasl_ssl both in turn, on one broker",
    )  # fmt: skip
    parser.add_argument("--patience", type=float, default=10.0, help="how long is waited for the last record of a rate")
    add_arguments(parser, repeats=1)
    parser.add_argument("--json", type=Path, help=f"where the JSON goes; {cache_dir() / 'versus'} by default")
    page.add_arguments(parser)
    options = parser.parse_args(given)
    try:
        options.rates = sorted(float(rate) for rate in options.rates.split(","))
    except ValueError:
        parser.error(f"--rates {options.rates!r} is not a list of numbers such as 500,2000")
    if min(options.rates) <= 0 or options.seconds <= 0 or options.warm <= 0 or options.warm_broker < 0:
        parser.error("rates and times are positive")
    if len([one for one in options.security if one != PLAINTEXT]) > 1:
        parser.error("--security takes plaintext and one of the others")
    if len(options.security) > 1 and (options.markdown or options.charts):
        parser.error("--markdown and --charts show one --security")
    return options


def warm_up(options: argparse.Namespace, broker: AnyBroker, at: Conditions, security: str = PLAINTEXT) -> None:
    """Let every engine use the broker for a while, as one that has run for months; the figures are discarded.

    A broker that has just started JIT-compiles and collects garbage every second, at the expense of the first engine.
    """
    first, rate = options.workloads[0], max(options.rates)
    say(f"the broker gets warm ({first}, every engine, at {rate:.0f}/s for {options.warm_broker:g} s); not counted:")
    briefly = argparse.Namespace(**(vars(options) | {"rates": [rate], "warm": 1.0, "seconds": options.warm_broker}))
    bench = Bench(first, briefly, broker, at, "warming", security)
    bench.fill()
    bench.all(options.engines, 1)


def measure(options: argparse.Namespace) -> tuple[list[Latency], list[str]]:
    """Measure all workloads, one after the other, on one broker; engines in turn. Also returns failures, as text."""
    measured: list[Latency] = []
    failed: list[str] = []
    secured = next((one for one in options.security if one != PLAINTEXT), PLAINTEXT)
    with bench_broker(security=secured) as broker:
        at = {one: Conditions.of(options, broker, secured=one != PLAINTEXT) for one in options.security}
        if options.warm_broker:
            for way, one in at.items():
                warm_up(options, broker, one, way)
        for workload in options.workloads:
            benches = [Bench(workload, options, broker, one, security=way) for way, one in at.items()]
            for bench in benches:
                bench.fill()
            measured += in_turn(benches, options.engines, options.repeats)
            failed += [why for bench in benches for why in bench.wrong.values()]
    return measured, failed


def main(given: list[str] | None = None) -> int:
    """Measure and print."""
    options = arguments(given)
    try:
        available = prepare(options.engines, options.python)
        measured, failed = measure(options)
    except (BrokerError, EngineError, FillingError) as error:
        say(f"error: {error}")
        return 1
    print(as_text(measured))
    print("\n".join(f"FAILED, so without figures: {why}" for why in failed))
    found: dict[str, Any] = {
        "benchmark": "latency",
        "machine": describe(find_java()),
        "conditions": {name: str(value) for name, value in vars(options).items() if name not in PLACES}
        | {"stoatflow": available.version},
        "runs": [asdict(one) for one in measured],
        "failed": failed,
    }
    target = options.json or cache_dir() / "versus" / f"latency-{time.strftime('%Y%m%d-%H%M%S')}.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(found, indent=2) + "\n")
    for file in (target, *page.write(found, options.markdown, options.charts)):
        say(f"written: {file}")
    return 1 if failed else 0


if __name__ == "__main__":
    stop_with_all_of_it()
    sys.exit(main())
