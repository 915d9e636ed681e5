"""Checked by mypy and pyright, never run: programs as users write them, from the topics to the tests."""

from __future__ import annotations

import asyncio
from typing import Any

from typing_extensions import assert_type

import stoatflow as sf
from stoatflow.spark import SparkOptions
from stoatflow.spark.run import SparkRun
from stoatflow.testing import Record, TestInputTopic, TopologyTestDriver

Json = dict[str, Any]

builder = sf.StreamsBuilder()

# A `dict` without type arguments is JSON, and one with them keeps them.
orders = builder.stream("orders", key=str, value=dict)
assert_type(orders, sf.KStream[str, Json])
assert_type(builder.stream("orders", value=dict), sf.KStream[bytes, Json])
assert_type(builder.stream("sizes", key=str, value=dict[str, int]), sf.KStream[str, dict[str, int]])
assert_type(builder.stream("lists", key=str, value=list[int]), sf.KStream[str, list[int]])
assert_type(builder.stream("views", key=str, value=sf.JsonObject), sf.KStream[str, sf.JsonObject])
users = builder.table("users", key=str, value=dict, store="users")
assert_type(users, sf.KTable[str, Json])
assert_type(builder.table("raw", value=dict), sf.KTable[bytes, Json])
assert_type(builder.global_table("places", key=int, value=dict), sf.GlobalKTable[int, Json])
assert_type(builder.global_table("places", value=dict), sf.GlobalKTable[bytes, Json])
assert_type(builder.global_table("places", value=str), sf.GlobalKTable[bytes, str])
assert_type(builder.global_table("places", key=str), sf.GlobalKTable[str, bytes])
assert_type(builder.global_table("places"), sf.GlobalKTable[bytes, bytes])
assert_type(builder.global_table("places", consumed=sf.Consumed(int, str)), sf.GlobalKTable[int, str])

assert_type(orders.map_values(lambda order: {**order, "by": order["user"]}), sf.KStream[str, Json])
assert_type(orders.filter(lambda key, order: order["amount"] > 1), sf.KStream[str, Json])
assert_type(orders.join(users, lambda order, user: {**order, "user": user["name"]}), sf.KStream[str, Json])
assert_type(orders.left_join(users, lambda order, user: user is not None), sf.KStream[str, bool])
assert_type(orders.join(users, sf.obj(order=sf.left, user=sf.right)), sf.KStream[str, Any])
orders.to_table(store="orders", value=dict).to_stream().to("out", key=str, value=dict)

# Words and ones are str and int, not Literal[1].
lines = builder.stream("lines", key=str, value=str)
ones = lines.flat_map(lambda key, line: [(word, 1) for word in line.split()])
assert_type(ones.group_by_key(key=str, value=int).reduce(lambda one, other: one + other), sf.KTable[str, int])

# Aggregates.
grouped = orders.group_by(sf.value["user"], key=str)
assert_type(grouped.aggregate(sf.sum(sf.value["amount"]), store="spent"), sf.KTable[str, Any])
assert_type(grouped.aggregate(sf.agg(n=sf.count()), store="n"), sf.KTable[str, Json])
assert_type(grouped.aggregate(sf.lit(0), sf.old + sf.value["amount"], value=int), sf.KTable[str, int])
assert_type(grouped.aggregate(sf.lit(0), sf.old + sf.value["amount"]), sf.KTable[str, Any])
assert_type(grouped.aggregate(dict[str, int], lambda key, order, agg: {**agg, key: 1}), sf.KTable[str, dict[str, int]])
windowed = grouped.windowed_by(sf.TimeWindows("1m", grace="0s"))
assert_type(windowed.aggregate(sf.lit(0), sf.old + 1), sf.KTable[sf.Windowed[str], Any])
counts = windowed.count().to_stream().map(lambda at, n: (at.key, (at.window.start, n)))
assert_type(counts, sf.KStream[str, tuple[int, int]])
sessions = grouped.windowed_by(sf.SessionWindows("1m", grace="0s"))
assert_type(sessions.aggregate(sf.lit(0), sf.old + 1, sf.left + sf.right), sf.KTable[sf.Windowed[str], Any])
assert_type(sessions.reduce(lambda one, other: {**one, **other}), sf.KTable[sf.Windowed[str], Json])
assert_type(grouped.cogroup(sf.agg(n=sf.count())).aggregate(store="both"), sf.KTable[str, Any])

# Tables, grouped by two expressions.
assert_type(users.group_by((sf.value["city"], sf.value), key=str, value=dict[str, Any]), sf.KGroupedTable[str, Json])
assert_type(users.group_by((sf.value["city"], sf.value), key=str), sf.KGroupedTable[str, Any])
assert_type(users.group_by((sf.value["city"], 1), value=int), sf.KGroupedTable[Any, int])
assert_type(users.group_by(sf.array(sf.value["city"], sf.value)).count(), sf.KTable[Any, int])
assert_type(users.join(users, lambda a, b: b["name"], foreign_key=sf.value["boss"]), sf.KTable[str, Any])


