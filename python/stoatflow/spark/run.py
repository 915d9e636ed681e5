"""The results of an application on Spark: its plan, its session, topics and stores as DataFrames.

Takes the engine of the run, returns DataFrames, which can be read until the application is closed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoatflow.spark.errors import TwinError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from stoatflow.spark.engine import SparkEngine
    from stoatflow.spark.twin.parts import Part
    from stoatflow.spark.twin.running import TwinResult


class SparkRun:
    """`app.spark` of `StoatFlow(..., engine="spark")`."""

    def __init__(self, engine: SparkEngine) -> None:
        """Created by `StoatFlow`."""
        self._engine = engine

    @property
    def session(self) -> SparkSession:
        """The session in which it runs, once it has started."""
        if self._engine.session is None:
            raise TwinError(f"the application is {self._engine.state()}, and has no session: start it, and wait")
        return self._engine.session

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics that the topology writes; after a batch, including those that functions chose."""
        if self._engine.result is not None:
            return self._engine.result.topics
        return tuple(sorted({topic for part in self._parts() for topic in part.sinks}))

    @property
    def stores(self) -> tuple[str, ...]:
        """Names of the named stores."""
        return tuple(sorted({store for part in self._parts() for store in part.stores}))

    def output(self, topic: str) -> DataFrame:
        """Return the records of a topic in order: key, value, timestamp, headers.

        For a batch, after its end; for a stream that writes files, the files so far.
        """
        engine = self._engine
        if engine.batch:
            return self._result().output(topic)
        if engine.options.folder is None:
            raise TwinError(f"the stream doesn't write {topic} to files: read it where it goes")
        if topic not in self.topics:
            raise TwinError(f"the topology writes no topic '{topic}'; it writes {', '.join(self.topics) or 'none'}")
        from pyspark.errors import AnalysisException
        from pyspark.sql import functions as f

        try:
            rows = self.session.read.parquet(str(engine.options.folder)).where(f.col("topic") == topic)
        except AnalysisException as error:
            raise TwinError(
                f"nothing has been written to {engine.options.folder} yet: app.wait_until(caught_up=True) waits for it"
            ) from error
        return rows.orderBy("trigger", "place").select("key", "value", "timestamp", "headers")

    def store(self, name: str) -> DataFrame:
        """Return the rows of a store: key, start and end of the window, value, timestamp.

        For a batch, at its end; for a stream, after the last trigger, also while it runs.
        """
        engine = self._engine
        if engine.batch:
            return self._result().store(name)
        from stoatflow.spark.twin.stored import read_store

        return read_store(self.session, engine.topology, str(engine.options.checkpoint), name, config=engine.settings)

    def describe(self) -> str:
        """Return the parts that Spark runs, one line each; may be called before the start."""
        return "\n".join(part.describe() for part in self._parts())

    def progress(self) -> list[tuple[int, int]]:
        """Return the last triggers of a stream, each with the number of records read."""
        return [] if self._engine.query is None else self._engine.query.progress()

    def _parts(self) -> list[Part]:
        from stoatflow.spark.twin.parts import cut

        return cut(self._engine.topology)

    def _result(self) -> TwinResult:
        engine = self._engine
        if engine.result is None:
            raise TwinError(f"the batch is {engine.state()}, and has no results: app.wait() waits for its end")
        if engine.is_closed():
            raise TwinError("the application is closed, and its results with it: read them before close()")
        return engine.result
