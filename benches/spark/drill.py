"""Moves a running workload to a Spark cluster and back, kills a worker meanwhile, and compares the final tables.

Takes the number of records and a workload (default W7). Three thirds of the input: the engine processes the first,
Spark the second, on a standalone cluster of a master and two workers on loopback, one of which is killed with its
executor in the middle of a trigger; the engine processes the third. Then each output topic must hold the table that
Python computes from the input, and the last records that the batch twin computes from the topics. Prints what happened;
exit code 1 if anything differs. Owns a broker, a cluster and a folder, until it ends. Measures nothing.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(_ROOT / "benches" / "versus"), str(_ROOT / "tests" / "integration")]

import audited  # noqa: E402
from broker.kafka_broker import KafkaBroker  # noqa: E402
from filling import fill_topic  # noqa: E402
from final_table import differences, read_final_table  # noqa: E402
from spark_cluster import SparkCluster  # noqa: E402
from workloads import WORKLOADS  # noqa: E402
from workloads.reading import Cell  # noqa: E402
from workloads.workload import Input, Load, Row, Workload  # noqa: E402

import stoatflow as sf  # noqa: E402
from stoatflow.spark.arguments import positive, say  # noqa: E402

PROGRAM = Path(__file__).with_name("drill_spark.py")
TURNS = 3
PATIENCE_S = 3600.0
TRIGGERS = 4
"""How many triggers process Spark's share, about."""


class DrillError(RuntimeError):
    """The drill did not run as intended; nothing is known about the results."""