class Totals(sf.ContextualProcessor[str, Json, str, float]):
    """Keeps a total per key, and forwards it every minute."""

    def init(self, context: sf.ProcessorContext[str, float]) -> None:
        super().init(context)
        self.totals: sf.KeyValueStore[str, float] = context.state_store("totals")
        context.schedule("1m", sf.PunctuationType.STREAM_TIME, self.tell)

    def process(self, record: sf.Record[str, Json]) -> None:
        if record.key is None or record.value is None:
            return
        assert_type(self.totals.get(record.key), float | None)
        total = self.totals.get(record.key, 0.0) + record.value["amount"]
        self.totals.put(record.key, total)
        self.context.forward(record.replace(value=total))
        self.totals.put(record.key, "much")  # type: ignore[arg-type]

    def tell(self, now: int) -> None:
        for key, total in self.totals.all():
            assert_type(key, str)
            assert_type(total, float)


class Length(sf.ContextualFixedKeyProcessor[str, str, int]):
    """Returns the length of each text."""

    def process(self, record: sf.FixedKeyRecord[str, str]) -> None:
        self.context.forward(record.replace(value=len(record.value or "")))


builder.add_state_store(sf.Stores.key_value("totals", key=str, value=float))
assert_type(orders.process(Totals, stores=["totals"]), sf.KStream[str, float])
assert_type(lines.process_values(Length), sf.KStream[str, int])


@sf.awaiting(timeout="1s")
async def name_of(line: str) -> int:
    """Stands for a request."""
    await asyncio.sleep(0)
    return len(line)


async def size_of(line: str) -> int:
    """Awaited with the usual limits."""
    return len(line)


async def words_of(key: str, line: str) -> list[str]:
    """Returns several results."""
    return line.split()


assert_type(lines.map_values(name_of), sf.KStream[str, int])
assert_type(lines.map_values(size_of), sf.KStream[str, int])
assert_type(lines.flat_map_values(words_of, with_key=True), sf.KStream[str, str])
assert_type(orders.map_values(lambda order: order["user"]), sf.KStream[str, Any])
assert_type(orders.flat_map_values(lambda order: order["items"]), sf.KStream[str, Any])
lines.map_values(size_of).to("out", value=int)

lines.filter(lambda key, line: True, on_error=sf.DLQ("dead"))
lines.filter(lambda key, line: True, on_error=lambda context, record, error: sf.log_and_continue())
lines.to(lambda key, line, context: context.topic or "out", key=str, value=str)
lines.to("out", partitioner=lambda topic, key, line, partitions: [0])
lines.to(
    "out",
    partitioner=lambda topic, headers, key, line, partitions: [len(line) + len(headers[0][0])],
    partitioner_with_headers=True,
)
assert_type(sf.Serdes.encrypted(str, encrypt=bytes.upper, decrypt=bytes.lower), sf.Serde[str])
assert_type(sf.key.window.start, sf.Expression)
lines.to("out", produced=sf.Produced(key=str))
lines.join(lines, lambda a, b: a + b, sf.JoinWindows("1m", grace="0s"), joined=sf.StreamJoined(store_name="kept"))
lines.print(sf.Printed(label="lines"))

topology = builder.build()
with sf.StoatFlow(topology, {"application.id": "app"}) as app:
    assert_type(app.state, sf.State)
    assert_type(app.metrics(), Json)

on_spark = SparkOptions(tasks=2, output="results")
with sf.StoatFlow(topology, {"application.id": "app"}, engine="spark", batch=True, spark=on_spark) as app:
    assert_type(app.spark, SparkRun)
    assert_type(app.spark.topics, tuple[str, ...])
    assert_type(app.spark.progress(), list[tuple[int, int]])

with TopologyTestDriver(topology) as driver:
    written = driver.input("orders", str, dict)
    assert_type(written, TestInputTopic[str, Json])
    written.pipe("ann", {"amount": 1})
    written.pipe_all([("ann", {"amount": 1}), ("bob", None)])
    assert_type(driver.output("out", str, dict).read(), Record[str, Json])
    assert_type(driver.output("out", value=dict).read_value(), Json | None)

# Wrong calls.
sf.StoatFlow(topology, engine="flink")  # type: ignore[arg-type]
SparkOptions(taks=2)  # type: ignore[call-arg]
orders.map_values(lambda order: order.upper())  # type: ignore[attr-defined]
orders.to("out", value=str)  # type: ignore[arg-type]
written.pipe("ann", "text")  # type: ignore[call-overload]
lines.flat_map(lambda key, line: [line])  # type: ignore[arg-type,return-value]
lines.process(Length)  # type: ignore[arg-type]
users.group_by(sf.value["city"], key=1)  # type: ignore[call-overload]
grouped.aggregate(sf.lit(0))  # type: ignore[call-overload]

# RocksDB options of a store.
packed = sf.RocksDBConfig(compression="zstd", block_size="16KiB", bloom_bits=0, compaction="level", cache_size=1 << 24)
assert_type(sf.Stores.key_value("k", key=str, value=int, rocksdb=packed), sf.StoreBuilder[str, int])
sf.Materialized("k", rocksdb=packed)
sf.Materialized("k", rocksdb={"compression": "zstd"})  # type: ignore[arg-type]
sf.RocksDBConfig(compression="snappy")  # type: ignore[arg-type]
sf.Stores.in_memory_key_value("k", rocksdb=packed)  # type: ignore[call-arg]
