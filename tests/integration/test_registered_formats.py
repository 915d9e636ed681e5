"""Protobuf and JSON Schema with a real schema registry, between Confluent's own serializers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from broker.schema_registry import Gate, SchemaRegistryServer
from confluent_clients import patient, read, write
from confluent_kafka.schema_registry import (
    Schema,
    SchemaReference,
    SchemaRegistryClient,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
)
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from counting import until, until_consumed
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2
from topics import KafkaTopics

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

pytestmark = pytest.mark.xdist_group("registry")

STRATEGIES = {"record": record_subject_name_strategy, "topic_record": topic_record_subject_name_strategy}


def classes(package: str, **files: str) -> dict[str, Any]:
    """Classes of the messages of .proto files, by their names; `<package>/<name>.proto` may import earlier ones."""
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    found: dict[str, Any] = {}
    texts: dict[str, str] = {}
    for name, body in files.items():
        text = f'syntax = "proto3"; package {package}; {body}'
        first = text.split("message ", 1)[1].split(maxsplit=1)[0]
        descriptors = _descriptors(text, f"{package}.{first}", texts)
        file = next(one for one in descriptors if one.name == "schema.proto")
        file.name = f"{package}/{name}.proto"
        pool.Add(file)
        texts[file.name] = text
        messages = pool.FindFileByName(file.name).message_types_by_name
        found.update((one, message_factory.GetMessageClass(of)) for one, of in messages.items())
    return found


def _descriptors(text: str, message: str, imports: dict[str, str]) -> list[Any]:
    from stoatflow._runtime.bridge import ProtobufFormat

    made = ProtobufFormat(ProtobufFormat.of_registered(text, imports), message)
    return list(descriptor_pb2.FileDescriptorSet.FromString(made.descriptors).file)


def shop(name: str) -> tuple[str, dict[str, Any]]:
    """A package of this test alone, with its messages: files that import are registered under their names."""
    package = name.replace("-", "_")
    return package, classes(
        package,
        city="message City { int32 zip = 1; }",
        order=f"""import "{package}/city.proto"; import "google/protobuf/timestamp.proto";
        message Other {{ string x = 1; }}
        message Order {{
          int64 amount = 1; City city = 2; google.protobuf.Timestamp at = 3; map<string, int32> counts = 4;
          message Line {{ string sku = 1; }}
        }}""",
        total="message Total { int64 paid = 1; int32 zip = 2; }",
    )


def written(serializer: Any, topic: str, value: Any) -> bytes:
    """The bytes that a producer with this serializer writes into a topic."""
    return bytes(serializer(value, SerializationContext(topic, MessageField.VALUE)))


def given_back(deserializer: Any, topic: str, data: bytes) -> Any:
    return deserializer(data, SerializationContext(topic, MessageField.VALUE))


def piped(builder: sf.StreamsBuilder, topic: str, values: list[bytes], out: str) -> list[bytes]:
    """The output of a topology for a topic's values."""
    with TopologyTestDriver(builder.build()) as driver:
        driver.input(topic, str, bytes).pipe_all([("k", value) for value in values])
        return driver.output(out, str, bytes).read_values_to_list()


def run(kafka: KafkaTopics, name: str, state: Path, builder: sf.StreamsBuilder, counts: dict[str, int]) -> None:
    """Run until these topics have this many records."""
    config = {"application.id": name, "bootstrap.servers": kafka.address, "state.dir": state, "lanes.count": 2}
    with sf.StoatFlow(builder.build(), config) as app:
        until_consumed(app)
        until(lambda: all(kafka.count(topic) >= count for topic, count in counts.items()), "all is written")


# -- Protobuf


