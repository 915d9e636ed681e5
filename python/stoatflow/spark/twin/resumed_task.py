"""Runs one task of a part, trigger by trigger, with an engine that continues from the kept state.

Takes the records of a trigger, in order, and the task's state. Returns the output, and updates the state. Owns the
engines that a worker process keeps alive between triggers. An engine is used again only if the state has the token that
the engine wrote last: after a failed attempt, or a trigger that ran elsewhere, the tokens differ. Independent of Spark.
"""

from __future__ import annotations

import itertools
import json
import os
import uuid
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from stoatflow.spark.twin.task import Row, Task, Work
from stoatflow.spark.twin.task_state import Change, Retention, TaskState, packed, unpacked

if TYPE_CHECKING:
    from stoatflow._runtime.bridge import Driver
    from stoatflow.topology import Topology

Records = Iterable[tuple[Any, ...]]

_TIMES = "clocks"
"""The store in which the engine keeps stream times."""
_IN_MEMORY = {"default.dsl.store": "in_memory"}
_ALIVE = 16
"""Engines that a worker process keeps alive."""
_RESTORED = 5_000
"""Rows that are piped together into an engine that restores its stores."""
_RENEWED = 50_000
"""Records after which an engine is replaced: its topics are in memory."""


class _Engine:
    def __init__(self, driver: Driver, token: str, piped: int) -> None:
        self.driver = driver
        self.token = token
        self.piped = piped


_ENGINES: OrderedDict[tuple[str, int, int], _Engine] = OrderedDict()
_TOPOLOGIES: dict[tuple[str, int], Topology] = {}


class ResumedTask:
    """Runs the tasks of one part in this process."""

    def __init__(self, run: str, work: Work) -> None:
        """`run` identifies the run of the query: engines are not shared between runs."""
        self._run = run
        # A task's state is in memory anyway, as changelogs; RocksDB besides would cost 80 ms at each start.
        self._work = work = replace(work, pairs=tuple((dict(work.pairs) | _IN_MEMORY).items()))
        self.topology = _topology(run, work)
        self.retentions = retentions(self.topology)
        self._changelogs = {f"{_application(work)}-{store}-changelog": store for store in self.retentions}

    def trigger(self, task: int, records: Records, kept: TaskState) -> Iterator[Row]:
        """Process the records of a trigger; the state is written once all output has been consumed."""
        place = (self._run, self._work.number, task)
        engine = self._engine(place, kept)
        try:
            piping = Task(self._work, self.topology, task)
            yield from piping.process(engine.driver, _counted(engine, records))
            engine.token = uuid.uuid4().hex
            kept.add(self._changes(engine.driver), engine.token)
        except BaseException:
            _end(place)
            raise
        if engine.piped > _RENEWED:
            _end(place)

    def stateless(self, records: Records) -> Iterator[Row]:
        """Process records with an engine without state; any engine of the part will do."""
        place = (self._run, self._work.number, -1)
        engine = _ENGINES.get(place) or _keep(place, _Engine(self._started(), "", 0))
        try:
            yield from Task(self._work, self.topology, 0).process(engine.driver, _counted(engine, records))
        except BaseException:
            _end(place)
            raise
        if engine.piped > _RENEWED:
            _end(place)

    def restored(self, rows: Iterable[Change]) -> Driver:
        """Start an engine whose stores are restored from these rows."""
        topics = {store: topic for topic, store in self._changelogs.items()}
        driver = self._started()
        try:
            given, held = iter(rows), False
            while some := list(itertools.islice(given, _RESTORED)):
                if not held:
                    # Only written, not processed: they are changelogs, from which a restart restores the
                    # stores.
                    driver.hold()
                    held = True
                driver.pipe_all(
                    [
                        (topics[store], (key, value, timestamp, unpacked(headers)))
                        for store, key, value, timestamp, headers in some
                    ]
                )
            if held:
                driver.crash()
                driver.restart(1)
                self._changes(driver)
        except BaseException:
            driver.close()
            raise
        return driver

    def store_rows(self, task: int, rows: Iterable[Change]) -> Iterator[Row]:
        """Return the rows of the part's stores."""
        driver = self.restored(rows)
        try:
            yield from Task(self._work, self.topology, task).store_rows(driver)
        finally:
            driver.close()

    def _engine(self, place: tuple[str, int, int], kept: TaskState) -> _Engine:
        engine = _ENGINES.get(place)
        if engine is not None and engine.token == kept.token:
            _ENGINES.move_to_end(place)
            return engine
        _end(place)
        rows = kept.rows()
        return _keep(place, _Engine(self.restored(rows), kept.token, 0))

    def _started(self) -> Driver:
        # The engine's folder is where Spark removes everything at the end, also after a kill.
        if folder := os.environ.get("SPARK_LOCAL_DIRS"):
            os.environ["TMPDIR"] = folder.partition(",")[0]
        return Task(self._work, self.topology, 0).start()

    def _changes(self, driver: Driver) -> list[Change]:
        return [
            Change(store, key, value, timestamp, packed(headers))
            for topic, store in self._changelogs.items()
            for key, value, timestamp, headers in driver.drain(topic)
        ]


def retentions(topology: Topology) -> dict[str, Retention]:
    """Return the stores that have a changelog, and how long their rows are kept."""
    found = {_TIMES: Retention()}
    for store in json.loads(topology.plan.physical_json)["stores"]:
        if store["logged"]:
            kind: Mapping[str, Any] = store["kind"]
            found[store["name"]] = Retention(kind.get("retention_ms"), kind.get("history_ms"))
    return found


def _application(work: Work) -> str:
    return str(dict(work.pairs)["application.id"])


def _topology(run: str, work: Work) -> Topology:
    from stoatflow.topology import Topology

    made = _TOPOLOGIES.get((run, work.number))
    if made is None:
        made = _TOPOLOGIES[run, work.number] = Topology(work.nodes)
    return made


def _counted(engine: _Engine, records: Records) -> Iterator[tuple[Any, ...]]:
    for record in records:
        engine.piped += 1
        yield record


def _keep(place: tuple[str, int, int], engine: _Engine) -> _Engine:
    _ENGINES[place] = engine
    while len(_ENGINES) > _ALIVE:
        _end(next(iter(_ENGINES)))
    return engine


def _end(place: tuple[str, int, int]) -> None:
    engine = _ENGINES.pop(place, None)
    if engine is not None:
        engine.driver.close()
