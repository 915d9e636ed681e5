"""Avro with a real schema registry: Confluent's serializers before and after, and what happens while it is down."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest
from broker.certificates import Certificates
from broker.schema_registry import Gate, SchemaRegistryServer
from confluent_clients import patient, read, write
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from counting import PATIENCE_S, until, until_consumed, until_running
from topics import KafkaTopics

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

pytestmark = pytest.mark.xdist_group("registry")

HERE = "http://127.0.0.1:9"
"""Nothing listens there."""


def record(name: str, *fields: tuple[Any, ...]) -> dict[str, Any]:
    """A record schema; a third item of a field is its default."""
    made = [{"name": n, "type": of, **({"default": rest[0]} if rest else {})} for n, of, *rest in fields]
    return {"type": "record", "name": name, "namespace": "shop", "fields": made}


OLD = record("Order", ("amount", "int"))
ORDER = record("Order", ("amount", "long"), ("note", "string", "-"))
NEWER = record("Order", ("amount", "long"), ("note", "string", "-"), ("level", "int", 1))
SUMMARY = record("Summary", ("paid", "long"), ("note", "string"))


def encoded(client: SchemaRegistryClient, topic: str, schema: Any, value: Any, **conf: Any) -> bytes:
    """The bytes that a producer with Confluent's serializer writes into a topic."""
    serializer = AvroSerializer(client, json.dumps(schema), conf=conf or None)
    return bytes(serializer(value, SerializationContext(topic, MessageField.VALUE)))


def piped(builder: sf.StreamsBuilder, topic: str, values: list[bytes], out: str) -> list[bytes]:
    """The output of a topology for a topic's values."""
    with TopologyTestDriver(builder.build()) as driver:
        driver.input(topic, str, bytes).pipe_all([("k", value) for value in values])
        return driver.output(out, str, bytes).read_values_to_list()


def copied(name: str, serde: Any, **options: Any) -> sf.StreamsBuilder:
    """From `<name>-in` to `<name>-out`."""
    builder = sf.StreamsBuilder()
    builder.stream(f"{name}-in", key=str, value=serde, **options).map_values(lambda v: {**v}).to(
        f"{name}-out", value=serde
    )
    return builder


def started(kafka: KafkaTopics, name: str, state: Path, builder: sf.StreamsBuilder, **more: object) -> sf.StoatFlow:
    config: dict[str, object] = {
        "application.id": name,
        "bootstrap.servers": kafka.address,
        "state.dir": state,
        "lanes.count": 2,
    }
    return sf.StoatFlow(builder.build(), config, **more)


# -- between Confluent's serializers


def test_avro_between_confluents_serializers(
    kafka: KafkaTopics, server: SchemaRegistryServer, client: SchemaRegistryClient, name: str, tmp_path: Path
) -> None:
    into, out, totals = f"{name}-in", f"{name}-out", f"{name}-totals"
    for topic in (into, out, totals):
        kafka.create(topic)
    key_schema = record("Key", ("id", "string"))
    keys = AvroSerializer(client, json.dumps(key_schema))
    for schema, value in ((OLD, {"amount": 3}), (ORDER, {"amount": 2**40, "note": "ö"})):
        write(kafka, into, [({"id": "a"}, value)] * 2, AvroSerializer(client, json.dumps(schema)), keys)
    with Gate(server) as gate:
        registry = patient(gate.url)
        key, order, summary = (sf.Serdes.avro(one, registry=registry) for one in (key_schema, ORDER, SUMMARY))
        builder = sf.StreamsBuilder()
        orders = builder.stream(into, key=key, value=order)
        orders.map_values(sf.obj(paid=sf.value["amount"], note=sf.value["note"])).to(out, value=summary)
        orders.group_by_key().reduce(
            lambda one, other: {**one, "amount": one["amount"] + other["amount"]}, store="totals"
        ).to_stream().to(totals)
        with started(kafka, name, tmp_path, builder) as app:
            until_consumed(app)
            until(lambda: kafka.count(totals) >= 1 and kafka.count(out) >= 4, "all is written")
        asked = [one for one in gate.seen if one.startswith("GET")]
        assert sorted(asked) == sorted(set(asked)), "an id was asked for twice"
        assert len(asked) == 3

    with_id = {"id": "a"}
    values = read(kafka, out, AvroDeserializer(client), AvroDeserializer(client))
    assert values == [(with_id, {"paid": p, "note": n}) for p, n in ((3, "-"), (3, "-"), (2**40, "ö"), (2**40, "ö"))]
    last = read(kafka, totals, AvroDeserializer(client), AvroDeserializer(client))[-1]
    assert last == (with_id, {"amount": 6 + 2 * 2**40, "note": "-"})
    subjects = {one for one in client.get_subjects() if one.startswith(name)}
    sides = ("key", "value")
    assert subjects == {f"{one}-{side}" for one in (into, out, totals) for side in sides} | {
        f"{name}-shop.{of}" for of in ("Order", "Key")
    }


