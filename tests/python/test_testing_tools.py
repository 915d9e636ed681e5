"""The test kit for users: fixtures that pytest finds, readable comparisons, strategies for records."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import stoatflow as sf
from stoatflow.testing import Record, TopologyTestDriver, any_lanes
from stoatflow.testing.pytest_plugin import pytest_assertrepr_compare
from stoatflow.testing.strategies import records, topologies


def upper() -> sf.Topology:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).map_values(str.upper).to("out", key=str, value=str)
    return builder.build()


def test_drivers_are_made_and_closed(topology_driver: Callable[..., TopologyTestDriver]) -> None:
    for lanes in (1, 4):
        driver = topology_driver(upper(), lanes=lanes)
        driver.input("in", str, str).pipe("k", "v", timestamp=7)
        assert driver.output("out", str, str).read_all() == [Record("k", "V", 7)]


def test_the_broker_fixture_works(embedded_broker: sf.EmbeddedBroker) -> None:
    embedded_broker.create_topic("in")
    embedded_broker.produce("in", "ä", "b")
    assert [record.key for record in embedded_broker.read("in")] == ["ä".encode()]
    assert "in (1)" in repr(embedded_broker)
    with pytest.raises(TypeError, match="takes bytes, text or None"):
        embedded_broker.produce("in", "k", 1)  # type: ignore[arg-type]


def test_pytest_finds_the_fixtures_and_explains_differences(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "from stoatflow.testing import Record\n"
        "def test_fixture(embedded_broker):\n    assert embedded_broker.topics() == {}\n"
        "def test_differs():\n"
        "    assert [Record('a', 1, 5), Record('b', 2, 5)] == [Record('a', 3, 5)]\n",
        "utf-8",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path, env=dict(os.environ), capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "record 0: value is 1, not 3 (key 'a')" in done.stdout
    assert "record 1: not expected: key 'b', value 2, timestamp 5" in done.stdout


def test_differences_are_shown_record_by_record() -> None:
    one, two = Record("a", 1, 5), Record("b", 1, 6)
    assert pytest_assertrepr_compare("==", [one], [one, two]) == [
        "1 records == 2 records",
        "record 1: missing: key 'b', value 1, timestamp 6",
    ]
    assert pytest_assertrepr_compare("==", [one], [two]) == [
        "1 records == 1 records",
        "record 0: key is 'a', not 'b'; timestamp is 5, not 6",
    ]
    many = pytest_assertrepr_compare("==", [one] * 30, [])
    assert many is not None
    assert (len(many), many[-1]) == (22, "and 10 more")
    assert pytest_assertrepr_compare("==", [1], [2]) is None
    assert pytest_assertrepr_compare("!=", [one], [two]) is None


@settings(max_examples=30, deadline=None)
@given(records(st.sampled_from("ab"), st.text(max_size=3), min_size=1, gap="5s", late="10s", tombstones=True))
def test_generated_timestamps_rise_except_for_late_records(made: list[Record[str, str]]) -> None:
    latest = 0
    for record in made:
        latest = max(latest, record.timestamp)
        assert record.timestamp >= 0
        assert latest - record.timestamp <= 10_000 + 5_000 * len(made)
        assert record.key in ("a", "b")


@settings(max_examples=10, deadline=None)
@given(records(st.sampled_from("abc"), st.text(max_size=5)))
def test_generated_records_can_be_piped(made: list[Record[str, str]]) -> None:
    with TopologyTestDriver(upper()) as driver:
        driver.input("in", str, str).pipe_all(made)
        expected = [Record(r.key, r.value.upper() if r.value else r.value, r.timestamp) for r in made]
        assert driver.output("out", str, str).read_all() == expected


class Doubled(sf.ContextualProcessor[str, str, str, str]):
    """A step of the user: stateful, by key."""

    @staticmethod
    def stores() -> list[sf.StoreBuilder]:
        return [sf.Stores.in_memory_key_value("seen", key=str, value=int)]

    def process(self, record: sf.Record[str, str]) -> None:
        store = self.context.state_store("seen")
        seen = (store.get(record.key) or 0) + 1
        store.put(record.key, seen)
        self.context.forward(record.replace(value=f"{record.value}{seen}"))


def doubled(stream: sf.KStream[str, str]) -> sf.KStream[str, str]:
    return stream.process(Doubled)


OPERATORS: set[str] = set()


@settings(max_examples=30, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    topologies(doubled, rekey=lambda key, value: value[:1]),
    records(st.sampled_from("abc"), st.text("xyz", min_size=1, max_size=2), max_size=12),
)
def any_lanes_agree(topology: sf.Topology, made: list[Record[str, str]]) -> None:
    described = topology.describe()
    assert described.count("KSTREAM-PROCESSOR") >= 1
    OPERATORS.update(re.findall(r"KSTREAM-(FILTER|MERGE|LEFTJOIN|KEY-SELECT|TOTABLE|REDUCE|AGGREGATE)", described))
    inputs = [("in", record.key, record.value, record.timestamp) for record in made]
    any_lanes(topology, inputs, lanes=(1, 4), config={"default.dsl.store": "in_memory"})


def test_drawn_topologies_run_and_have_the_step() -> None:
    any_lanes_agree()
    assert {"FILTER", "MERGE", "LEFTJOIN", "KEY-SELECT"} <= OPERATORS


def test_a_failing_topology_is_shown() -> None:
    @settings(max_examples=5, deadline=None, database=None, phases=(Phase.generate,))
    @given(topologies(doubled))
    def fails(topology: sf.Topology) -> None:
        raise AssertionError("it fails")

    with pytest.raises(AssertionError, match="it fails") as caught:
        fails()
    assert "Topologies:" in "".join(caught.value.__notes__)
