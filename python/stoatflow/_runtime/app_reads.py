"""Reads from a running application: its stores, its metrics, its lanes.

Takes the engine of the run, returns handles and values, from any thread. Nothing here changes what the engine does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stoatflow._dsl.java_names import JavaNames
from stoatflow.durations import Duration
from stoatflow.errors import ConfigError

if TYPE_CHECKING:
    from stoatflow._runtime import bridge
    from stoatflow.offload import Parked
    from stoatflow.queries import Positions, Snapshot
    from stoatflow.spark.engine import SparkEngine
    from stoatflow.spark.run import SparkRun
    from stoatflow.sql import Parameters, SqlResult
    from stoatflow.sql.store_schema import StoreForm
    from stoatflow.topology import Topology

__all__ = ["AppReads"]


class AppReads(JavaNames):
    """The part of `StoatFlow` that reads."""

    topology: Topology
    _engine: bridge.Engine
    _on_spark: SparkEngine | None

    @property
    def admin_url(self) -> str | None:
        """URL of the live page, if the admin port is enabled.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until("RUNNING")
        ...         print(app.admin_url.startswith("http://127.0.0.1:"))
        True
        """
        return self._engine.admin_url()

    def thread_activity(self, thread: int) -> dict[str, Any] | None:
        """Return what a thread (`threading.get_ident()`) is doing: lane, epoch, function, node and record.

        `None` if it is not one of its lanes.

        >>> import threading
        >>> show = lambda key, text: print(app.thread_activity(threading.get_ident())["node"])
        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("in", value=str).foreach(show, name="show")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("in")
        ...     broker.produce("in", None, "stoat")
        ...     app = sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker)
        ...     with app:
        ...         app.wait_until(caught_up=True)
        show
        """
        found = self._engine.activity_json(thread)
        return None if found is None else json.loads(found)

    def metrics(self) -> dict[str, Any]:
        """Return all metrics.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(app.metrics()["records_in"])
        1
        """
        metrics: dict[str, Any] = json.loads(self._engine.metrics_json())
        return metrics

    def lag(self) -> int:
        """Return the number of input records that are not committed yet.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(app.lag())
        0
        """
        return self._engine.lag()

    def parked(self, offload: str) -> list[Parked]:
        """Return the records that the `offload` of this name has parked, as of the last commit, by key bytes.

        >>> builder = sf.StreamsBuilder()
        >>> texts = builder.stream("texts", key=str, value=str)
        >>> texts.offload("ask", "answers", response_value=str, name="score").print()
        >>> with sf.EmbeddedBroker() as broker:
        ...     for topic in ("texts", "ask", "answers"):
        ...         broker.create_topic(topic)
        ...     broker.produce("texts", "a", "well done")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print([(parked.key, parked.state) for parked in app.parked("score")])
        [('a', 'asked')]
        """
        from stoatflow.offload import Parked

        return [Parked(*entry) for entry in self._engine.parked(offload)]

    def store(
        self,
        name: str,
        *,
        timestamps: bool = False,
        headers: bool = False,
        at_least: Positions | None = None,
        timeout: float | Duration | None = "30s",
    ) -> Any:
        """Return a read-only handle of a store, such as a `ReadOnlyKeyValueStore`, by its kind.

        Each read sees the last commit at that moment; any thread may read. `at_least` waits until input before these
        positions is committed, at most for `timeout`. With `timestamps`, values are `ValueAndTimestamp`;
        with `headers`, values of a store that keeps headers are `ValueTimestampHeaders`.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann", timestamp=1000)
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(app.store("users", timestamps=True).get("u1"))
        ValueAndTimestamp(value='Ann', timestamp=1000)
        """
        from stoatflow.queries import read_only_store

        return read_only_store(self._engine, name, at_least, timeout, timestamps, self._store_forms, headers)

    def snapshot(self, *, at_least: Positions | None = None, timeout: float | Duration | None = "30s") -> Snapshot:
        """Return a snapshot of all stores as of one commit, for a `with` or `async with`.

        `at_least` waits until input before these positions is committed, at most for `timeout`.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         with app.snapshot() as at:
        ...             print(at.store("users").get("u1"), at.positions["users", 0])
        Ann 1
        """
        from stoatflow.queries import Snapshot

        return Snapshot(self._engine, at_least, timeout, self._store_forms)

    def sql(
        self,
        query: str,
        parameters: Parameters | None = None,
        *,
        schema: Mapping[str, object] | None = None,
        allow_scan: bool = False,
        at_least: Positions | None = None,
        timeout: float | Duration | None = "30s",
    ) -> SqlResult:
        """Run a SELECT over the stores, all of one commit: `app.sql("select _key from people where city = 'Oslo'")`.

        Conditions on keys, times of windows and indexed members, and LIMIT, are pushed down to the stores; DuckDB does
        the rest. A query that would read a whole store is an error without `allow_scan`. `parameters` are the values of
        `?` or `$name`; `schema` names the columns of stores whose values don't define them.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(app.sql("select value from users where _key = ?", ["u1"]).rows)
        [{'value': 'Ann'}]
        """
        with self.snapshot(at_least=at_least, timeout=timeout) as snapshot:
            return snapshot.sql(query, parameters, schema=schema, allow_scan=allow_scan)

    def to_arrow(self, store: str, *, schema: object = None) -> Any:
        """Return the rows of a store, as of the last commit, as a `pyarrow.Table`.

        The columns are those of `map_batches`, the key first. `schema` names the columns of the values; without it they
        are derived from the values. The application keeps running meanwhile.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(app.to_arrow("users").to_pydict()["value"])
        ['Ann']
        """
        from stoatflow._runtime.store_batches import table  # only this method needs it

        return table(self._engine, store, schema)

    def arrow_batches(self, store: str, *, schema: object = None, max_rows: int = 65_536) -> Any:
        """Return the rows of a store, as of the last commit, as a `pyarrow.RecordBatchReader`: a batch at a time.

        All batches are of one commit, however long reading takes. The reader ends with the application.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print([batch.num_rows for batch in app.arrow_batches("users")])
        [1]
        """
        from stoatflow._runtime.store_batches import reader

        return reader(self._engine, store, schema, max_rows)

    @property
    def spark(self) -> SparkRun:
        """Return the application's view of Spark: topics and stores as DataFrames, the plan, the session.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("in", key=str, value=str).to("out", key=str, value=str)
        >>> config = {"application.id": "app", "bootstrap.servers": "localhost:9092"}
        >>> app = sf.StoatFlow(builder.build(), config, engine="spark", batch=True)
        >>> app.spark.topics
        ('out',)
        """
        from stoatflow.spark.run import SparkRun

        if self._on_spark is None:
            raise ConfigError("this application doesn't run on Spark", next_step='write engine="spark"')
        return SparkRun(self._on_spark)

    def _store_forms(self) -> Mapping[str, StoreForm]:
        from stoatflow.sql.store_schema import forms_of

        return forms_of(json.loads(self.topology.plan.physical_json)["stores"])
