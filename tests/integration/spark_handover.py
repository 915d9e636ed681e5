"""Spark's part of a handover on a real broker, as commands in its own process.

`spark_handover.py FOLDER STEP...` with settings in FOLDER/app.toml: each step is a command of `stoatflow`. With
`SPARK_MASTER` they run on that cluster. The step `trickle` runs triggers of a few records each, and waits in each
of them, so that a worker can be killed meanwhile.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import handover_app
import pyarrow as pa

import stoatflow as sf
from stoatflow.cli import main
from stoatflow.spark.session import local_session
from stoatflow.spark.twin import output_records
from stoatflow.spark.twin.streaming import run_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

APP = Path(__file__).with_name("handover_app.py")
CONF = {"spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false"}
if master := os.environ.get("SPARK_MASTER"):
    CONF |= {"spark.master": master, "spark.executor.memory": "600m"}
AT_MOST = 200
"""Maximum records of a trigger that waits."""


def commands(folder: Path) -> dict[str, list[str]]:
    """Returns the arguments of each step."""
    conf = itertools.chain.from_iterable(("--spark-conf", f"{name}={value}") for name, value in CONF.items())
    where = [str(APP), "--config", str(folder / "app.toml"), "--checkpoint", str(folder / "checkpoint"), *conf]
    return {
        "look": ["hand-over", "to-spark", *where, "--tasks", "2", "--dry-run"],
        "there": ["hand-over", "to-spark", *where, "--tasks", "2", "--yes"],
        "run": ["run", *where, "--engine", "spark", "--until-end"],
        "plan": ["hand-over", "to-spark", *where, "--tasks", "2", "--dry-run", "--json"],
        "look-back": ["hand-over", "from-spark", *where, "--dry-run"],
        "plan-back": ["hand-over", "from-spark", *where, "--dry-run", "--json"],
        "back": ["hand-over", "from-spark", *where, "--yes"],
    }


def trickle(folder: Path) -> int:
    """Run to the end of the input; records are written while a trigger is running."""
    bootstrap = str(sf.Settings.from_file(folder / "app.toml").get("bootstrap.servers"))
    topology = handover_app.build(os.environ["HANDOVER"])
    counts = {f"{os.environ['HANDOVER']}-{sink}": 2 for sink in handover_app.SINKS}
    windowed = output_records.windowed_topics(topology, counts)
    to_kafka = output_records.to_kafka(bootstrap, windowed=windowed)

    def write(rows: DataFrame, trigger: int) -> None:
        (folder / f"trigger-{trigger}").touch()
        slowed = rows.mapInArrow(_slow, rows.schema)
        to_kafka(slowed, trigger)

    checkpoint = folder / "checkpoint"
    with (
        local_session(kafka=True, conf=CONF) as spark,
        run_stream(spark, topology, bootstrap, write, checkpoint=checkpoint, at_most=AT_MOST, until_end=True) as query,
    ):
        query.wait()
        print(query.progress())  # noqa: T201
    return 0


def _slow(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        time.sleep(2)
        yield batch


if __name__ == "__main__":
    for step in sys.argv[2:]:
        print(f"== {step}", flush=True)  # noqa: T201
        at = Path(sys.argv[1])
        code = trickle(at) if step == "trickle" else main(commands(at)[step])
        if code != 0:
            sys.exit(f"{step} ended with {code}")