def test_protobuf_between_confluents_serializers(
    kafka: KafkaTopics, server: SchemaRegistryServer, client: SchemaRegistryClient, name: str, tmp_path: Path
) -> None:
    into, out, totals = f"{name}-in", f"{name}-out", f"{name}-totals"
    for topic in (into, out, totals):
        kafka.create(topic)
    package, of = shop(name)
    city, order_class, total_class = of["City"], of["Order"], of["Total"]
    given = [("a", order_class(amount=amount, city=city(zip=5))) for amount in (3, 2**40)]
    write(kafka, into, given, ProtobufSerializer(order_class, client))
    with Gate(server) as gate:
        registry = patient(gate.url)
        order = sf.Serdes.protobuf(order_class, registry=registry)
        total = sf.Serdes.protobuf(total_class, registry=registry)
        builder = sf.StreamsBuilder()
        orders = builder.stream(into, key=str, value=order)
        orders.map_values(sf.obj(paid=sf.value["amount"], zip=sf.value["city"]["zip"])).to(out, value=total)
        orders.group_by_key().reduce(
            lambda one, other: one | {"amount": one["amount"] + other["amount"]}, store="totals"
        ).to_stream().to(totals)
        run(kafka, name, tmp_path, builder, {out: 2, totals: 1})
        asked = [one for one in gate.seen if one.startswith("GET")]
        assert sorted(asked) == sorted(set(asked)), "an id was asked for twice"

    values = read(kafka, out, ProtobufDeserializer(total_class, schema_registry_client=client))
    assert values == [("a", total_class(paid=paid, zip=5)) for paid in (3, 2**40)]
    last = read(kafka, totals, ProtobufDeserializer(order_class, schema_registry_client=client))[-1]
    assert last == ("a", order_class(amount=3 + 2**40, city=city(zip=5)))
    ours = {f"{one}-value" for one in (into, out, totals)} | {f"{package}/city.proto", f"{name}-{package}.Order"}
    assert {one for one in client.get_subjects() if name in one or package in one} == ours
    # Confluent's serializer registers the same schema, with the same references.
    for topic, message in ((out, total_class), (totals, order_class)):
        data = written(ProtobufSerializer(message, client), topic, message())
        assert client.get_versions(f"{topic}-value") == [1]
        serde = sf.Serdes.protobuf(message, registry=sf.SchemaRegistry(server.url)).for_topic(topic)
        assert serde.serialize({}) == data


def test_message_indexes_are_honoured(server: SchemaRegistryServer, client: SchemaRegistryClient, name: str) -> None:
    package, of = shop(name)
    registry = sf.SchemaRegistry(server.url)
    line = of["Order"].Line
    records = {
        "Other": written(ProtobufSerializer(of["Other"], client), f"{name}-in", of["Other"](x="a")),
        "Order": written(ProtobufSerializer(of["Order"], client), f"{name}-in", of["Order"](amount=1)),
        "Order.Line": written(ProtobufSerializer(line, client), f"{name}-in", line(sku="pen")),
        "Total": written(ProtobufSerializer(of["Total"], client), f"{name}-else", of["Total"](paid=1)),
    }
    for wanted, message in (("Other", of["Other"]), ("Order", of["Order"]), ("Order.Line", line)):
        serde = sf.Serdes.protobuf(message, registry=registry, decode="message").for_topic(f"{name}-in")
        assert serde.serialize(serde.deserialize(records[wanted])) == records[wanted]
        for other, data in records.items():
            if other == wanted:
                continue
            with pytest.raises(sf.SerdeError) as raised:
                serde.deserialize(data)
            for full_name in (f"'{package}.{other}'", f"'{package}.{wanted}'"):
                assert full_name in str(raised.value)


def test_other_messages_and_formats_are_bad_records(
    server: SchemaRegistryServer, client: SchemaRegistryClient, name: str
) -> None:
    _, of = shop(name)
    bad: list[str] = []

    def noted(context: Any, record: Any, exception: Any) -> Any:
        bad.append(str(exception))
        return sf.log_and_continue()

    registry = sf.SchemaRegistry(server.url)
    order = sf.Serdes.protobuf(of["Order"], registry=registry, decode="message")
    builder = sf.StreamsBuilder()
    stream = builder.stream(f"{name}-in", key=str, value=order, on_error=noted)
    stream.map_values(lambda message: of["Order"](amount=message.amount + 6)).to(f"{name}-out", value=order)
    good = written(ProtobufSerializer(of["Order"], client), f"{name}-in", of["Order"](amount=1))
    other = written(ProtobufSerializer(of["Other"], client), f"{name}-in", of["Other"](x="a"))
    avro = client.register_schema(f"{name}-avro", Schema('"string"', "AVRO"))
    values = [good, other, b"\0" + avro.to_bytes(4, "big") + good[5:], b"\0\x7f\0\0\1" + good[5:], good[:4]]
    (out,) = piped(builder, f"{name}-in", values, f"{name}-out")
    assert given_back(ProtobufDeserializer(of["Order"], schema_registry_client=client), "x", out).amount == 7
    reasons = (".Other' of the schema", f"the schema id {avro} is one of AVRO", "2130706433", "no schema id before")
    for reason, output in zip(reasons, bad, strict=True):
        assert reason in output


