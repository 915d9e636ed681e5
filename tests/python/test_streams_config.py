"""A Kafka Streams configuration is accepted unchanged; its serdes and timestamp extractors apply."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

STRING = "org.apache.kafka.common.serialization.Serdes$StringSerde"

SEED = {
    "application.id": "wordcount-v2",
    "bootstrap.servers": "kafka1:9092,kafka2:9092,kafka3:9092",
    "default.key.serde": STRING,
    "default.value.serde": STRING,
    "commit.interval.ms": 1000,
    "state.dir": "/data/kafka-streams",
    "num.stream.threads": 4,
    "num.standby.replicas": 1,
    "replication.factor": 3,
    "rocksdb.config.setter": "com.acme.ProductionRocksDBConfig",
}
"""What a guide to Kafka Streams puts into its `Properties`."""


def counts(builder: sf.StreamsBuilder) -> None:
    lines = builder.stream("lines")
    words = lines.flat_map_values(lambda line: line.split()).group_by(lambda key, word: word)
    words.count(store="counts").to_stream().to("counts", value=int)


def test_the_configuration_of_a_guide_is_accepted() -> None:
    sf.Settings(SEED, environ={}).check()
    with pytest.raises(sf.ConfigError) as caught:
        sf.Settings(SEED, environ={}, strict=True).check()
    for name in ("num.stream.threads", "num.standby.replicas", "rocksdb.config.setter"):
        assert f"{name} = " in caught.value.message
    assert "3 settings are wrong" in caught.value.message


def test_sources_and_groups_get_the_default_serdes() -> None:
    builder = sf.StreamsBuilder()
    counts(builder)
    with pytest.raises(sf.TopologyError, match="doesn't know the serde of its key"):
        builder.build()
    topology = builder.build(SEED)
    with TopologyTestDriver(topology) as driver:
        driver.input("lines", str, str).pipe("k", "a b a")
        assert [(r.key, r.value) for r in driver.output("counts", str, int)] == [("a", 1), ("b", 1), ("a", 2)]


def test_settings_of_the_run_reach_a_topology_that_is_built() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in").map_values(lambda value: [value]).to("out", value=dict)
    topology = builder.build()
    for given, shown in (({}, None), ({"default.value.serde": "string"}, ["x"]), ({"default_value_serde": str}, ["x"])):
        with TopologyTestDriver(topology, given) as driver:
            if shown is None:
                with pytest.raises(sf.StoatFlowError):
                    driver.input("in", str, str).pipe("k", "x")
                continue
            driver.input("in", str, str).pipe("k", "x")
            assert [record.value for record in driver.output("out", str, dict)] == [shown]


class Shout(sf.Serde[str]):
    """A user's serde."""

    @property
    def name(self) -> str:
        return "shout"

    def serialize(self, value: str) -> bytes:
        return value.lower().encode()

    def deserialize(self, data: bytes) -> str:
        return data.decode().upper()


def test_a_serde_object_may_be_the_default() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in").map_values(lambda value: value + "!").to("out", value=str)
    with TopologyTestDriver(builder.build(), {"default.value.serde": Shout()}) as driver:
        driver.input("in", str, str).pipe("k", "x")
        assert driver.output("out", str, str).read().value == "X!"


def java(name: str) -> str:
    return f"org.apache.kafka.common.serialization.Serdes${name}"


def test_uuids_and_lists_may_be_the_defaults() -> None:
    # Python reads this UUID in braces too, and Kafka does not.
    customer = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
    config = {
        "default.key.serde": java("UUIDSerde"),
        "default.value.serde": java("ListSerde"),
        "default.list.value.serde.inner": java("IntegerSerde"),
        "default.list.value.serde.type": "java.util.ArrayList",
    }
    seen: list[tuple[object, object]] = []
    builder = sf.StreamsBuilder()
    numbers = builder.stream("in").peek(lambda key, value: seen.append((key, value)))
    numbers.map_values(lambda value: [*value, 7]).to("out", value=sf.Serdes.list(sf.Serdes.int32(), nulls=True))
    numbers.group_by_key().reduce(lambda old, new: old + new, store="joined")
    with TopologyTestDriver(builder.build(config), config) as driver:
        # As Kafka's ListSerializer writes it: strategy 0, one null at 1, three entries of 4 bytes.
        data = bytes.fromhex("000000000100000001000000030000000500000006")
        driver.input("in").pipe(str(customer).encode(), data)
        assert seen == [(customer, [5, None, 6])]
        read = driver.output("out", sf.Serdes.uuid(), sf.Serdes.list(sf.Serdes.int32(), nulls=True)).read()
        assert (read.key, read.value) == (customer, [5, None, 6, 7])
        assert driver.store("joined").get(customer) == [5, None, 6]
        with pytest.raises(sf.SerdeError, match=re.escape("can't read b'{01890a5d")):
            driver.input("in").pipe(b"{%s}" % str(customer).encode(), data)


