"""The lines of the demo, made and checked by PySpark, which shares no code with the engine.

Takes a broker and two topics. Starts Spark at once, and stops it at the end.
"""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stoatflow.spark.report import Reconciliation


class SparkSide:
    """Loads the input of a demo, and checks its output."""

    name = "PySpark"

    def __init__(self, bootstrap: str, source: str, sink: str, partitions: int) -> None:
        """Start Spark."""
        from stoatflow.spark.session import local_session

        self._bootstrap, self._source, self._sink, self._partitions = bootstrap, source, sink, partitions
        ours = signal.getsignal(signal.SIGINT)
        self._spark: Any = local_session(kafka=not bootstrap.startswith("embedded:"))
        # Spark's own handler asks the JVM to cancel its jobs first; the errors that follow would hide Ctrl-C.
        signal.signal(signal.SIGINT, ours)

    def load(self, count: int, seed: int) -> int:
        """Create both topics, write the lines; return how many arrived."""
        from stoatflow.spark import load
        from stoatflow.spark.arguments import counter

        rows = load.lines(self._spark, records=count, seed=seed, partitions=self._partitions)
        arrived = load.to_broker(
            rows, self._bootstrap, self._source, partitions=self._partitions, progress=counter(count, "lines")
        )
        self._make_sink()
        return arrived

    def _make_sink(self) -> None:
        """Create the output topic: the engine never creates source or sink topics, so that typos are noticed."""
        if self._bootstrap.startswith("embedded:"):
            from stoatflow.embedded import EmbeddedBroker

            with EmbeddedBroker(self._bootstrap.removeprefix("embedded:")) as broker:
                broker.create_topic(self._sink, self._partitions)
        else:
            from stoatflow.spark.kafka import KafkaTopics

            KafkaTopics(self._spark, self._bootstrap).create(self._sink, self._partitions)

    def reconcile(self) -> Reconciliation:
        """Count the words of the input, and compare with the output."""
        from stoatflow.spark.reconcile import reconcile_topics

        return reconcile_topics(self._spark, self._bootstrap, self._source, self._sink)

    def close(self) -> None:
        """Stop Spark."""
        # After Ctrl-C the JVM has ended by itself, and Spark's errors about it would hide the reason.
        with contextlib.suppress(Exception):
            self._spark.stop()
