"""Every serde returns what it wrote, in Python and through the engine's own half of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stoatflow as sf
from stoatflow import Serdes, Window, Windowed
from stoatflow.testing import TopologyTestDriver

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
LONG = st.integers(-(2**63), 2**63 - 1)
TIME = st.integers(0, 2**62)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False)


def json_of(doubles: st.SearchStrategy[float]) -> st.SearchStrategy[Any]:
    """Any JSON value except a top-level null."""
    return st.recursive(
        st.none() | st.booleans() | LONG | doubles | TEXT,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
        max_leaves=12,
    ).filter(lambda value: value is not None)


SIZE_MS = 60_000
VALUES: dict[str, tuple[sf.Serde[Any], st.SearchStrategy[Any]]] = {
    "bytes": (Serdes.bytes(), st.binary()),
    "string": (Serdes.string(), TEXT),
    "int32": (Serdes.int32(), st.integers(-(2**31), 2**31 - 1)),
    "int64": (Serdes.int64(), LONG),
    "double": (Serdes.double(), st.floats(allow_nan=False)),
    "json": (Serdes.json(), json_of(DOUBLES)),
}
KEYS: dict[str, tuple[sf.Serde[Any], st.SearchStrategy[Any]]] = {
    "time_windowed": (
        Serdes.time_windowed(str, "1m"),
        st.builds(lambda key, at: Windowed(key, Window(at, at + SIZE_MS)), TEXT, TIME),
    ),
    "session_windowed": (
        Serdes.session_windowed(Serdes.int64()),
        st.builds(lambda key, at, gap: Windowed(key, Window(at, at + gap)), LONG, TIME, st.integers(0, 10**9)),
    ),
}


@pytest.mark.parametrize("kind", [*VALUES, *KEYS])
@settings(deadline=None)
@given(data=st.data())
def test_written_values_are_read_back(kind: str, data: st.DataObject) -> None:
    serde, values = (VALUES | KEYS)[kind]
    value = data.draw(values)
    found = serde.deserialize(serde.serialize(value))
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("kind", VALUES)
@settings(deadline=None, max_examples=5)
@given(data=st.data())
def test_the_engine_writes_the_same(kind: str, data: st.DataObject) -> None:
    """It reads what Python wrote, passes it to a function, writes it itself, and stores it as key and value."""
    serde, strategy = VALUES[kind]
    values = data.draw(st.lists(strategy, min_size=1, max_size=20))
    seen: list[Any] = []
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=serde, value=serde)
    stream.peek(lambda key, value: seen.extend((key, value))).map_values(lambda value: value).to(
        "out", key=serde, value=serde
    )
    stream.to_table(store=sf.Materialized("kept", serde, serde))
    with TopologyTestDriver(builder.build(), {"default.dsl.store": "in_memory"}) as driver:
        source = driver.input("in", serde, serde)
        with driver.epoch():
            for value in values:
                source.pipe(value, value)
        assert seen == [side for value in values for side in (value, value)]
        raw = driver.output("out").read_all()
        if kind == "json":  # the same number may be written 0.00005 or 5e-05
            assert [(serde.deserialize(r.key), serde.deserialize(r.value)) for r in raw] == [(v, v) for v in values]
        else:
            assert [(r.key, r.value) for r in raw] == [(serde.serialize(v), serde.serialize(v)) for v in values]
        store = driver.store("kept")
        assert all(store.get(value) == value for value in values)