def test_lists_of_keys_have_a_setting_of_their_own() -> None:
    config = {"default.key.serde": "list", "default.list.key.serde.inner": "uuid"}
    builder = sf.StreamsBuilder()
    builder.stream("in", value=str).map(lambda key, value: (str(key[0]), value)).to("out", key=str, value=str)
    with TopologyTestDriver(builder.build(), config) as driver:
        customer = UUID("01890a5d-ac96-774b-bcce-b302099a8057")
        driver.input("in", sf.Serdes.list(UUID), str).pipe([customer], "v")
        assert driver.output("out", str, str).read().key == str(customer)


def test_default_lists_without_their_entries_name_the_setting() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in").to("out")
    with pytest.raises(sf.ConfigError, match=r"set default\.list\.value\.serde\.inner"):
        builder.build({"default.value.serde": java("ListSerde")})
    with pytest.raises(sf.ConfigError, match=r"Serdes\.list\(MySerde\(\)\)"):
        builder.build({"default.value.serde": "list", "default.list.value.serde.inner": "com.acme.OrderSerde"})


def test_equal_default_lists_are_one_serde() -> None:
    config = {"default.value.serde": "list", "default.list.value.serde.inner": "string"}
    builder = sf.StreamsBuilder()
    builder.stream("in").to("out")
    topology = builder.build(config)
    assert topology.for_settings(sf.Settings(config, environ={})) is topology


def test_an_explicit_serde_overrides_the_default() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", value=int).to("out")
    with TopologyTestDriver(builder.build(), {"default.value.serde": "string"}) as driver:
        driver.input("in", str, int).pipe("k", 5)
        assert driver.output("out", str, int).read().value == 5


def test_the_default_extractor_is_that_of_sources_without_one() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in").to("out")
    class_name = "org.apache.kafka.streams.processor.WallclockTimestampExtractor"
    with TopologyTestDriver(builder.build(), {"default.timestamp.extractor": class_name}, start=5_000) as driver:
        driver.input("in").pipe(b"k", b"v", timestamp=7)
        assert driver.output("out").read().timestamp == 5_000


def test_java_classes_that_mean_nothing_here_are_refused() -> None:
    with pytest.raises(sf.ConfigError, match="give a serde in code"):
        sf.StreamsBuilder().build({"default.key.serde": "com.acme.OrderSerde"})


def test_each_name_without_effect_gets_one_line(tmp_path: Path) -> None:
    program = f"""
import stoatflow as sf
broker = sf.EmbeddedBroker()
for topic in ("lines", "counts"):
    broker.create_topic(topic)
builder = sf.StreamsBuilder()
builder.stream("lines").to("counts")
config = {SEED!r} | {{"state.dir": {str(tmp_path)!r}}}
del config["bootstrap.servers"]
with sf.StoatFlow(builder.build(), config, broker=broker):
    pass
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    output = [line["message"] for line in lines if line["target"] == "stoatflow::settings"]
    assert output == [
        (
            "num.stream.threads = 4 has no effect here: "
            "keys are spread over lanes (lanes.count), not partitions over threads"
        ),
        "num.standby.replicas = 1 has no effect here: one process holds all state, and restores it from the changelogs",
        (
            'rocksdb.config.setter = "com.acme.ProductionRocksDBConfig" has no effect here: '
            "Java classes can't run here; rocksdb.compression and its like hold for all stores, RocksDBConfig for one, "
            "and state.memory.max.bytes is one budget for all"
        ),
    ]
