"""Protobuf where records leave the stream for a while: offloads, async calls, columnar batches, stores as tables."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import stoatflow as sf
from protobuf_messages import User, user
from stoatflow.testing import TopologyTestDriver

PROTO = sf.Serdes.protobuf(User)
MESSAGES = sf.Serdes.protobuf(User, decode="message")
SCORE = sf.Serdes.protobuf('syntax = "proto3"; message Score { double score = 1; }')
ANN = user(7, "ann", tags=["x", "y"], scores={"a": 1.5}, photo=b"\x00\xff", boss=user(1, "bob"))
BOB = user(1, "bob")


@pytest.mark.parametrize("serde", [PROTO, MESSAGES])
def test_offload_asks_parks_and_answers_with_protobuf(serde: Any) -> None:
    def join(value: Any, answer: Any) -> Any:
        if serde is MESSAGES:
            value.scores["score"] = answer["score"]
            return value
        return value | {"scores": {**value["scores"], "score": answer["score"]}}

    def boss(value: Any) -> Any:
        return value.boss if serde is MESSAGES else value["boss"]

    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=serde).offload(
        "asked", "answered", request=boss, request_value=PROTO, joiner=join, response_value=SCORE, name="score",
    ).to("out", value=PROTO)  # fmt: skip
    with TopologyTestDriver(builder.build(), lanes=2) as driver:
        driver.input("in", str, PROTO).pipe("k", ANN)
        driver.crash()
        driver.restart(lanes=3)
        request = driver.output("asked", str, PROTO).read()
        assert request.value == ANN["boss"]
        driver.input("answered", str, SCORE).pipe("k", {"score": 0.5}, headers=request.headers)
        assert driver.output("out", str, PROTO).read_value() == {**ANN, "scores": {"a": 1.5, "score": 0.5}}


def test_batches_have_columns_of_fields() -> None:
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("boss", pa.struct([("name", pa.string())]))])
    seen: list[pa.RecordBatch] = []

    def shout(batch: pa.RecordBatch) -> pa.RecordBatch:
        names = pa.array([name.upper() for name in batch["name"].to_pylist()])
        return pa.record_batch({"id": batch["id"], "name": names})

    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=PROTO)
    stream.map_batches(shout, schema=schema).to("out", value=PROTO)
    stream.foreach_batch(seen.append, schema=schema)
    with TopologyTestDriver(builder.build()) as driver:
        with driver.epoch():
            driver.input("in", str, PROTO).pipe("a", ANN)
            driver.input("in", str, PROTO).pipe("b", BOB)
        assert driver.output("out", str, PROTO).read_values_to_list() == [user(7, "ANN"), user(1, "BOB")]
    (batch,) = seen
    assert batch["boss"].to_pylist() == [{"name": "bob"}, None]


def test_stores_of_protobuf_are_shown_as_arrow() -> None:
    builder = sf.StreamsBuilder()
    builder.table("in", key=str, value=PROTO, store="users")
    with TopologyTestDriver(builder.build()) as driver:
        for key, value in (("a", ANN), ("b", BOB)):
            driver.input("in", str, PROTO).pipe(key, value)
        table = driver.to_arrow("users", schema=pa.schema([("id", pa.int32()), ("tags", pa.list_(pa.string()))]))
        assert table.select(["_key", "id", "tags"]).to_pylist() == [
            {"_key": "a", "id": 7, "tags": ["x", "y"]},
            {"_key": "b", "id": 1, "tags": []},
        ]
