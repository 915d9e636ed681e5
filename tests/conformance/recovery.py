"""Ways to run a vector that must not change its results: lanes, batches, back ends, crashes.

Takes a case and a way, returns the results. A way says how many inputs share an epoch, which back end holds the
stores, at which epochs the engine crashes, and with how many lanes it restarts. A crash happens after the commit,
or (if the epoch's inputs are of one topic, and so are read again in order) when everything is processed and nothing
committed.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from conformance import runner
from conformance.runner import Case, Found
from stoatflow import Topology
from stoatflow.testing import TopologyTestDriver
from stoatflow.testing.topics import header_text

BATCHES = (1, 3, 1024)
BACK_ENDS = ("in_memory", "rocksDB")
LANES = ((1, 4), (4, 1))


@dataclass(frozen=True)
class Way:
    """How a vector is run."""

    lanes: tuple[int, ...]
    """The number of lanes at first, and after each crash (cyclic)."""
    batch: int
    """Number of inputs per epoch."""
    back_end: str
    every: int = 1
    """The engine crashes at every n-th epoch; 0: never."""

    def __str__(self) -> str:
        """For the names of tests."""
        return f"lanes-{'-'.join(map(str, self.lanes))}-batch-{self.batch}-{self.back_end}"


TOGETHER = Way((5,), 8, "rocksDB", every=0)
"""Concurrent lanes, without a crash."""


@dataclass(frozen=True)
class Dependent:
    """Why, when and where a vector's result depends on the order of records of different keys."""

    when: str
    what: str
    why: str

    def concerns(self, way: Way) -> bool:
        """Whether it shows in this way of running."""
        lanes, epochs = max(way.lanes) > 1, way.batch > 1
        shows = {"restarts": way.every > 0, "epochs": epochs, "lanes": lanes, "batches": lanes and epochs}
        return any(shows[when] for when in self.when.split("+"))

    def instead(self, way: Way) -> Way:
        """The nearest way in which nothing may change all the same."""
        if self.what == "order" or not self.concerns(way):
            return way
        if "restarts" in self.when:
            way = replace(way, lanes=(1,), every=0)
        if "epochs" in self.when:
            way = replace(way, batch=1)
        return replace(way, lanes=(1,)) if self.concerns(way) else way


def listed(name: str) -> list[str]:
    """The lines of a list beside the vectors."""
    lines = (runner.HERE / name).read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def dependent() -> dict[str, Dependent]:
    """The listed dependencies, by area and topology."""
    found = {}
    for line in listed("order_dependent.txt"):
        place, _, rest = line.partition(": ")
        what, _, why = rest.partition(": ")
        found[place] = Dependent(*what.split(", "), why)
    return found


def ways() -> list[Way]:
    """The whole matrix: a crash at every epoch."""
    return [Way(*way) for way in itertools.product(LANES, BATCHES, BACK_ENDS)]


def number(text: str) -> int:
    """A number that depends on the text only, for the same sample in every run."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def epochs(case: Case, size: int) -> Iterator[list[dict[str, Any]]]:
    """Split the inputs into epochs; time passes between two of them."""
    for passes, events in itertools.groupby(case.data["inputs"], lambda event: "topic" not in event):
        found = list(events)
        length = 1 if passes else size
        yield from (found[at : at + length] for at in range(0, len(found), length))


def without_input(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Remove the input that caused a record, since an epoch has several."""
    return [{name: part for name, part in record.items() if name != "i"} for record in records]


def run(case: Case, topology: Topology, way: Way, settings: Mapping[str, object] | None = None) -> Found:
    """Run a vector in this way; `i` of an output is the number of the first input of its epoch."""
    topics: dict[str, dict[str, Any]] = case.data["topics"]
    outputs: dict[str, list[dict[str, Any]]] = {topic: [] for topic in case.data["outputs"]}
    lanes = itertools.cycle(way.lanes)
    config = runner.config(case) | {"default.dsl.store": way.back_end} | dict(settings or {})
    first = number(case.name) % max(way.every, 1)
    with TopologyTestDriver(topology, config, lanes=next(lanes)) as driver:
        inputs = {t: driver.input(t, runner.serde(s["key"]), runner.serde(s["value"])) for t, s in topics.items()}
        readers = {
            t: driver.output(t, runner.serde(topics[t]["key"]), runner.serde(topics[t]["value"])) for t in outputs
        }

        def crash() -> None:
            driver.crash()
            driver.restart(lanes=next(lanes))

        i = 0
        for at, events in enumerate(epochs(case, way.batch)):
            crashes = way.every > 0 and at % way.every == first
            if "topic" in events[0]:
                # Alternately before and after the commit.
                before = crashes and len({event["topic"] for event in events}) == 1 and (at // way.every) % 2 == 0
                crashes = crashes and not before
                with driver.epoch():
                    for event in events:
                        headers = [(name, value) for name, value in event.get("headers", [])]
                        into = inputs[event["topic"]]
                        into.pipe(event["key"], event["value"], timestamp=event["timestamp"], headers=headers)
                    if before:
                        crash()
            else:
                driver.advance(events[0]["advance_wall_clock_ms"])
            if crashes:
                crash()
            for topic, reader in readers.items():
                for record in reader:
                    made = runner.windowed(record.key) | {"value": record.value, "timestamp": record.timestamp}
                    if record.headers:
                        made["headers"] = [list(header) for header in header_text(record.headers)]
                    outputs[topic].append(made | {"i": i})
            i += len(events)
        return Found(outputs, *runner.state(case, driver))
