"""Runs the Python topology in the engine's test driver: one lane, a commit per record.

Takes a topology and settings; inputs. Returns a `Run`. Stores with pending state (stream-stream joins, suppressions,
foreign-key subscriptions, timers) are not compared: the format of their rows is the engine's own.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Sequence
from typing import Any

from stoatflow._version import __version__
from stoatflow.errors import ConfigError, StoatFlowError
from stoatflow.prove.inputs import ClockStep, Input, Serdes
from stoatflow.prove.runs import Described, Failure, Output, Row, Run
from stoatflow.serdes import Serde
from stoatflow.serdes.planned import planned
from stoatflow.settings import Settings
from stoatflow.testing.driver import TopologyTestDriver
from stoatflow.topology import Topology

_SHOWN = {"key_value", "timestamped_key_value", "window", "session", "versioned"}


class EngineSide:
    """One topology."""

    def __init__(self, topology: Topology, name: str, settings: Settings) -> None:
        """Build the topology for these settings; raise `ConfigError` or `TopologyError`."""
        settings.check()
        self.topology, self._settings = topology.for_settings(settings), settings
        self.plan: dict[str, Any] = json.loads(self.topology.plan.physical_json)
        sources, sinks, stores = self.plan["sources"], self.plan["sinks"], self.plan["stores"]
        for source in sources:
            if source.get("pattern"):
                raise ConfigError(
                    f"the Python topology reads topics by the pattern {source['pattern']}, which a proof can't",
                    next_step="let it read a list of topics for the proof",
                )
        self._compared = [one["name"] for one in stores if _is_shown(one)]
        self.described = Described(
            name,
            f"StoatFlow {__version__}",
            frozenset(topic for source in sources for topic in source["topics"]),
            frozenset(sink["topic"] for sink in sinks if sink.get("topic")),
            frozenset(one["name"] for one in stores),
            self.topology.describe(),
        )

    def source_serdes(self, topic: str) -> Serdes | None:
        """Return the serdes with which a topic is read, if it is a source."""
        return self._serdes(next((one for one in self.plan["sources"] if topic in one["topics"]), None))

    def sink_serdes(self, topic: str) -> Serdes | None:
        """Return the serdes with which a topic is written, if known."""
        sinks = self.plan["sinks"]
        of_topic = [one for one in sinks if one.get("topic") == topic] or [one for one in sinks if not one.get("topic")]
        return self._serdes(of_topic[0] if of_topic else None)

    def store_serdes(self, store: str) -> Serdes | None:
        """Return the serdes of a store."""
        return self._serdes(next((one for one in self.plan["stores"] if one["name"] == store), None))

    def _serdes(self, found: dict[str, Any] | None) -> Serdes | None:
        return None if found is None else (self._serde(found["key"]), self._serde(found["value"]))

    def _serde(self, spec: Any) -> Serde[Any]:
        return planned(spec, self.topology.custom_serde)

    def run(self, inputs: Sequence[Input], start: int) -> Run:
        """Run the topology with these inputs; the wall clock starts at `start`."""
        run = Run()
        # Output of the user's functions must not mix with the report.
        with contextlib.redirect_stdout(sys.stderr):
            try:
                driver = TopologyTestDriver(self.topology, self._settings, start=start)
            except (ConfigError, ValueError):
                raise
            except StoatFlowError as error:
                run.failure = _failure(-1, error)
                return run
            with driver:
                self._feed(driver, inputs, run)
        run.sort()
        return run

    def _feed(self, driver: TopologyTestDriver, inputs: Sequence[Input], run: Run) -> None:
        topics = {name: driver.input(name) for name in self.described.topics}
        readers: dict[str, Any] = {}
        for at, given in enumerate(inputs):
            try:
                if isinstance(given, ClockStep):
                    driver.advance(given.ms)
                elif given.topic in topics:
                    topics[given.topic].pipe(given.key, given.value, given.timestamp, given.headers)
            except StoatFlowError as error:
                run.failure = _failure(at, error)
                return
            for topic in driver.produced_topics:
                if topic not in readers:
                    readers[topic] = driver.output(topic)
                for record in readers[topic]:
                    run.add(topic, at, Output(record.key, record.value, record.timestamp, tuple(record.headers)))
        native = driver._native
        for name in self._compared:
            rows = native.store_rows(name)
            run.stores[name] = [Row(key, window, value, at) for key, window, value, at in rows]


def _is_shown(store: dict[str, Any]) -> bool:
    return store["kind"]["type"] in _SHOWN and not store["kind"].get("duplicates")


def _failure(at: int, error: StoatFlowError) -> Failure:
    cause = error.__cause__
    name, message = (type(error).__name__, error.message) if cause is None else (type(cause).__name__, str(cause))
    return Failure(at, name, message, str(error))
