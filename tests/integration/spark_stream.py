"""The streaming twin of a word count on a real broker, in its own process, which the test kills.

`spark_stream.py BOOTSTRAP NAME CHECKPOINT [TRIGGER]` reads NAME-in and writes NAME-out to the end of the input, as
an application. With a number it kills itself, its JVM and its workers when that trigger is written and not yet
committed.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

import stoatflow as sf
from stoatflow.cli.word_count import topology
from stoatflow.spark import SparkOptions
from stoatflow.spark.session import local_session
from stoatflow.spark.twin import output_records
from stoatflow.spark.twin.streaming import run_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AT_MOST = 150
"""Maximum records of a trigger."""


def main() -> None:
    """Run to the end, or to the kill."""
    bootstrap, name, checkpoint = sys.argv[1:4]
    last = int(sys.argv[4]) if len(sys.argv) > 4 else None
    to_kafka = output_records.to_kafka(bootstrap)

    def write(rows: DataFrame, trigger: int) -> None:
        to_kafka(rows, trigger)
        if trigger == last:
            os.killpg(0, signal.SIGKILL)

    words = topology(f"{name}-in", f"{name}-out", "native")
    conf = {"spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false"}
    if last is None:
        options = SparkOptions(checkpoint=checkpoint, tasks=2, at_most=AT_MOST, until_end=True, conf=conf)
        app = sf.StoatFlow(words, {"bootstrap.servers": bootstrap}, engine="spark", spark=options)
        app.run()
        print([trigger for trigger, _ in app.spark.progress()])  # noqa: T201
        app.close()
        return
    # The function stands in for the broker, so that it can be killed in the middle.
    with (
        local_session(kafka=True, conf=conf) as spark,
        run_stream(
            spark, words, bootstrap, write, checkpoint=checkpoint, tasks=2, at_most=AT_MOST, until_end=True
        ) as query,
    ):
        query.wait()


if __name__ == "__main__":
    main()