def test_a_schema_with_references(client: SchemaRegistryClient, server: SchemaRegistryServer, name: str) -> None:
    city = record("City", ("zip", "int"))
    home = record("Home", ("city", "shop.City"), ("second", ["null", "City"], None))
    outer = record("Order", ("home", "shop.Home"), ("old", {"type": "array", "items": "City"}))
    client.register_schema(f"{name}-city", Schema(json.dumps(city), "AVRO"))
    of_city = SchemaReference("shop.City", f"{name}-city", 1)
    client.register_schema(f"{name}-home", Schema(json.dumps(home), "AVRO", [of_city]))
    whole = Schema(json.dumps(outer), "AVRO", [SchemaReference("shop.Home", f"{name}-home", 1), of_city])
    value = {"home": {"city": {"zip": 1}, "second": {"zip": 2}}, "old": [{"zip": 3}]}
    data = AvroSerializer(client, whole)(value, SerializationContext(f"{name}-in", MessageField.VALUE))
    registry = sf.SchemaRegistry(server.url)
    latest = sf.Serdes.avro(registry=registry, subject=f"{name}-in-value")
    narrow = sf.Serdes.avro(record("Order", ("home", record("Home", ("city", city)))), registry=registry)
    for serde, wanted in ((latest, value), (narrow, {"home": {"city": {"zip": 1}}})):
        assert serde.deserialize(data) == wanted
    assert latest.serialize(value) == data


def test_the_latest_schema_is_used_when_none_is_given(
    client: SchemaRegistryClient, server: SchemaRegistryServer, name: str
) -> None:
    subject = f"{name}-out-value"
    ids = [client.register_schema(subject, Schema(json.dumps(one), "AVRO")) for one in (OLD, ORDER)]
    registry = sf.SchemaRegistry(server.url, auto_register=False)
    serde = sf.Serdes.avro(registry=registry, subject=subject)
    assert serde.serialize({"amount": 1})[:5] == bytes([0]) + ids[1].to_bytes(4, "big")
    old = encoded(client, f"{name}-out", OLD, {"amount": 5})
    assert old[:5] == bytes([0]) + ids[0].to_bytes(4, "big")
    assert serde.deserialize(old) == {"amount": 5, "note": "-"}

    strict = sf.SchemaRegistry(server.url, use_latest=True)
    assert sf.Serdes.avro(ORDER, registry=strict, subject=subject).serialize({"amount": 1})[:5] == (
        bytes([0]) + ids[1].to_bytes(4, "big")
    )
    with pytest.raises(sf.TopologyError, match=r"the latest version \(2\) of the subject .* another schema"):
        sf.Serdes.avro(OLD, registry=strict, subject=subject).serialize({"amount": 1})


# -- subjects


