"""Throughput of the batch twin and of Spark's SQL with 1 and 2 executors, beside the engine with 1 and 2 lanes.

All read the same topics of one real broker. Spark runs as a standalone cluster on loopback: a master, and a worker of
one core for each executor. The engine writes its output topics and changelogs exactly once, Spark writes Parquet files;
the broker's CPU is not counted. Each run has its own processes, and its result is compared with the table that Python
computes. The start-up is reported separately: for the engine until it runs, for Spark with a first job of few records,
which loads all code. `make bench-spark` (ARGS=--help).
"""

from __future__ import annotations

import argparse
import itertools
import json
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(_ROOT / "benches" / "versus"), str(_ROOT / "tests" / "integration")]

from bench_broker import AnyBroker, bench_broker  # noqa: E402
from broker.java_home import find_java  # noqa: E402
from executors_run import SHORT, topics_of  # noqa: E402
from filling import fill_topic  # noqa: E402
from final_table import differences, read_final_table  # noqa: E402
from machine import describe  # noqa: E402
from spark_cluster import SparkCluster  # noqa: E402
from workloads import WORKLOADS  # noqa: E402
from workloads.reading import Cell  # noqa: E402
from workloads.workload import Load, Workload  # noqa: E402

from stoatflow.spark.arguments import positive, say  # noqa: E402

PROGRAM = Path(__file__).with_name("executors_run.py")
CONTENDERS = ("engine", "twin", "sql")
WITHOUT_SQL = ("w7",)
UNITS = {"engine": "lane", "twin": "executor", "sql": "executor"}
NAMES = {"engine": "engine", "twin": "batch twin", "sql": "Spark SQL"}
SHORT_RECORDS = 2_000
PATIENCE_S = 7200.0


class RunError(RuntimeError):
    """A run has failed, or its result is wrong."""


@dataclass(frozen=True)
class Run:
    """One measured run."""

    job: str
    contender: str
    parallel: int
    records: int
    startup_s: float
    seconds: float
    cpu_s: float

    @property
    def rate(self) -> float:
        """Records per second."""
        return self.records / self.seconds

    @property
    def cpu_per_million(self) -> float:
        """CPU seconds for a million records."""
        return self.cpu_s / self.records * 1e6


def report(runs: Sequence[Run]) -> str:
    """A table with the median of each contender's rounds, and the ratio to the engine with as many lanes."""
    medians = {key: _median(of) for key, of in _grouped(runs).items()}
    lines = [
        "| job | contender | | records/s | CPU s per million | start-up s | CPU of the engine's |",
        "|---|---|---|---:|---:|---:|---:|",
    ]
    for (job, contender, parallel), run in medians.items():
        engine = medians.get((job, "engine", parallel))
        ratio = "" if engine is None else f"{run.cpu_per_million / engine.cpu_per_million:.1f} x"
        unit = f"{parallel} {UNITS[contender]}{'' if parallel == 1 else 's'}"
        cells = (job, NAMES[contender], unit, f"{run.rate:,.0f}", f"{run.cpu_per_million:.1f}", f"{run.startup_s:.1f}")
        lines.append(f"| {' | '.join((*cells, ratio))} |")
    return "\n".join(lines)


def _grouped(runs: Sequence[Run]) -> Mapping[tuple[str, str, int], list[Run]]:
    found: dict[tuple[str, str, int], list[Run]] = {}
    for run in runs:
        found.setdefault((run.job, run.contender, run.parallel), []).append(run)
    return found


def _median(runs: Sequence[Run]) -> Run:
    """The median of each figure; the records of all rounds are the same."""

    def of(name: str) -> float:
        return statistics.median(getattr(run, name) for run in runs)

    return replace(runs[0], startup_s=of("startup_s"), seconds=of("seconds"), cpu_s=of("cpu_s"))


def contenders_of(job: str, wanted: Sequence[str]) -> list[str]:
    """Those that can run this job: Spark's SQL can't express all."""
    return [one for one in wanted if one != "sql" or job not in WITHOUT_SQL]


