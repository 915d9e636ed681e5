"""Runs each workload in the engine, and compares its committed output with the batch twin's, record by record.

Takes the number of records, and workloads. Prints a report for each; exit code 1 if anything differs. Owns the topics
and the state of a workload, in a folder, until it is compared. Measures nothing, and needs no Kafka.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stoatflow_programs import Topics, topology
from workloads import WORKLOADS
from workloads.workload import Load, Row, Workload

import stoatflow as sf
from stoatflow.spark.arguments import positive, say
from stoatflow.spark.audit.reconciling import reconcile
from stoatflow.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stoatflow.spark.audit.findings import Audit

# Nothing is measured, so a busy machine may take long.
PATIENCE = "60m"


def topics_of(workload: Workload) -> Topics:
    """Return the workload's input and output topics."""
    return Topics([one.name for one in workload.inputs], [f"{one.name}-out" for one in workload.outputs])


def program(workload: Workload) -> sf.Topology:
    """The job with expressions: Spark's workers need no module for it."""
    return topology(workload.name, "native", topics_of(workload))


def run_engine(workload: Workload, load: Load, folder: Path) -> None:
    """Fill the topics, and let the engine read all of them, with its default settings."""
    settings = {"application.id": workload.name, "state.dir": str(folder / "state")}
    with sf.EmbeddedBroker(folder / "broker") as broker:
        for source in workload.inputs:
            broker.create_topic(source.name, load.partitions)
            broker.produce_many(source.name, (_record(row, load) for row in source.rows(load)))
        for output in topics_of(workload).outputs:
            broker.create_topic(output, load.partitions)
        with sf.StoatFlow(program(workload), settings, broker=broker) as app:
            app.wait_until(caught_up=True, timeout=PATIENCE)


def _record(row: Row, load: Load) -> tuple[int | None, bytes | None, bytes, int]:
    key = None if row.key is None else row.key.encode()
    return row.partition, key, row.value, load.base_ms if row.timestamp_ms is None else row.timestamp_ms


def audit_output(spark: SparkSession, workload: Workload, folder: Path) -> Audit:
    """Compare the engine's committed output with that of the batch twin."""
    return reconcile(spark, program(workload), f"embedded:{folder / 'broker'}")


def main() -> int:
    """Run, compare, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=positive, default=2_000_000, help="of each workload (default 2,000,000)")
    parser.add_argument("--workload", action="append", choices=sorted(WORKLOADS), help="may be repeated (default all)")
    parser.add_argument("--seed", type=int, default=1, help="of the records (default 1)")
    parser.add_argument("--memory", default="2g", help="of Spark's JVM (default 2g)")
    options = parser.parse_args()
    load, right = Load(options.records, options.seed), True
    with local_session(memory=options.memory) as spark:
        for name in options.workload or sorted(WORKLOADS):
            workload = WORKLOADS[name]
            with tempfile.TemporaryDirectory(prefix="stoatflow-audit-") as folder:
                began = time.monotonic()
                say(f"{name}, {workload.title}: {options.records:,} records")
                run_engine(workload, load, Path(folder))
                say(f"  the engine has read them, {time.monotonic() - began:.0f} s with writing them")
                audit = audit_output(spark, workload, Path(folder))
            print(f"{name} {audit.render()}", flush=True)
            right = right and audit.ok
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