@pytest.mark.parametrize("subjects", ["topic", "record", "topic_record"])
def test_subjects_are_called_as_confluent_calls_them(
    client: SchemaRegistryClient, server: SchemaRegistryServer, name: str, subjects: Any
) -> None:
    own = {**ORDER, "name": name.replace("-", "_")}
    strategy = {"record": record_subject_name_strategy, "topic_record": topic_record_subject_name_strategy}
    conf = {"subject.name.strategy": strategy[subjects]} if subjects in strategy else {}
    before = set(client.get_subjects())
    registry = sf.SchemaRegistry(server.url, subjects=subjects)
    builder = copied(name, sf.Serdes.avro(own, registry=registry))
    given = encoded(client, f"{name}-elsewhere", own, {"amount": 1, "note": ""})
    assert piped(builder, f"{name}-in", [given], f"{name}-out")
    ours = set(client.get_subjects()) - before - {f"{name}-elsewhere-value"}
    encoded(client, f"{name}-out", own, {"amount": 1, "note": ""}, **conf)
    assert set(client.get_subjects()) - before - {f"{name}-elsewhere-value"} == ours
    assert len(ours) == 1


def test_a_topic_that_a_function_chooses_needs_a_subject(server: SchemaRegistryServer, name: str) -> None:
    def topology(**more: Any) -> sf.Topology:
        builder = sf.StreamsBuilder()
        serde = sf.Serdes.avro(ORDER, registry=sf.SchemaRegistry(server.url), **more)
        builder.stream(f"{name}-in", key=str, value=serde).to(lambda k, v, context: f"{name}-{k}")
        return builder.build()

    with pytest.raises(sf.TopologyError, match="The topic isn't known before there is a record"):
        TopologyTestDriver(topology())
    with TopologyTestDriver(topology(subject=f"{name}-any")) as driver:
        driver.input(f"{name}-in", str, sf.Serdes.avro(ORDER, registry=sf.SchemaRegistry(server.url))).pipe(
            "x", {"amount": 4}
        )
        assert driver.output(f"{name}-x", str, bytes).read_value()[5:] == b"\x08\x02-"


def test_auto_registration_can_be_disabled(
    client: SchemaRegistryClient, server: SchemaRegistryServer, name: str
) -> None:
    serde = sf.Serdes.avro(ORDER, registry=sf.SchemaRegistry(server.url, auto_register=False))
    with pytest.raises(sf.TopologyError, match=f"no such schema under the subject '{name}-out-value'"):
        TopologyTestDriver(copied(name, serde).build())
    assert f"{name}-out-value" not in client.get_subjects()
    registered = client.register_schema(f"{name}-out-value", Schema(json.dumps(ORDER), "AVRO"))
    data = encoded(client, f"{name}-in", OLD, {"amount": 1})
    (out,) = piped(copied(name, serde), f"{name}-in", [data], f"{name}-out")
    assert out[:5] == bytes([0]) + registered.to_bytes(4, "big")


def test_an_incompatible_schema_is_refused_at_the_start(
    client: SchemaRegistryClient, server: SchemaRegistryServer, name: str
) -> None:
    client.register_schema(f"{name}-out-value", Schema(json.dumps(OLD), "AVRO"))
    client.set_compatibility(f"{name}-out-value", "BACKWARD")
    wrong = record("Order", ("amount", "int"), ("missing", "string"))
    serde = sf.Serdes.avro(wrong, registry=sf.SchemaRegistry(server.url))
    with pytest.raises(sf.TopologyError, match="doesn't take the schema") as raised:
        TopologyTestDriver(copied(name, serde).build())
    assert "a new field needs a default" in raised.value.next_step


# -- bad records, and a registry that is down


