"""Declared load: the meaning of a spec, that nothing changes its bytes, and the errors of a bad one."""

from __future__ import annotations

import hashlib
import json
import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stoatflow.errors import ConfigError
from stoatflow.spark import load as loading
from stoatflow.spark.loading import random_bits
from stoatflow.spark.loading.batches import KINDS, batches
from stoatflow.spark.loading.encode import schema
from stoatflow.spark.loading.frames import frame
from stoatflow.spark.loading.spec import LoadSpec, read_spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

Record = dict[str, Any]

FIELDS = {
    "id": {"kind": "index"},
    "at": {"kind": "timestamp"},
    "amount": {"kind": "float", "low": -5, "high": 99.95},
    "count": {"kind": "int", "low": -3, "high": 1000, "skew": 1.2},
    "what": {"kind": "choice", "of": ['say "hi"', "größer", "b\\c"], "weights": [1, 2, 7]},
    "pad": {"kind": "text", "shortest": 0, "longest": 9},
    "user": {"kind": "key"},
}
EVERYTHING = {
    "seed": 7,
    "topics": {
        "orders": {
            "records": 3000,
            "partitions": 3,
            "key": {"kind": "zipf", "count": 50, "prefix": "user-"},
            "fields": FIELDS | {"product": {"kind": "reference", "topic": "products", "match": 0.9}},
            "headers": {"trace": {"kind": "text", "length": 6}, "n": {"kind": "index"}},
            "time": {
                "rate": 100,
                "burst": {"every": "10s", "length": "1s", "factor": 5},
                "gap": {"every": "20s", "length": "1h"},
                "disorder": {"share": 0.2, "within": "2s"},
                "late": {"share": 0.05, "by": "10m"},
            },
            "faults": {"duplicates": 0.05, "tombstones": 0.04, "null-keys": 0.03, "malformed": 0.02},
        },
        "products": {
            "records": 40,
            "key": {"kind": "sequential", "count": 40, "prefix": "product-"},
            "fields": {"title": {"kind": "constant", "value": "a thing"}},
        },
    },
}


def made(spec: LoadSpec, topic: str, start: int = 0, stop: int | None = None, rows: int = 10_000) -> list[Record]:
    declared = spec.topic(topic)
    found = batches(spec, declared, start, declared.records if stop is None else stop, rows)
    return [record for batch in found for record in batch.to_pylist()]


def one(topic: Mapping[str, Any], **others: Any) -> LoadSpec:
    return read_spec({"topics": {"t": {"records": 1000, **topic}, **others}})


def digest(records: list[Record]) -> str:
    return hashlib.sha256(json.dumps(records, default=lambda data: data.hex()).encode()).hexdigest()


@pytest.fixture(scope="module")
def everything() -> LoadSpec:
    return read_spec(EVERYTHING)


def test_splitting_the_work_changes_no_byte(everything: LoadSpec) -> None:
    whole = made(everything, "orders")
    assert made(everything, "orders", rows=7) == whole
    assert made(everything, "orders", 1234, 1300, rows=13) == whole[1234:1300]


def test_a_partition_can_be_made_alone(everything: LoadSpec) -> None:
    """As each task does that writes to Kafka."""
    orders = everything.topic("orders")
    for partition in range(3):
        alone = [r for batch in batches(everything, orders, 0, 3000, 100, partition) for r in batch.to_pylist()]
        assert alone == [r for r in made(everything, "orders") if r["partition"] == partition]