@pytest.mark.parametrize("subjects", ["topic", "record", "topic_record"])
def test_subjects_of_protobuf(
    server: SchemaRegistryServer, client: SchemaRegistryClient, name: str, subjects: Any
) -> None:
    _, of = shop(name)
    before = set(client.get_subjects())
    serde = sf.Serdes.protobuf(of["Total"], registry=sf.SchemaRegistry(server.url, subjects=subjects))
    ours = serde.for_topic(f"{name}-out").serialize({"paid": 1})
    assert len(set(client.get_subjects()) - before) == 1
    conf = {"subject.name.strategy": STRATEGIES[subjects]} if subjects in STRATEGIES else None
    assert written(ProtobufSerializer(of["Total"], client, conf=conf), f"{name}-out", of["Total"](paid=1)) == ours
    assert len(set(client.get_subjects()) - before) == 1


def test_files_with_imports_and_texts_in_the_registry(
    server: SchemaRegistryServer, client: SchemaRegistryClient, name: str, tmp_path: Path
) -> None:
    package = name.replace("-", "_")
    folder = tmp_path / package
    folder.mkdir()
    city = "message City { int32 zip = 1; }"
    home = f'import "{package}/city.proto"; message Home {{ City city = 1; }}'
    for file, body in (("city", city), ("home", home)):
        (folder / f"{file}.proto").write_text(f'syntax = "proto3"; package {package}; {body}')
    of = classes(package, city=city, home=home)
    registry = sf.SchemaRegistry(server.url)
    subject = f"{name}-out-value"
    text = (folder / "home.proto").read_text()
    for schema in (text, folder / "home.proto"):
        serde = sf.Serdes.protobuf(schema, include=[tmp_path], registry=registry).for_topic(f"{name}-out")
        data = serde.serialize({"city": {"zip": 5}})
        deserializer = ProtobufDeserializer(of["Home"], schema_registry_client=client)
        assert given_back(deserializer, f"{name}-out", data).city.zip == 5
        (reference,) = client.get_latest_version(subject).schema.references
        assert (reference.name, reference.subject) == (f"{package}/city.proto", f"{package}/city.proto")
    # Serializers for Java register texts.
    references = [SchemaReference(f"{package}/city.proto", f"{package}/city.proto", 1)]
    number = client.register_schema(f"{name}-java-value", Schema(text, "PROTOBUF", references))
    of_java = b"\0" + number.to_bytes(4, "big") + data[5:]
    assert serde.deserialize(of_java) == {"city": {"zip": 5}}
    # With a subject and no schema: its latest version, with its imports.
    latest = sf.Serdes.protobuf(registry=registry, subject=f"{name}-java-value")
    assert latest.message == f"{package}.Home"
    assert latest.serialize({"city": {"zip": 5}}) == of_java
    assert latest.deserialize(data) == {"city": {"zip": 5}}


def test_protobuf_is_registered_only_where_allowed(
    server: SchemaRegistryServer, client: SchemaRegistryClient, name: str
) -> None:
    package, of = shop(name)
    strict = sf.SchemaRegistry(server.url, auto_register=False)
    topic, subject = f"{name}-out", f"{name}-out-value"
    serde = sf.Serdes.protobuf(of["Order"], registry=strict).for_topic(topic)
    with pytest.raises(sf.TopologyError, match=f"no such schema under the subject '{package}/city.proto'"):
        serde.serialize({})
    data = written(ProtobufSerializer(of["Order"], client), topic, of["Order"]())
    assert serde.serialize({}) == data

    latest = sf.SchemaRegistry(server.url, use_latest=True)
    assert sf.Serdes.protobuf(of["Order"], registry=latest, subject=subject).serialize({}) == data
    # At another position in its file, with other fields, or missing: then it is another schema.
    field = descriptor_pb2.FieldDescriptorProto(name="more", number=9, type=3, label=1)
    moved, changed = (descriptor_pb2.FileDescriptorProto() for _ in range(2))
    for file in (moved, changed):
        of["Order"].DESCRIPTOR.file.CopyToProto(file)
    del moved.message_type[0]
    changed.message_type[1].field.append(field)
    for file in (moved, changed):
        pool = descriptor_pool.DescriptorPool()
        for needed in of["Order"].DESCRIPTOR.file.dependencies:
            pool.AddSerializedFile(needed.serialized_pb)
        pool.Add(file)
        other = message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.Order"))
        with pytest.raises(sf.TopologyError, match=r"the latest version \(1\) of the subject .* another schema"):
            sf.Serdes.protobuf(other, registry=latest, subject=subject).serialize({})
    with pytest.raises(sf.TopologyError, match="another schema"):
        sf.Serdes.protobuf(of["City"], registry=latest, subject=subject).serialize({})
    with pytest.raises(sf.TopologyError, match=f"there is no Protobuf message '{package}.Nothing'"):
        sf.Serdes.protobuf(message=f"{package}.Nothing", registry=latest, subject=subject)
    with pytest.raises(sf.TopologyError, match="which it imports"):
        sf.Serdes.protobuf(message=f"{package}.City", registry=latest, subject=subject)