def test_unknown_ids_and_unreadable_schemas_are_bad_records(
    client: SchemaRegistryClient, server: SchemaRegistryServer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer than any machine takes for the rest of the test.
    monkeypatch.setattr("stoatflow.registry.UNKNOWN_FOR_S", 600.0)
    bad: list[str] = []

    def noted(context: Any, record: Any, exception: Any) -> Any:
        bad.append(str(exception))
        return sf.log_and_continue()

    good = encoded(client, f"{name}-in", ORDER, {"amount": 1, "note": "x"})
    text_id = client.register_schema(f"{name}-x", Schema('syntax = "proto3"; message X { int32 a = 1; }', "PROTOBUF"))
    other = encoded(client, f"{name}-other", record("Else", ("amount", "string")), {"amount": "x"})
    values = [good, b"\0\x7f\0\0\1" + good[5:], b"\0" + text_id.to_bytes(4, "big") + b"{}", other, good]
    with Gate(server) as gate:
        serde = sf.Serdes.avro(ORDER, registry=patient(gate.url))
        builder = copied(name, serde, on_error=noted)
        out = piped(builder, f"{name}-in", [*values, *values], f"{name}-out")
        assert sum("2130706433" in one for one in gate.seen) == 1, "what is unknown is not asked for so soon again"
    assert len(out) == 4
    reasons = (
        "doesn't know the schema id 2130706433",
        f"the schema id {text_id} is one of PROTOBUF",
        "can't be read as",
    )
    for reason, output in zip(reasons * 2, bad, strict=True):
        assert reason in output


def test_records_wait_for_an_unavailable_registry(
    kafka: KafkaTopics, server: SchemaRegistryServer, client: SchemaRegistryClient, name: str, tmp_path: Path
) -> None:
    into, out = f"{name}-in", f"{name}-out"
    for topic in (into, out):
        kafka.create(topic)
    with Gate(server) as gate:
        serde = sf.Serdes.avro(ORDER, registry=sf.SchemaRegistry([HERE, gate.url]))
        with started(kafka, name, tmp_path, copied(name, serde, on_error=sf.log_and_continue())) as app:
            until_running(app)
            gate.away = True
            write(kafka, into, [("k", {"amount": 7, "level": 2})], AvroSerializer(client, json.dumps(NEWER)))
            until(lambda: sum("GET" in one for one in gate.seen) >= 3, "it is asked again and again")
            assert kafka.count(out) == 0
            gate.away = False
            until(lambda: kafka.count(out) == 1, "the record goes on")
    assert read(kafka, out, AvroDeserializer(client)) == [("k", {"amount": 7, "note": "-"})]


def test_a_registry_outage_ends_the_application_and_loses_nothing(
    kafka: KafkaTopics, server: SchemaRegistryServer, client: SchemaRegistryClient, name: str, tmp_path: Path
) -> None:
    into, out = f"{name}-in", f"{name}-out"
    for topic in (into, out):
        kafka.create(topic)
    with Gate(server) as gate:
        serde = sf.Serdes.avro(ORDER, registry=sf.SchemaRegistry(gate.url, timeout="4s"))
        builder = copied(name, serde, on_error=sf.log_and_continue())
        app = started(kafka, name, tmp_path, builder, restart_max_attempts=0)
        app.start()
        until_running(app)
        gate.away = True
        write(kafka, into, [("k", {"amount": 7, "level": 2})], AvroSerializer(client, json.dumps(NEWER)))
        with pytest.raises(sf.BrokerUnavailableError, match=r"gave no answer within 4 s \(503: closed"):
            app.wait(PATIENCE_S)
        app.close()
        assert kafka.count(out) == 0
        gate.away = False
        with started(kafka, name, tmp_path, copied(name, serde, on_error=sf.log_and_continue())):
            until(lambda: kafka.count(out) == 1, "the record is read again")


@pytest.mark.parametrize("path", ["", "/nonsense"])
def test_a_wrong_address_is_no_bad_record(
    client: SchemaRegistryClient, server: SchemaRegistryServer, name: str, path: str
) -> None:
    url = server.url.replace("/apis/ccompat/v7", path)
    builder = sf.StreamsBuilder()
    serde = sf.Serdes.avro(ORDER, registry=sf.SchemaRegistry(url))
    builder.stream(f"{name}-in", key=str, value=serde, on_error=sf.log_and_continue()).foreach(print)
    data = encoded(client, f"{name}-in", ORDER, {"amount": 1, "note": ""})
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(sf.ConfigError, match="as no schema registry"):
        driver.input(f"{name}-in", str, bytes).pipe("k", data)


def test_a_registry_request_times_out() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        registry = sf.SchemaRegistry(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout="300ms")
        began = time.monotonic()
        with pytest.raises(sf.BrokerUnavailableError, match="timed out"):
            registry.schema(1)
        assert time.monotonic() - began < 30


# -- credentials


def basic(user: str, password: str) -> str:
    """The header that a client with these credentials must send."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_credentials_over_tls(server: SchemaRegistryServer, client: SchemaRegistryClient, tmp_path: Path) -> None:
    files = Certificates(tmp_path, ("alice",))
    schema_id = client.register_schema("credentials", Schema(json.dumps(ORDER), "AVRO"))
    with Gate(server, basic("alice", "s3:cret"), files.server) as gate:
        user: dict[str, Any] = {"user": "alice", "password": "s3:cret"}
        registry = sf.SchemaRegistry(gate.url, ca=files.ca, **user)
        assert json.loads(registry.schema(schema_id).schema) == ORDER
        with_user = gate.url.replace("https://", "https://alice:s3%3Acret@")
        for made in (
            sf.SchemaRegistry(with_user, ca=files.ca),
            sf.SchemaRegistry.from_config({
                "application.id": "x",
                "schema.registry.url": gate.url,
                "basic.auth.credentials.source": "USER_INFO",
                "basic.auth.user.info": "alice:s3:cret",
                "schema.registry.ssl.truststore.type": "PEM",
                "schema.registry.ssl.truststore.location": str(files.ca),
                "value.subject.name.strategy": "io.confluent.kafka.serializers.subject.TopicRecordNameStrategy",
                "auto.register.schemas": "false",
            }),
        ):  # fmt: skip
            assert made.schema(schema_id).type == "AVRO"
            assert "alice" not in repr(made)
            assert "s3" not in repr(made) + repr(vars(made))
        assert (made.subjects, made.auto_register) == ("topic_record", False)
        with pytest.raises(sf.ConfigError, match="isn't trusted"):
            sf.SchemaRegistry(gate.url, ca=files.other_ca, **user).schema(schema_id)
        wrong = sf.SchemaRegistry(gate.url, ca=files.ca, **{**user, "password": "gu355ed"})
        with pytest.raises(sf.AuthorizationError, match="401") as raised:
            wrong.schema(schema_id)
        # The header is not in the error.
        assert basic("alice", "gu355ed").split()[1] not in str(raised.value)
        assert "Basic ***" in str(raised.value)


def test_tokens_are_fetched_each_time_and_never_sent_to_a_redirect(
    server: SchemaRegistryServer, client: SchemaRegistryClient
) -> None:
    schema_id = client.register_schema("tokens", Schema(json.dumps(ORDER), "AVRO"))
    tokens = iter(("first-token", "second-token"))
    with Gate(server, "Bearer second-token") as gate, Gate(server) as other:
        registry = sf.SchemaRegistry(gate.url, token=lambda: next(tokens))
        with pytest.raises(sf.AuthorizationError) as raised:
            registry.schema(schema_id)
        assert "first-token" not in str(raised.value)
        assert registry.schema(schema_id).id == schema_id
        gate.redirect = f"{other.url}/schemas/ids/1"
        with pytest.raises(sf.ConfigError, match="307"):
            sf.SchemaRegistry(gate.url, token=lambda: "second-token").schema(schema_id)
        assert other.seen == []


# -- the hot path


def test_known_ids_need_no_request(server: SchemaRegistryServer, client: SchemaRegistryClient, name: str) -> None:
    values = [
        encoded(client, f"{name}-in", schema, {"amount": 1, "note": "n", "level": 3}) for schema in (ORDER, NEWER)
    ]
    with Gate(server) as gate:
        serde = sf.Serdes.avro(ORDER, registry=patient(gate.url))
        first = piped(copied(name, serde), f"{name}-in", values, f"{name}-out")
        asked = len(gate.seen)
        assert asked == 3, gate.seen  # two ids, and that of the sink
        gate.away = True
        assert piped(copied(name, serde), f"{name}-in", values * 50, f"{name}-out") == first * 50
        assert len(gate.seen) == asked