@dataclass
class Drill:
    """One workload on its way to Spark and back."""

    workload: Workload
    load: Load
    folder: Path
    broker: KafkaBroker
    killed_in: list[int] = field(default_factory=list)
    """The triggers that ran when the worker was killed."""

    def __post_init__(self) -> None:
        """Create the topics."""
        for topic in audited.topics_of(self.workload):
            for name in topic:
                self.broker.create_topic(name, self.load.partitions)

    @property
    def checkpoint(self) -> Path:
        """Spark's state and offsets."""
        return self.folder / "checkpoint"

    def write(self, turn: int) -> None:
        """Write the records of a turn; the rows of tables are all in the first one."""
        for source in self.workload.inputs:
            begin, end = share(source, self.load, turn)
            if begin < end:
                rows = itertools.islice(source.rows(self.load), begin, end)
                fill_topic(self.broker.bootstrap, source.name, moved(rows, self.load, begin))

    def engine(self) -> None:
        """Let the engine process everything that was written, with its default settings."""
        settings = {
            "application.id": self.workload.name,
            "bootstrap.servers": self.broker.bootstrap,
            "state.dir": str(self.folder / "state"),
        }
        with sf.StoatFlow(audited.program(self.workload), settings) as app:
            app.wait_until(caught_up=True, timeout=audited.PATIENCE)

    def spark(self, step: str, master: str, *last: str) -> subprocess.Popen[bytes]:
        """Start a step in Spark, in a process of its own; its messages go to a file."""
        log = self.folder / f"{step}.log"
        command = [sys.executable, str(PROGRAM), step, "--workload", self.workload.name]
        command += ["--bootstrap", self.broker.bootstrap, "--checkpoint", str(self.checkpoint), *last]
        env = os.environ | {"SPARK_MASTER": master}
        with log.open("wb") as out:
            return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=env)

    def done(self, step: str, master: str, *last: str) -> str:
        """Run a step to its end; return what it has printed."""
        return self.ended(step, self.spark(step, master, *last))

    def ended(self, step: str, process: subprocess.Popen[bytes]) -> str:
        """Wait for the end of a step; return what it has printed."""
        try:
            code = process.wait(PATIENCE_S)
        finally:
            process.kill()
        text = (self.folder / f"{step}.log").read_text("utf-8", "replace")
        if code != 0:
            raise DrillError(f"the step '{step}' ended with {code}:\n{text[-4000:]}")
        return text

    def run_and_kill(self, cluster: SparkCluster) -> str:
        """Run the query to the end of its input; kill a worker while its second trigger runs."""
        at_most = max(1, self.load.records // TURNS // TRIGGERS)
        process = self.spark("run", cluster.master, "--at-most", str(at_most))
        self._wait_until(lambda: self._begun() - self._ended() >= {1} or process.poll() is not None)
        # Its tasks have begun then: the offsets are written before them.
        time.sleep(1)
        before = self._ended()
        cluster.kill_worker(0)
        self.killed_in = sorted(self._begun() - self._ended() - before)
        if not self.killed_in:
            process.kill()
            raise DrillError("no trigger ran when the worker was killed: give it more records")
        text = self.ended("run", process)
        if "Lost executor" not in text:
            raise DrillError(f"the query has not lost an executor:\n{text[-4000:]}")
        return text

    def _begun(self) -> set[int]:
        return _numbers(self.checkpoint / "offsets")

    def _ended(self) -> set[int]:
        return _numbers(self.checkpoint / "commits")

    @staticmethod
    def _wait_until(condition: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE_S
        while not condition():
            if time.monotonic() > until:
                raise DrillError("no second trigger has begun")
            time.sleep(0.05)

    def faults(self) -> Iterator[str]:
        """Compare each output topic with the table that Python computes."""
        found: dict[str, Cell] = {}
        for output, topic in zip(self.workload.outputs, audited.topics_of(self.workload).outputs, strict=True):
            # Spark writes a trigger that has failed again, so any row may occur again.
            table = read_final_table(self.broker.bootstrap, topic, self.load.partitions, output.read, timeout=1800)
            say(f"  {topic}: {table.records:,} records, {len(table.rows):,} rows")
            found |= table.rows
        yield from differences(found, self.workload.wanted(self.load))


def share(source: Input, load: Load, turn: int) -> tuple[int, int]:
    """The first and the last record of an input in a turn."""
    count = source.count(load)
    if source.count(replace(load, records=2 * load.records)) == count:
        # A table, whose size doesn't depend on the load.
        return (0, count) if turn == 0 else (count, count)
    return turn * count // TURNS, (turn + 1) * count // TURNS


def moved(rows: Iterator[Row], load: Load, begin: int) -> Iterator[Row]:
    """Give rows without a time the number of their record as time: a topic's times don't depend on the clock."""
    for number, row in enumerate(rows, begin):
        yield row if row.timestamp_ms is not None else row._replace(timestamp_ms=load.base_ms + number)


def _numbers(folder: Path) -> set[int]:
    return {int(path.name) for path in folder.glob("[0-9]*") if path.name.isdecimal()}


def run(workload: Workload, load: Load, folder: Path, broker: KafkaBroker, *, twin: bool = True) -> list[str]:
    """Run the drill; return what differs at its end."""
    drill = Drill(workload, load, folder, broker)

    def told(text: str, began: float) -> None:
        say(f"  {text}, {time.monotonic() - began:.0f} s")

    with SparkCluster(folder, workers=2) as cluster:
        began = time.monotonic()
        drill.write(0)
        drill.engine()
        told("the engine has processed the first third", began)
        drill.write(1)
        began = time.monotonic()
        drill.done("there", cluster.master)
        told("handed over to Spark", began)
        began = time.monotonic()
        drill.run_and_kill(cluster)
        numbers = ", ".join(map(str, drill.killed_in))
        told(f"Spark has processed the second third, one of two workers was killed in trigger {numbers}", began)
        drill.write(2)
        began = time.monotonic()
        drill.done("back", cluster.master)
        told("handed back", began)
    began = time.monotonic()
    drill.engine()
    told("the engine has processed the last third", began)
    faults = list(drill.faults())
    if twin:
        began = time.monotonic()
        print(drill.done("audit", ""), flush=True)
        told("compared with the batch twin", began)
    return faults


def recent(records: int, seed: int, partitions: int) -> Load:
    """A load whose event times end about now: brokers delete old rows of windows."""
    longest_ms = 10_000 + 5 * records
    base = int(time.time() * 1000) - longest_ms - 3_600_000
    return Load(records, seed, partitions, base_ms=base - base % 60_000)


def main() -> int:
    """Run, compare, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=positive, default=2_000_000, help="of the workload (default 2,000,000)")
    parser.add_argument("--workload", choices=sorted(WORKLOADS), default="w7", help="default w7")
    parser.add_argument("--partitions", type=positive, default=4, help="of each topic (default 4)")
    parser.add_argument("--seed", type=int, default=1, help="of the records (default 1)")
    parser.add_argument("--without-twin", action="store_true", help="compare only with what Python computes")
    options = parser.parse_args()
    # Its end also ends the broker and the cluster, as with Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    workload = WORKLOADS[options.workload]
    load = recent(options.records, options.seed, options.partitions)
    say(f"{workload.name}, {workload.title}: {load.records:,} records in {load.partitions} partitions")
    with tempfile.TemporaryDirectory(prefix="stoatflow-drill-") as folder, KafkaBroker() as broker:
        faults = run(workload, load, Path(folder), broker, twin=not options.without_twin)
    print("\n".join(faults) if faults else f"{workload.name}: the final tables are equal, 0 differences")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
