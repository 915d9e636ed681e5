"""Headers are passed on with records, so a trace context (`traceparent`) reaches their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

FIRST, SECOND = b"00-00000000000000000000000000000001-0000000000000001-01", b"00-02-02-01"
Shape = Callable[[sf.StreamsBuilder, sf.KStream[str, str]], sf.KStream[Any, Any]]


async def shout(value: str) -> str:
    return value.upper()


def joined(builder: sf.StreamsBuilder, stream: sf.KStream[str, str]) -> sf.KStream[Any, Any]:
    return stream.join(builder.table("table", key=str, value=str, store="table"), lambda left, right: left)


SHAPES: dict[str, Shape] = {
    "map_values": lambda _, s: s.map_values(str.upper),
    "an expression": lambda _, s: s.map_values(sf.value.str.upper()),
    "flat_map_values": lambda _, s: s.flat_map_values(lambda value: [value, value]),
    "filter": lambda _, s: s.filter(sf.value.is_not_null()),
    "an async function": lambda _, s: s.map_values(shout, name="shout"),
    "a new key": lambda _, s: s.select_key(lambda key, value: value).repartition(name="by-value", key=str),
    "an aggregation": lambda _, s: (
        s.group_by(lambda key, value: value, key=str, value=str).count(store="n").to_stream().map_values(str)
    ),
    "a window": lambda _, s: (
        s.group_by_key()
        .windowed_by(sf.TimeWindows("1m", grace="0s"))
        .count(store="n")
        .to_stream(lambda windowed, count: windowed.key)
        .map_values(str)
    ),
    "a join with a table": joined,
    "a join of streams": lambda builder, s: s.join(
        builder.stream("table", key=str, value=str),
        lambda left, right: left,
        sf.JoinWindows("1m", grace="0s"),
        joined=sf.StreamJoined(str, str, str, name="pairs"),
    ),
    "a table": lambda _, s: s.to_table(store="rows").to_stream(),
    "merge": lambda builder, s: s.merge(builder.stream("other", key=str, value=str)),
}


BESIDE = {"a join with a table", "a join of streams"}
"""Shapes with a second topic, `table`."""


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("lanes", [1, 4])
def test_trace_context_headers_pass_through(shape: str, lanes: int) -> None:
    builder = sf.StreamsBuilder()
    SHAPES[shape](builder, builder.stream("in", key=str, value=str)).to("out", key=str, value=str)
    with TopologyTestDriver(builder.build(), {"statestore.cache.max.bytes": 0}, lanes=lanes) as driver:
        if shape in BESIDE:
            driver.input("table", str, str).pipe("k", "row", timestamp=0, headers=[("traceparent", b"of the table")])
        source = driver.input("in", str, str)
        source.pipe("k", "one", timestamp=1, headers=[("traceparent", FIRST)])
        source.pipe("k", "two", timestamp=2, headers=[("traceparent", SECOND)])
        out = driver.output("out", str, str).read_all()
    assert len(out) >= 2
    assert {dict(record.headers)["traceparent"] for record in out} == {FIRST, SECOND}
