"""One measured run: the engine, the batch twin, or Spark's SQL, with some lanes or executors.

Takes a job, filled topics, short ones for the start-up; writes the results as Parquet files, or as the engine's output
topics. Prints one line of JSON: seconds of the start-up, of the work, and its CPU seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).resolve().parents[1] / "versus"))

from stoatflow_programs import Topics, topology
from tree_cpu import tree_cpu
from workloads import WORKLOADS
from workloads.workload import Workload

import stoatflow as sf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHORT = "-short"
PATIENCE = "2h"
_ENDS_KNOWN_S = 10.0
_POLL = "20ms"


def topics_of(workload: Workload, suffix: str = "", run: str = "") -> Topics:
    """The input topics, and the output topics of one run of the engine."""
    return Topics(
        [f"{one.name}{suffix}" for one in workload.inputs], [f"{one.name}-out{run}" for one in workload.outputs]
    )


def engine(workload: Workload, options: argparse.Namespace) -> dict[str, float]:
    """The engine, in this process."""
    settings = {
        "application.id": f"{workload.name}{options.run}",
        "bootstrap.servers": options.bootstrap,
        "state.dir": str(options.folder / "state"),
        "lanes.count": options.parallel,
    }
    began = time.monotonic()
    app = sf.StoatFlow(topology(workload.name, "native", topics_of(workload, run=options.run)), settings)
    with app:
        while app.state != sf.State.RUNNING:
            app.wait("5ms")
        runs, before = time.monotonic(), _own_cpu()
        seen = False
        # A lag of zero means nothing before the ends of the input are known.
        while (lag := app.lag()) > 0 or not (seen or time.monotonic() - runs > _ENDS_KNOWN_S):
            seen = seen or lag > 0
            app.wait(_POLL)
        cpu, seconds = _own_cpu() - before, time.monotonic() - runs
    return {"startup_s": runs - began, "seconds": seconds, "cpu_s": cpu}


def _own_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


Work = Callable[["SparkSession", str, Path], None]


def twin(workload: Workload, options: argparse.Namespace) -> dict[str, float]:
    """The batch twin, as `stoatflow run --engine spark --batch` runs it."""
    from stoatflow.spark import SparkOptions

    def work(spark: SparkSession, suffix: str, folder: Path) -> None:
        program = topology(workload.name, "native", topics_of(workload, suffix))
        settings = {"application.id": workload.name, "bootstrap.servers": options.bootstrap}
        given = SparkOptions(session=spark, output=folder)
        with sf.StoatFlow(program, settings, engine="spark", batch=True, spark=given) as app:
            app.wait_until(caught_up=True, timeout=PATIENCE)

    return on_spark(work, options)


def sql(workload: Workload, options: argparse.Namespace) -> dict[str, float]:
    """The same job in Spark's SQL."""
    from sql_jobs import JOBS

    from stoatflow.spark.kafka import KafkaTopics

    def work(spark: SparkSession, suffix: str, folder: Path) -> None:
        topics = KafkaTopics(spark, options.bootstrap)
        frames = {one.name: topics.read_committed(f"{one.name}{suffix}") for one in workload.inputs}
        JOBS[workload.name](frames).write.parquet(str(folder))

    return on_spark(work, options)


def on_spark(work: Work, options: argparse.Namespace) -> dict[str, float]:
    """Start a session, do the short work, which loads all code, then the whole work."""
    from stoatflow.spark.session import local_session

    conf = {
        "spark.master": options.master,
        "spark.executor.memory": options.memory,
        "spark.executor.cores": "1",
        # As many as there are partitions: none is empty, and each core has several.
        "spark.sql.shuffle.partitions": str(options.partitions),
        # The first job waits for all executors.
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    }
    processes: Sequence[int] = [os.getpid(), *options.cpu_of]
    began = time.monotonic()
    with local_session(kafka=True, memory="2g", conf=conf) as spark:
        work(spark, SHORT, options.folder / "short")
        runs, before = time.monotonic(), tree_cpu(processes)
        work(spark, "", options.folder / "results")
        cpu, seconds = tree_cpu(processes) - before, time.monotonic() - runs
    return {"startup_s": runs - began, "seconds": seconds, "cpu_s": cpu}


RUNS = {"engine": engine, "twin": twin, "sql": sql}


def main() -> None:
    """Run, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contender", choices=RUNS)
    parser.add_argument("--job", choices=WORKLOADS, required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--run", default="", help="of the engine: behind the names of its application and its outputs")
    parser.add_argument("--parallel", type=int, required=True, help="lanes, or executors of one core")
    parser.add_argument("--partitions", type=int, required=True)
    parser.add_argument("--master", default="")
    parser.add_argument("--memory", default="1g")
    parser.add_argument("--cpu-of", type=int, action="append", default=[], help="processes of the cluster")
    options = parser.parse_args()
    print(json.dumps(RUNS[options.contender](WORKLOADS[options.job], options)), flush=True)


if __name__ == "__main__":
    main()