@dataclass(frozen=True)
class Bench:
    """A job with its filled topics."""

    workload: Workload
    load: Load
    broker: AnyBroker
    memory: str
    wanted: Mapping[str, Cell]

    def run(self, contender: str, parallel: int, number: int) -> Run:
        """Measure once, and check the result."""
        with tempfile.TemporaryDirectory(prefix="stoatflow-executors-") as name:
            folder = Path(name)
            command = [sys.executable, str(PROGRAM), contender, "--job", self.workload.name, "--folder", name]
            command += ["--bootstrap", self.broker.bootstrap, "--parallel", str(parallel), "--memory", self.memory]
            command += ["--partitions", str(self.load.partitions)]
            outputs = topics_of(self.workload, run=f"-{number}").outputs
            if contender == "engine":
                for topic in outputs:
                    self.broker.create_topic(topic, self.load.partitions)
                told = _json_of([*command, f"--run=-{number}"])
            else:
                with SparkCluster(folder, workers=parallel, memory=self.memory) as cluster:
                    pids = [word for pid in cluster.pids for word in ("--cpu-of", str(pid))]
                    told = _json_of([*command, "--master", cluster.master, *pids])
            rows = self._of_engine(outputs) if contender == "engine" else self._of_files(contender, folder / "results")
            if wrong := differences(dict(rows), self.wanted):
                raise RunError(f"{NAMES[contender]}, {self.workload.name}: {'; '.join(wrong)}")
        return Run(self.workload.name, contender, parallel, self.load.records, **told)

    def _of_engine(self, topics: Sequence[str]) -> Iterator[tuple[str, Cell]]:
        address, partitions = self.broker.bootstrap, self.load.partitions
        for output, topic in zip(self.workload.outputs, topics, strict=True):
            yield from read_final_table(address, topic, partitions, output.read, timeout=PATIENCE_S).rows.items()

    def _of_files(self, contender: str, folder: Path) -> Iterator[tuple[str, Cell]]:
        from sql_jobs import cell

        if contender == "sql":
            yield from ((row["row"], cell(row["cell"])) for row in _rows(folder))
            return
        for output, topic in zip(self.workload.outputs, topics_of(self.workload).outputs, strict=True):
            table: dict[str, Cell] = {}
            for row in _rows(folder / "topics" / topic):
                read = output.read(row["key"] or b"", row["value"])
                if read is not None and read[1] is not None:
                    table[read[0]] = read[1]
                elif read is not None:
                    table.pop(read[0], None)
            yield from table.items()


def _rows(folder: Path) -> Iterator[dict[str, object]]:
    """The rows of Parquet files, in the order of their names, which is that of a sorted DataFrame."""
    import pyarrow.parquet as pq

    for path in sorted(folder.glob("*.parquet")):
        yield from pq.read_table(path).to_pylist()


def _json_of(command: Sequence[str]) -> dict[str, float]:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    if ended.returncode != 0:
        raise RunError(f"{' '.join(command[1:4])} ended with {ended.returncode}:\n{ended.stderr[-4000:]}")
    told: dict[str, float] = json.loads(ended.stdout.splitlines()[-1])
    return told


def measured(options: argparse.Namespace, broker: AnyBroker) -> Iterator[Run]:
    """Fill the topics of each job, and run all contenders in turn."""
    numbers = itertools.count(1)
    for job in options.job:
        workload, load = WORKLOADS[job], Load(options.records, options.seed, options.partitions)
        for suffix, of in (("", load), (SHORT, replace(load, records=SHORT_RECORDS))):
            for source, topic in zip(workload.inputs, topics_of(workload, suffix).inputs, strict=True):
                broker.create_topic(topic, load.partitions)
                fill_topic(broker.bootstrap, topic, source.rows(of))
        bench = Bench(workload, load, broker, options.memory, workload.wanted(load))
        for _ in range(options.rounds):
            for parallel in options.parallel:
                for contender in contenders_of(job, options.contender):
                    run = bench.run(contender, parallel, next(numbers))
                    say(f"{job} {NAMES[contender]}, {parallel}: {run.rate:,.0f}/s, {run.cpu_per_million:.1f} CPU s")
                    yield run


def main() -> int:
    """Run, print the table, write the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=positive, default=1_000_000, help="of each job (default 1,000,000)")
    parser.add_argument("--job", nargs="+", choices=sorted(WORKLOADS), default=["w2", "w3"], help="default w2 w3")
    parser.add_argument("--contender", nargs="+", choices=CONTENDERS, default=list(CONTENDERS), help="default all")
    parser.add_argument("--parallel", nargs="+", type=positive, default=[1, 2], help="lanes, executors (default 1 2)")
    parser.add_argument("--rounds", type=positive, default=3, help="the table has the medians (default 3)")
    parser.add_argument("--partitions", type=positive, default=8, help="of each topic (default 8)")
    parser.add_argument("--memory", default="1g", help="of each executor's JVM (default 1g)")
    parser.add_argument("--seed", type=int, default=1, help="of the records (default 1)")
    parser.add_argument("--output", type=Path, help="write the figures of all runs as JSON")
    options = parser.parse_args()
    # Its end also ends the broker and the cluster, as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with bench_broker() as broker:
        runs = list(measured(options, broker))
    print(report(runs))
    if options.output is not None:
        figures = {"machine": describe(find_java()), "runs": [asdict(run) for run in runs]}
        options.output.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
