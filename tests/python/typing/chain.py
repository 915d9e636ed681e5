"""Checked by mypy and pyright, never run: what is inferred along a chain of operators."""

from typing import Any

from typing_extensions import assert_type

import stoatflow as sf
from stoatflow.testing import Record, TestInputTopic, TestOutputTopic, TopologyTestDriver

builder = sf.StreamsBuilder()
lines = builder.stream("lines", key=str, value=str)
assert_type(lines, sf.KStream[str, str])
assert_type(builder.stream("a"), sf.KStream[bytes, bytes])
assert_type(builder.stream("a", value=int), sf.KStream[bytes, int])
assert_type(builder.stream("a", key=sf.Serdes.int32()), sf.KStream[int, bytes])
assert_type(builder.stream("a", consumed=sf.Consumed(str, float)), sf.KStream[str, float])
assert_type(builder.table("t", key=str, value=float), sf.KTable[str, float])
assert_type(builder.stream("j", key=str, value=sf.Serdes.json()), sf.KStream[str, Any])

assert_type(lines.filter(lambda key, value: len(value) > 3), sf.KStream[str, str])
assert_type(lines.filter(sf.value.len() > 3), sf.KStream[str, str])
assert_type(lines.map(lambda key, value: (len(key), value)), sf.KStream[int, str])
assert_type(lines.map_values(len), sf.KStream[str, int])
assert_type(lines.map_values(lambda value: value.upper()), sf.KStream[str, str])
assert_type(lines.map_values(lambda key, value: len(key) + len(value), with_key=True), sf.KStream[str, int])
assert_type(lines.map_values(sf.value.len()), sf.KStream[str, Any])
assert_type(lines.flat_map(lambda key, value: [(value, 1)]), sf.KStream[str, int])
assert_type(lines.flat_map_values(str.split), sf.KStream[str, str])
assert_type(lines.flat_map_values(lambda key, value: [len(key)], with_key=True), sf.KStream[str, int])
assert_type(lines.flat_map(lambda key, value: [(word, 1) for word in value.split()]), sf.KStream[str, int])
assert_type(lines.map_batches(lambda batch: batch), sf.KStream[str, Any])
assert_type(lines.select_key(lambda key, value: len(value)), sf.KStream[int, str])
assert_type(lines.peek(print), sf.KStream[str, str])
assert_type(lines.merge(lines), sf.KStream[str, str])
assert_type(lines.group_by_key(), sf.KGroupedStream[str, str])
assert_type(lines.group_by(lambda key, value: len(value)), sf.KGroupedStream[int, str])
assert_type(lines.group_by(sf.value, key=str), sf.KGroupedStream[str, str])
assert_type(lines.group_by(sf.value), sf.KGroupedStream[Any, str])

counts = lines.flat_map_values(str.split).group_by(lambda key, word: word, key=str).count(store="counts")
assert_type(counts, sf.KTable[str, int])
assert_type(counts.to_stream(), sf.KStream[str, int])
assert_type(counts.to_stream(lambda key, value: value), sf.KStream[int, int])
counts.to_stream().to("counts", key=str, value=int)

grouped = lines.group_by_key()
assert_type(grouped.reduce(lambda agg, value: agg + value), sf.KTable[str, str])
assert_type(grouped.aggregate(int, lambda key, value, agg: agg + len(value)), sf.KTable[str, int])
assert_type(grouped.aggregate(lambda: 0.0, lambda key, value, agg: agg + 1, value=float), sf.KTable[str, float])

assert_type(sf.value["a"] > 1, sf.Expression)
assert_type(sf.value == None, sf.Expression)  # noqa: E711
assert_type(sf.when(sf.value > 1).then(1).otherwise(sf.key), sf.Expression)
assert_type(sf.value.str.lower().str.split(","), sf.Expression)

with TopologyTestDriver(builder.build()) as driver:
    source = driver.input("lines", str, str)
    assert_type(source, TestInputTopic[str, str])
    source.pipe("v")
    source.pipe("k", "v", timestamp=1, headers={"h": b"x"})
    sink = driver.output("counts", str, int)
    assert_type(sink, TestOutputTopic[str, int])
    assert_type(sink.read(), Record[str, int])
    assert_type(sink.read_value(), int | None)

# Wrong calls.
lines.map_values(lambda value: value.no_such_method())  # type: ignore[attr-defined]
lines.filter(lambda value: True)  # type: ignore[arg-type,misc]
lines.flat_map_values(len)  # type: ignore[arg-type]
lines.to("out", key=str, value=int)  # type: ignore[arg-type]
lines.merge(counts)  # type: ignore[arg-type]
counts.to_stream().to("counts", value=str)  # type: ignore[arg-type]
grouped.reduce(lambda agg, value: 1)  # type: ignore[arg-type,return-value]
builder.stream("a", reset="first")  # type: ignore[call-overload]
driver.input("lines", str, int).pipe("k", "v")  # type: ignore[call-overload]

# Names of Java answer at run time only: a type checker finds them wrong.
lines.mapValues(len)  # type: ignore[attr-defined]
sf.Serdes.Long()  # type: ignore[attr-defined]