# -- JSON Schema


def order_schema(**more: Any) -> dict[str, Any]:
    """An order whose amount isn't negative."""
    amount = {"type": "integer", "minimum": 0}
    return {"title": "Order", "type": "object", "properties": {"amount": amount}, "required": ["amount"], **more}


SUMMARY = {"title": "Summary", "type": "object", "properties": {"paid": {"type": "integer"}}, "required": ["paid"]}


def test_json_schema_between_confluents_serializers(
    kafka: KafkaTopics, server: SchemaRegistryServer, client: SchemaRegistryClient, name: str, tmp_path: Path
) -> None:
    into, out, totals = f"{name}-in", f"{name}-out", f"{name}-totals"
    for topic in (into, out, totals):
        kafka.create(topic)
    older = order_schema(description="older")
    write(kafka, into, [("a", {"amount": 3})], JSONSerializer(json.dumps(older), client))
    client.set_compatibility(f"{into}-value", "NONE")
    write(kafka, into, [("a", {"amount": 4, "note": "ö"})], JSONSerializer(json.dumps(order_schema()), client))
    with Gate(server) as gate:
        registry = patient(gate.url)
        order, summary = (sf.Serdes.json_schema(one, registry=registry) for one in (order_schema(), SUMMARY))
        builder = sf.StreamsBuilder()
        orders = builder.stream(into, key=str, value=order)
        orders.map_values(sf.obj(paid=sf.value["amount"])).to(out, value=summary)
        orders.group_by_key().reduce(
            lambda one, other: {**one, "amount": one["amount"] + other["amount"]}, store="totals"
        ).to_stream().to(totals)
        run(kafka, name, tmp_path, builder, {out: 2, totals: 1})
        asked = [one for one in gate.seen if one.startswith("GET")]
        assert sorted(asked) == sorted(set(asked)), "an id was asked for twice"
        assert len(asked) == 2
    assert read(kafka, out, JSONDeserializer(None, schema_registry_client=client)) == [
        ("a", {"paid": 3}), ("a", {"paid": 4}),
    ]  # fmt: skip
    last = read(kafka, totals, JSONDeserializer(json.dumps(order_schema()), schema_registry_client=client))[-1]
    assert last == ("a", {"amount": 7})
    subjects = {one for one in client.get_subjects() if one.startswith(name)}
    assert subjects == {f"{one}-value" for one in (into, out, totals)} | {f"{name}-Order"}
    # Confluent's serializer registers the same schema.
    data = written(JSONSerializer(json.dumps(SUMMARY), client), out, {"paid": 3})
    assert client.get_versions(f"{out}-value") == [1]
    assert summary.for_topic(out).serialize({"paid": 3}) == data


def test_values_that_do_not_fit_the_schema_go_to_handlers(
    server: SchemaRegistryServer, client: SchemaRegistryClient, name: str
) -> None:
    text = json.dumps(order_schema())
    registry = sf.SchemaRegistry(server.url)
    serde = sf.Serdes.json_schema(text, registry=registry).for_topic(f"{name}-in")
    conf = {"validate": False}
    wrong = {"amount": -1}
    careless = written(JSONSerializer(text, client, conf=conf), f"{name}-in", wrong)
    # Confluent's serializers reject the same values, both ways.
    with pytest.raises(Exception, match="less than the minimum"):
        written(JSONSerializer(text, client), f"{name}-in", wrong)
    with pytest.raises(Exception, match="less than the minimum"):
        given_back(JSONDeserializer(text, schema_registry_client=client), f"{name}-in", careless)
    for call, argument in ((serde.serialize, wrong), (serde.deserialize, careless)):
        with pytest.raises(sf.SerdeError, match="'Order' at /amount: -1 is less than the minimum of 0"):
            call(argument)
    lenient = sf.Serdes.json_schema(text, registry=registry, validate=False).for_topic(f"{name}-in")
    assert lenient.deserialize(careless) == wrong
    assert lenient.serialize(wrong)[5:] == b'{"amount":-1}'

    bad: list[str] = []

    def noted(context: Any, record: Any, exception: Any) -> Any:
        bad.append(str(exception))
        return sf.log_and_continue()

    builder = sf.StreamsBuilder()
    builder.stream(f"{name}-in", key=str, value=serde, on_error=noted).to(f"{name}-out", value=serde)
    good = written(JSONSerializer(text, client), f"{name}-in", {"amount": 1})
    avro = client.register_schema(f"{name}-avro", Schema('"string"', "AVRO"))
    values = [careless, b"\0" + avro.to_bytes(4, "big") + good[5:], b"\0\x7f\0\0\2" + good[5:], good[5:], good]
    (out,) = piped(builder, f"{name}-in", values, f"{name}-out")
    assert given_back(JSONDeserializer(None, schema_registry_client=client), f"{name}-out", out) == {"amount": 1}
    reasons = ("less than the minimum", f"the schema id {avro} is one of AVRO", "2130706434", "no schema id before")
    for reason, output in zip(reasons, bad, strict=True):
        assert reason in output


