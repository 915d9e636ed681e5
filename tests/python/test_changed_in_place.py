"""With `decode="dict"` a processor may change its input in place and forward it, in every role."""

from __future__ import annotations

from typing import Any

import pytest

import stoatflow as sf
from stoatflow import FixedKeyRecord, Record
from stoatflow.testing import TopologyTestDriver


def change(found: Any) -> None:
    """Change a dict or a list, and a list within it."""
    if isinstance(found, dict):
        found["seen"] = True
        found["all"].append(2)
    else:
        found.append(2)


PLAIN = sf.Serdes.json(decode="dict")
VALUES = [({"all": [1]}, {"all": [1, 2], "seen": True}), ([1], [1, 2])]


class Changes(sf.ContextualProcessor[Any, Any, Any, Any]):
    """Changes the value."""

    def process(self, record: Record[Any, Any]) -> None:
        change(record.value)
        self.context.forward(record)


class ChangesFixed(sf.ContextualFixedKeyProcessor[Any, Any, Any]):
    """Changes the value, with fixed keys."""

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        change(record.value)
        self.context.forward(record)


class ChangesKey(sf.ContextualProcessor[Any, Any, Any, Any]):
    """Changes the key."""

    def process(self, record: Record[Any, Any]) -> None:
        change(record.key)
        self.context.forward(record)


class ChangesKeyFixed(sf.ContextualFixedKeyProcessor[Any, Any, Any]):
    """Changes the key, with fixed keys."""

    def process(self, record: FixedKeyRecord[Any, Any]) -> None:
        change(record.key)
        self.context.forward(record)


class ChangesRow(sf.ValueTransformer[Any, Any, Any]):
    """Changes the value of a row."""

    def transform(self, key: Any, value: Any) -> Any:
        change(value)
        return value


def once(topology: sf.Topology, key: Any, value: Any) -> Record[Any, Any]:
    with TopologyTestDriver(topology) as driver:
        driver.input("in", dict, dict).pipe(key, value, timestamp=1)
        return driver.output("out", dict, dict).read()


def stream() -> tuple[sf.StreamsBuilder, sf.KStream[Any, Any]]:
    builder = sf.StreamsBuilder()
    return builder, builder.stream("in", key=PLAIN, value=PLAIN)


@pytest.mark.parametrize(("value", "changed"), VALUES)
def test_values(value: Any, changed: Any) -> None:
    builder, records = stream()
    records.process(Changes).to("out", key=PLAIN, value=PLAIN)
    assert once(builder.build(), {"k": 1}, value) == Record({"k": 1}, changed, 1)
    builder, records = stream()
    records.process_values(ChangesFixed).to("out", key=PLAIN, value=PLAIN)
    assert once(builder.build(), {"k": 1}, value) == Record({"k": 1}, changed, 1)
    builder = sf.StreamsBuilder()
    table = builder.table("in", key=PLAIN, value=PLAIN, store="rows").transform_values(ChangesRow)
    table.to_stream().to("out", key=PLAIN, value=PLAIN)
    assert once(builder.build(), {"k": 1}, value) == Record({"k": 1}, changed, 1)


@pytest.mark.parametrize(("key", "changed"), VALUES)
def test_keys(key: Any, changed: Any) -> None:
    builder, records = stream()
    records.process(ChangesKey).to("out", key=PLAIN, value=PLAIN)
    assert once(builder.build(), key, {"v": 1}) == Record(changed, {"v": 1}, 1)


@pytest.mark.parametrize(("key", "_changed"), VALUES)
def test_process_values_keeps_the_input_key(key: Any, _changed: Any) -> None:
    builder, records = stream()
    records.process_values(ChangesKeyFixed).to("out", key=PLAIN, value=PLAIN)
    assert once(builder.build(), key, {"v": 1}) == Record(key, {"v": 1}, 1)


def test_lists_made_by_expressions() -> None:
    builder = sf.StreamsBuilder()
    words = builder.stream("in", key=str, value=str).map_values(sf.value.str.split())
    words.process(Changes).map_values(len).to("out", key=str, value=int)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, str).pipe("k", "a b", timestamp=1)
        assert driver.output("out", str, int).read_value() == 3
