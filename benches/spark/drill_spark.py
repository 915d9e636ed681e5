"""Spark's steps of the drill, each in a process of its own: `drill_spark.py there|run|back|audit ...`.

Takes a workload, a broker, a checkpoint; with the variable `SPARK_MASTER` it runs on that cluster. `audit` prints the
batch twin's report, and fails if the last records differ.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).resolve().parents[1] / "versus"))

import audited
from workloads import WORKLOADS

import stoatflow as sf
from stoatflow.spark.arguments import say
from stoatflow.spark.audit.reconciling import reconcile
from stoatflow.spark.handover import FromSpark, ToSpark
from stoatflow.spark.session import local_session
from stoatflow.spark.twin.streaming import run_stream

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONF = {"spark.sql.shuffle.partitions": "4", "spark.sql.adaptive.enabled": "false"}
EXECUTORS = {"spark.executor.memory": "1g", "spark.executor.cores": "1"}


def there(spark: SparkSession, topology: sf.Topology, options: argparse.Namespace) -> None:
    """Hand the application over to Spark."""
    plan = ToSpark(spark, topology, settings(options), options.checkpoint, tasks=4)
    say(plan.describe())
    plan.make()


def run(spark: SparkSession, topology: sf.Topology, options: argparse.Namespace) -> None:
    """Process the input to its current end."""
    broker, checkpoint = options.bootstrap, options.checkpoint
    with run_stream(
        spark, topology, broker, broker, checkpoint=checkpoint, at_most=options.at_most, until_end=True
    ) as query:
        query.wait()
        say(f"{query.progress()}")


def back(spark: SparkSession, topology: sf.Topology, options: argparse.Namespace) -> None:
    """Hand the work back to the application."""
    plan = FromSpark(spark, topology, settings(options), options.checkpoint)
    say(plan.describe())
    plan.make()


def audit(spark: SparkSession, topology: sf.Topology, options: argparse.Namespace) -> None:
    """Compare the last records of each key with the batch twin's; Spark can't write timestamps, so without them."""
    found = reconcile(spark, topology, options.bootstrap, updates="final", timestamps=False)
    print(found.render())
    if not found.ok:
        sys.exit(1)


STEPS = {"there": there, "run": run, "back": back, "audit": audit}


def settings(options: argparse.Namespace) -> sf.Settings:
    """Settings of the application."""
    return sf.Settings({"application.id": options.workload, "bootstrap.servers": options.bootstrap}, environ={})


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("step", choices=STEPS)
    parser.add_argument("--workload", choices=WORKLOADS, required=True)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--at-most", type=int, default=200_000)
    options = parser.parse_args()
    master = os.environ.get("SPARK_MASTER")
    conf = CONF | (EXECUTORS | {"spark.master": master} if master else {})
    with local_session(kafka=True, memory="2g", conf=conf) as spark:
        STEPS[options.step](spark, audited.program(WORKLOADS[options.workload]), options)


if __name__ == "__main__":
    main()
