"""Headers with Confluent's schema ids of a key or a value are passed on only as long as they are true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

KEY, VALUE = "__key_schema_id", "__value_schema_id"
TRACE = ("trace", b"7")
GIVEN = ((KEY, b"\x01 of the key"), TRACE, (VALUE, b"\x01 of the value"))


def record(name: str, *fields: str) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": "long"} for field in fields]}


AVRO, OTHER_AVRO = sf.Serdes.avro(record("A", "n")), sf.Serdes.avro(record("B", "n"))
FRAMED_AVRO = sf.Serdes.avro(record("A", "n"), framing="confluent", schema_id=7)
TEXT = 'syntax = "proto3"; message A { int64 n = 1; } message B { int64 n = 1; }'
PROTOBUF, OTHER_PROTOBUF = sf.Serdes.protobuf(TEXT, "A"), sf.Serdes.protobuf(TEXT, "B")
FRAMED_PROTOBUF = sf.Serdes.protobuf(TEXT, "A", framing="confluent", schema_id=7)
JSON = sf.Serdes.json()
CHECKED, OTHER_CHECKED = sf.Serdes.json_schema({"title": "A"}), sf.Serdes.json_schema({"title": "B"})
FRAMED_CHECKED = sf.Serdes.json_schema({"title": "A"}, framing="confluent", schema_id=7)

Shape = Callable[[sf.KStream[Any, Any]], sf.KStream[Any, Any]]


def names(
    shape: Shape,
    *,
    read: Any,
    written: Any,
    read_key: Any = str,
    written_key: Any = str,
    given: Any = GIVEN,
    lanes: int = 1,
) -> list[str]:
    """The headers of a shape's result for one record."""
    builder = sf.StreamsBuilder()
    shape(builder.stream("in", key=read_key, value=read)).to("out", key=written_key, value=written)
    with TopologyTestDriver(builder.build(), lanes=lanes) as driver:
        key = "k" if read_key is str else {"n": 1}
        driver.input("in", read_key, read).pipe(key, {"n": 5}, headers=given)
        (out,) = driver.output("out", bytes, bytes).read_all()
    assert all((name, held) in given for name, held in out.headers)
    return [name for name, _ in out.headers]


def same(stream: sf.KStream[Any, Any]) -> sf.KStream[Any, Any]:
    return stream.filter(lambda key, value: value["n"] == 5)


def changed(stream: sf.KStream[Any, Any]) -> sf.KStream[Any, Any]:
    return stream.map_values(lambda value: value | {"n": value["n"] + 1})


def by_expression(stream: sf.KStream[Any, Any]) -> sf.KStream[Any, Any]:
    return stream.map_values(sf.obj(n=sf.value["n"] + 1))


@pytest.mark.parametrize("shape", [same, changed, by_expression])
@pytest.mark.parametrize(
    ("read", "written", "stays"),
    [
        (AVRO, AVRO, True),
        (AVRO, sf.Serdes.avro(record("A", "n"), decode="dict"), True),
        (AVRO, OTHER_AVRO, False),
        (AVRO, FRAMED_AVRO, False),
        (FRAMED_AVRO, AVRO, False),
        (FRAMED_AVRO, FRAMED_AVRO, False),
        (AVRO, PROTOBUF, False),
        (AVRO, JSON, False),
        (JSON, AVRO, False),
        (PROTOBUF, PROTOBUF, True),
        (PROTOBUF, OTHER_PROTOBUF, False),
        (PROTOBUF, FRAMED_PROTOBUF, False),
        (FRAMED_PROTOBUF, PROTOBUF, False),
        (CHECKED, CHECKED, True),
        (CHECKED, OTHER_CHECKED, False),
        (CHECKED, FRAMED_CHECKED, False),
        (FRAMED_CHECKED, CHECKED, False),
        (CHECKED, JSON, False),
    ],
)  # fmt: skip
def test_the_header_of_a_value_stays_with_its_schema(shape: Shape, read: Any, written: Any, stays: bool) -> None:
    left = names(shape, read=read, written=written)
    assert left == [KEY, "trace", VALUE] if stays else left == [KEY, "trace"]


def branched(stream: sf.KStream[Any, Any]) -> sf.KStream[Any, Any]:
    (branch,) = stream.split().branch(lambda key, value: True).no_default_branch().values()
    return branch


