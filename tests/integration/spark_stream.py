"""The streaming twin of a word count on a real broker, in a process of its own, which the test kills.

`spark_stream.py BOOTSTRAP NAME CHECKPOINT [TRIGGER]` reads NAME-in and writes NAME-out to the end of the input. With a
number it kills itself, its JVM and its workers when that trigger is written and not yet committed.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING

from stoatflow.cli.word_count import topology
from stoatflow.spark.session import local_session
from stoatflow.spark.twin import outgoing
from stoatflow.spark.twin.streaming import run_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AT_MOST = 150
"""Records of a trigger."""


def main() -> None:
    """Run to the end, or to the kill."""
    bootstrap, name, checkpoint = sys.argv[1:4]
    last = int(sys.argv[4]) if len(sys.argv) > 4 else None
    to_kafka = outgoing.to_kafka(bootstrap)

    def write(rows: DataFrame, trigger: int) -> None:
        to_kafka(rows, trigger)
        if trigger == last:
            os.killpg(0, signal.SIGKILL)

    # The output to a broker is a string; the function stands for it, to be killed in the middle.
    output = bootstrap if last is None else write
    conf = {"spark.sql.shuffle.partitions": "2", "spark.sql.adaptive.enabled": "false"}
    with (
        local_session(kafka=True, conf=conf) as spark,
        run_stream(
            spark,
            topology(f"{name}-in", f"{name}-out", "native"),
            bootstrap,
            output,
            checkpoint=checkpoint,
            tasks=2,
            at_most=AT_MOST,
            until_end=True,
        ) as query,
    ):
        query.wait()
        print([trigger for trigger, _ in query.progress()])  # noqa: T201


if __name__ == "__main__":
    main()