def test_tasks_of_spark_change_no_byte(
    spark: SparkSession, everything: LoadSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stoatflow.spark.loading.frames.CHUNK", 700)
    wanted = [_plain(record) for record in made(everything, "orders")]
    for tasks in (1, 4):
        rows = frame(spark, everything, everything.topic("orders"), tasks)
        assert rows.rdd.getNumPartitions() == tasks
        found = [_plain(row.asDict(recursive=True)) for row in rows.orderBy("number").collect()]
        assert found == wanted


def _plain(record: Record) -> Record:
    shown = {name: bytes(part) if isinstance(part, bytearray) else part for name, part in record.items()}
    shown["headers"] = [(header["key"], bytes(header["value"])) for header in record["headers"] or ()]
    return shown


def test_results_of_a_seed_never_change(everything: LoadSpec) -> None:
    # If this value changes, no load of users can be repeated.
    assert digest(made(everything, "orders", 0, 500)) == GOLDEN


def test_another_seed_and_another_topic_are_other_records(everything: LoadSpec) -> None:
    other = read_spec(EVERYTHING | {"seed": 8})
    keys = [[record["key"] for record in made(spec, "orders")] for spec in (everything, other)]
    assert keys[0] != keys[1]


def test_faults_have_their_shares_and_are_marked(everything: LoadSpec) -> None:
    records = made(everything, "orders")
    counts = Counter(kind for record in records for kind, bit in KINDS.items() if record["kinds"] & bit)
    wanted = {"duplicates": 150, "tombstones": 120, "null_keys": 90, "malformed": 60, "late": 150, "disordered": 600}
    for kind, count in wanted.items():
        assert counts[kind] == pytest.approx(count, rel=0.35), kind
    for record in records:
        assert (record["value"] is None) == bool(record["kinds"] & KINDS["tombstones"])
        assert (record["key"] is None) == bool(record["kinds"] & KINDS["null_keys"])
        assert (record["value"] or b"").startswith(b"\xff") == bool(record["kinds"] & KINDS["malformed"])


def test_a_duplicate_is_one_of_the_records_before_it(everything: LoadSpec) -> None:
    records = made(everything, "orders")
    contents = [(record["key"], record["value"], record["timestamp"]) for record in records]
    for at, record in enumerate(records):
        if record["kinds"] & KINDS["duplicates"]:
            assert contents[at] in contents[max(0, at - 16) : at]


def test_json_is_json_and_its_fields_are_as_declared(everything: LoadSpec) -> None:
    good = [r for r in made(everything, "orders") if not r["kinds"] & (KINDS["tombstones"] | KINDS["malformed"])]
    values = [json.loads(record["value"]) for record in good]
    for record, value in zip(good, values, strict=True):
        assert list(value) == [*FIELDS, "product"]
        assert value["at"] == record["timestamp"]
        assert -5 <= value["amount"] <= 99.95
        assert value["amount"] == round(value["amount"], 2)
        assert -3 <= value["count"] <= 1000
        assert 0 <= len(value["pad"]) <= 9
        assert record["key"] in {None, value["user"].encode()}
    chosen = Counter(value["what"] for value in values)
    assert chosen.most_common(1)[0][0] == "b\\c"
    assert set(chosen) == {'say "hi"', "größer", "b\\c"}
    products = {record["key"].decode() for record in made(everything, "products")}
    matching = sum(value["product"] in products for value in values)
    assert matching / len(values) == pytest.approx(0.9, abs=0.03)


def test_keys_decide_the_partition_as_kafkas_producers_do(everything: LoadSpec) -> None:
    from stoatflow.spark.twin.task import murmur2

    for record in made(everything, "orders"):
        wanted = record["number"] % 3 if record["key"] is None else murmur2(record["key"]) % 3
        assert record["partition"] == wanted


def test_murmur2_is_kafkas() -> None:
    import numpy as np

    # From org.apache.kafka.common.utils.UtilsTest.
    for key, wanted in {
        b"21": -973932308,
        b"foobar": -790332482,
        b"a-little-bit-long-string": -985981536,
        b"abc": 479470107,
    }.items():
        hashed = random_bits.murmur2(np.frombuffer(key, dtype=np.uint8).reshape(1, -1))
        assert hashed.view(np.int32)[0] == wanted


def test_event_time_follows_rate_bursts_and_gaps() -> None:
    time = {
        "start": 1000,
        "rate": 10,
        "burst": {"every": "10s", "length": "1s", "factor": 9},
        "gap": {"every": "20s", "length": "1h"},
    }
    times = [r["timestamp"] - 1000 for r in made(one({"fields": {"n": {"kind": "index"}}, "time": time}), "t", 0, 400)]
    assert sum(at < 1000 for at in times) == 90
    assert sum(at < 10_000 for at in times) == 180
    assert not any(20_000 <= at < 3_620_000 for at in times)
    assert times == sorted(times)


@pytest.mark.parametrize("kind", ["uniform", "zipf", "sequential"])
def test_keys_follow_their_declared_distribution(kind: str) -> None:
    spec = one({"key": {"kind": kind, "count": 20}, "fields": {"n": {"kind": "index"}}})
    counts = Counter(record["key"] for record in made(spec, "t"))
    assert len(counts) == 20
    most = counts.most_common(1)[0][1]
    assert {"uniform": most < 90, "zipf": most > 200, "sequential": most == 50}[kind]


def test_long_keys_are_eight_bytes() -> None:
    spec = one({"key": {"kind": "sequential", "format": "long"}, "fields": {"n": {"kind": "index"}}})
    assert [struct.unpack(">q", record["key"])[0] for record in made(spec, "t", 0, 5)] == [0, 1, 2, 3, 4]


def test_text_is_the_single_field() -> None:
    spec = one({"format": "text", "key": {"kind": "none"}, "fields": {"line": {"kind": "words", "vocabulary": 50}}})
    lines = [record["value"].decode().split() for record in made(spec, "t")]
    assert {len(line) for line in lines} == {8, 9, 10, 11, 12}
    assert len({word for line in lines for word in line}) == 50


@pytest.mark.parametrize("framing", [None, 77])
def test_other_libraries_read_the_avro(framing: int | None) -> None:
    import io

    import fastavro

    spec = one({"format": "avro", "fields": FIELDS} | ({} if framing is None else {"framing": framing}))
    plain = made(one({"fields": FIELDS}), "t")
    parsed = fastavro.parse_schema(json.loads(schema(spec.topic("t")) or ""))
    for record, same in zip(made(spec, "t"), plain, strict=True):
        data = record["value"]
        if framing is not None:
            assert data[:5] == b"\0" + framing.to_bytes(4, "big")
            data = data[5:]
        assert fastavro.schemaless_reader(io.BytesIO(data), parsed, None) == json.loads(same["value"])


def test_other_libraries_read_the_protobuf() -> None:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    spec = one({"format": "protobuf", "framing": 9, "fields": FIELDS})
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", syntax="proto3")
    message = file.message_type.add(name="Record")
    types = {"string": 9, "int64": 3, "double": 1}
    for line in (schema(spec.topic("t")) or "").splitlines():
        if line.startswith("  "):
            kind, name, _, number = line.strip(" ;").split()
            message.field.add(name=name, number=int(number), type=types[kind], label=1)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    reader = message_factory.GetMessageClass(pool.FindMessageTypeByName("Record"))
    plain = made(one({"fields": FIELDS}), "t")
    for record, same in zip(made(spec, "t"), plain, strict=True):
        assert record["value"][:6] == b"\0\0\0\0\x09\0"
        read = reader.FromString(record["value"][6:])
        assert {name: getattr(read, name) for name in FIELDS} == json.loads(same["value"])


INDEX = {"fields": {"n": {"kind": "index"}}}


def field(**members: Any) -> dict[str, Any]:
    return {"records": 1, "fields": {"n": members}}


@pytest.mark.parametrize(
    ("topic", "message"),
    [
        (INDEX, "topics.t.records is missing"),
        (INDEX | {"records": -1}, "topics.t.records is at least 0"),
        ({"records": 1}, "topics.t.fields"),
        ({"records": 1, "feilds": {}}, "topics.t.feilds is unknown; did you mean 'fields'?"),
        (field(kind="indx"), "is 'index' meant?"),
        (field(kind="int"), "topics.t.fields.n.high is missing"),
        (field(kind="choice", of=["a"], weights=[1, 2]), "topics.t.fields.n.weights is a list of 1 numbers"),
        (INDEX | {"records": 1, "faults": {"malformed": 2}}, "topics.t.faults.malformed is at most 1.0"),
        (field(kind="reference", topic="u"), "topics.t.fields.n.topic is one of t, not 'u'"),
        (INDEX | {"records": 1, "time": {"late": {"share": 1, "by": 5}}}, "topics.t.time.late.by is a duration"),
        (INDEX | {"records": 1, "framing": 3}, "topics.t.framing is for avro and protobuf, not for json"),
        ({"records": 1, "format": "text", "fields": {"a": {"kind": "key"}, "b": {"kind": "key"}}}, "a single field"),
    ],
)
def test_a_bad_topic_is_refused_with_its_path(topic: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_spec({"topics": {"t": topic}})
    assert message in str(raised.value)


@pytest.mark.parametrize(("spec", "message"), [({}, "topics is missing"), ({"topics": {}}, "topics is empty")])
def test_a_bad_spec_is_refused_with_its_path(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read_spec(spec)
    assert message in str(raised.value)


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(ConfigError) as raised:
        read_spec({"seed": "x", "topics": {"t": {"records": 1, "partitions": 0, "fields": {"n": {"kind": "?"}}}}})
    for part in ("seed is a whole number", "topics.t.partitions is at least 1", "topics.t.fields.n.kind is one of"):
        assert part in str(raised.value)


def test_invalid_toml_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("seed = \n")
    with pytest.raises(ConfigError, match=r"bad.toml is no TOML: .*line 1"):
        read_spec(tmp_path / "bad.toml")
    with pytest.raises(ConfigError, match="can't be read"):
        read_spec(tmp_path / "none.toml")


SPEC = """
seed = 3
[topics.orders]
records = 2000
partitions = 2
key = { kind = "uniform", count = 10 }
[topics.orders.fields]
amount = { kind = "int", high = 9 }
[topics.orders.time]
start = 2026-01-01T00:00:00Z
[topics.orders.faults]
tombstones = 0.1
"""


def test_the_command_loads_an_embedded_broker_without_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from stoatflow import EmbeddedBroker
    from stoatflow.cli import main

    (tmp_path / "spec.toml").write_text(SPEC)
    where = ["--bootstrap", f"embedded:{tmp_path / 'broker'}", "--manifest", str(tmp_path / "made.json")]
    assert main(["load", str(tmp_path / "spec.toml"), *where]) == 0
    assert "2,000 of 2,000 records  100%" in capsys.readouterr().err
    manifest = json.loads((tmp_path / "made.json").read_text())
    spec = read_spec(tmp_path / "spec.toml")
    wanted = made(spec, "orders")
    with EmbeddedBroker(str(tmp_path / "broker")) as broker:
        stored = [(r.partition, r.key, r.value, r.timestamp) for r in broker.read("orders")]
    assert sorted(stored, key=lambda r: r[0]) == [
        (r["partition"], r["key"], r["value"], r["timestamp"]) for r in sorted(wanted, key=lambda r: r["partition"])
    ]
    topic = manifest["topics"]["orders"]
    assert topic["records"] == manifest["records"] == 2000
    assert topic["kinds"]["tombstones"] == sum(r["value"] is None for r in wanted)
    assert topic["bytes"] == sum(len(r["key"] or b"") + len(r["value"] or b"") for r in wanted)
    assert (topic["first_time"], topic["last_time"]) == (1_767_225_600_000, 1_767_225_600_000 + 1999)
    assert (
        main(["load", str(tmp_path / "spec.toml"), "--records", "5", "--bootstrap", f"embedded:{tmp_path / 'b'}"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["records"] == 5


def test_a_failed_load_names_the_next_step(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="pass spark="):
        loading.load(read_spec(EVERYTHING), "127.0.0.1:1")
    with pytest.raises(ConfigError, match="has headers"):
        loading.load(read_spec(EVERYTHING), f"embedded:{tmp_path}")


SPECS = Path(__file__).resolve().parents[2] / "examples" / "load"


@pytest.mark.parametrize("path", sorted(SPECS.glob("*.toml")), ids=lambda path: path.stem)
def test_the_example_specs_load(path: Path, tmp_path: Path) -> None:
    spec = read_spec(path)
    small = replace(spec, topics=tuple(replace(topic, records=min(topic.records, 50)) for topic in spec.topics))
    assert loading.load(small, f"embedded:{tmp_path}").records == small.records > 0


def test_the_specs_of_the_benchmark_have_its_sizes() -> None:
    sizes = [len(record["value"]) for record in made(read_spec(SPECS / "json_filter.toml"), "orders", 0, 100)]
    assert sum(sizes) / 100 == pytest.approx(1024, abs=10)
    orders = made(read_spec(SPECS / "table_join.toml"), "orders", 0, 5000)
    profiles = {record["key"] for record in made(read_spec(SPECS / "table_join.toml"), "profiles")}
    assert sum(record["key"] not in profiles for record in orders) / 5000 == pytest.approx(0.05, abs=0.02)


GOLDEN = "52ae44c60053d88ca290e6c0056e49676affc41ae72fcfad184daddab3d57678"