@pytest.mark.parametrize("subjects", ["topic", "record", "topic_record"])
def test_subjects_of_json_schemas(
    server: SchemaRegistryServer, client: SchemaRegistryClient, name: str, subjects: Any
) -> None:
    text = json.dumps(order_schema(title=name))
    before = set(client.get_subjects())
    registry = sf.SchemaRegistry(server.url, subjects=subjects)
    ours = sf.Serdes.json_schema(text, registry=registry).for_topic(f"{name}-out").serialize({"amount": 1})
    assert len(set(client.get_subjects()) - before) == 1
    conf = {"subject.name.strategy": STRATEGIES[subjects]} if subjects in STRATEGIES else None
    assert written(JSONSerializer(text, client, conf=conf), f"{name}-out", {"amount": 1}) == ours
    assert len(set(client.get_subjects()) - before) == 1
    if subjects != "topic":
        nameless = sf.Serdes.json_schema({"type": "object"}, registry=registry).for_topic(f"{name}-out")
        with pytest.raises(sf.TopologyError, match="without a title"):
            nameless.serialize({})


def test_the_latest_json_schema_with_references(
    server: SchemaRegistryServer, client: SchemaRegistryClient, name: str
) -> None:
    city = {"title": "City", "type": "object", "properties": {"zip": {"type": "integer"}}}
    home = {"title": "Home", "type": "object", "properties": {"city": {"$ref": f"{name}.json"}}}
    client.register_schema(f"{name}-city", Schema(json.dumps(city), "JSON"))
    reference = SchemaReference(f"{name}.json", f"{name}-city", 1)
    whole = Schema(json.dumps(home), "JSON", [reference])
    data = written(JSONSerializer(whole, client), f"{name}-out", {"city": {"zip": 5}})
    registry = sf.SchemaRegistry(server.url)
    latest = sf.Serdes.json_schema(registry=registry, subject=f"{name}-out-value")
    assert latest.serialize({"city": {"zip": 5}}) == data
    assert latest.deserialize(data) == {"city": {"zip": 5}}
    with pytest.raises(sf.SerdeError, match="'Home' at /city/zip"):
        latest.serialize({"city": {"zip": "x"}})
    with pytest.raises(sf.TopologyError, match="is not present in a registry"):
        sf.Serdes.json_schema(home, registry=registry)

    strict = sf.SchemaRegistry(server.url, use_latest=True)
    same = sf.Serdes.json_schema(dict(reversed(city.items())), registry=strict, subject=f"{name}-city")
    assert same.serialize({})[5:] == b"{}"
    other = sf.Serdes.json_schema({**city, "required": ["zip"]}, registry=strict, subject=f"{name}-city")
    with pytest.raises(sf.TopologyError, match=r"the latest version \(1\) of the subject .* another schema"):
        other.serialize({"zip": 1})
    careful = sf.SchemaRegistry(server.url, auto_register=False)
    with pytest.raises(sf.TopologyError, match="no such schema under the subject"):
        sf.Serdes.json_schema(SUMMARY, registry=careful, subject=f"{name}-none").serialize({"paid": 1})
    client.register_schema(f"{name}-avro", Schema('"string"', "AVRO"))
    with pytest.raises(sf.TopologyError, match="JSON is wanted"):
        sf.Serdes.json_schema(registry=registry, subject=f"{name}-avro")


# -- the page


PAGE = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "schema-registry.md").read_text("utf-8")
BLOCKS = [block.split("```")[0] for block in PAGE.split("```python no-run\n")[1:]]


@pytest.mark.parametrize("number", range(3))
def test_examples_of_the_page_work(server: SchemaRegistryServer, number: int) -> None:
    """All of its code blocks except credentials, which another test covers."""
    blocks = [block for block in BLOCKS if "http://localhost:8081" in block]
    assert (len(blocks), len(BLOCKS)) == (3, 4)
    exec(blocks[number].replace("http://localhost:8081", server.url), {})  # noqa: S102  # the page's own