@pytest.mark.parametrize(
    ("shape", "stays"),
    [
        (same, True),
        (lambda stream: stream.peek(lambda key, value: None), True),
        (lambda stream: stream.merge(stream.filter(lambda key, value: False)), True),
        (lambda stream: stream.repartition(), True),
        (lambda stream: stream.select_key(lambda key, value: "other"), True),
        (branched, True),
        (changed, False),
        (by_expression, False),
        (lambda stream: stream.map_values(lambda value: value), False),
        (lambda stream: stream.merge(changed(stream).filter(lambda key, value: False)), False),
        (lambda stream: stream.to_table(store="t").to_stream(), False),
        (lambda stream: stream.group_by_key().reduce(lambda a, b: b, store="r").to_stream(), False),
    ],
)
def test_json_keeps_the_header_of_a_source_only(shape: Shape, stays: bool) -> None:
    assert (VALUE in names(shape, read=JSON, written=JSON)) == stays


def test_key_headers_are_handled_separately() -> None:
    def left(read: Any, written: Any) -> list[str]:
        return names(same, read=JSON, written=JSON, read_key=read, written_key=written)

    assert left(AVRO, AVRO) == [KEY, "trace", VALUE]
    assert left(AVRO, OTHER_AVRO) == ["trace", VALUE]
    assert left(AVRO, FRAMED_AVRO) == ["trace", VALUE]
    moved = names(lambda s: s.select_key(lambda key, value: key | {"n": 2}), read=AVRO, written=AVRO, read_key=AVRO,
                  written_key=AVRO)  # fmt: skip
    assert moved == [KEY, "trace", VALUE]


def test_without_other_headers_none_are_left() -> None:
    assert names(changed, read=AVRO, written=FRAMED_AVRO, given=((VALUE, b"\x01"),)) == []


def test_writing_bytes_keeps_the_header() -> None:
    class Writes(sf.ContextualProcessor):
        def process(self, record: sf.Record[Any, Any]) -> None:
            value = OTHER_AVRO.serialize({"n": 1})
            self.context.forward(record.replace(value=value, headers=((VALUE, b"\x01 mine"),)))

    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=AVRO).process(Writes).to("out", key=str, value=bytes)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, AVRO).pipe("k", {"n": 5}, headers=GIVEN)
        assert driver.output("out", str, OTHER_AVRO).read().headers == ((VALUE, b"\x01 mine"),)


def test_a_result_follows_the_source_of_its_headers() -> None:
    """A join result has the headers of the stream's record, whatever serde the table has."""
    builder = sf.StreamsBuilder()
    table = builder.table("table", key=str, value=OTHER_AVRO, store="t")
    joined = builder.stream("in", key=str, value=AVRO).join(table, lambda left, right: {"n": left["n"] + right["n"]})
    joined.to("out", value=AVRO)
    joined.to("other", value=OTHER_AVRO)
    with TopologyTestDriver(builder.build(), lanes=2) as driver:
        driver.input("table", str, OTHER_AVRO).pipe("k", {"n": 1})
        driver.input("in", str, AVRO).pipe("k", {"n": 5}, headers=GIVEN)
        assert VALUE in dict(driver.output("out", str, AVRO).read().headers)
        assert VALUE not in dict(driver.output("other", str, OTHER_AVRO).read().headers)


def test_requests_of_an_offload_follow_the_same_rule() -> None:
    def asked(request_value: Any) -> dict[str, bytes]:
        builder = sf.StreamsBuilder()
        stream = builder.stream("in", key=str, value=AVRO)
        answered = stream.offload(
            "asked", "answers", joiner=lambda value, answer: value, request=sf.obj(n=sf.value["n"]),
            request_value=request_value, response_value=AVRO, store="parked",
        )  # fmt: skip
        answered.to("out", value=AVRO)
        with TopologyTestDriver(builder.build()) as driver:
            driver.input("in", str, AVRO).pipe("k", {"n": 5}, headers=GIVEN)
            return dict(driver.output("asked", str, bytes).read().headers)

    assert VALUE in asked(AVRO)
    for other in (OTHER_AVRO, FRAMED_AVRO, JSON):
        left = asked(other)
        assert VALUE not in left
        assert left["trace"] == b"7"
        assert "stoatflow-correlation" in left
