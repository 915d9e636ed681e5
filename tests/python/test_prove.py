"""The parts of `stoatflow prove` without Java: input files, generated inputs, comparing, shortening, hints, recording.

The parts with Java: tests/oracle/test_prove.py.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.cli import main
from stoatflow.prove import hints, inputs
from stoatflow.prove.compare import Difference, Rules, compare
from stoatflow.prove.engine_side import EngineSide
from stoatflow.prove.generate import Generator, Shapes
from stoatflow.prove.inputs import ClockStep, Input, InputRecord
from stoatflow.prove.java import ClassPath, fetched, find_java
from stoatflow.prove.proving import engine_settings, java_config
from stoatflow.prove.runs import Failure, Output, Row, Run
from stoatflow.prove.shorten import shorten


def plan(topology: sf.Topology) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(topology.plan.physical_json)
    return found


def shop() -> sf.Topology:
    builder = sf.StreamsBuilder()
    orders = builder.stream("orders", key=str, value=dict)
    users = builder.table("users", key=str, value=str, store="users")
    joined = orders.join(users, lambda order, user: user, joined=sf.Joined(str, dict, str))
    joined.group_by_key(grouped=sf.Grouped(key=str, value=str)).windowed_by(sf.TimeWindows("5m", grace="1m")).count(
        store="counts"
    )
    return builder.build()


SHAPES = Shapes({}, {"orders": {"user": ["ann", "bob"], "amount": "int"}})


# Files


def test_inputs_survive_their_file(tmp_path: Path) -> None:
    given: list[Input] = [
        InputRecord("a", b"ann", '{"ä": 1}\u2028'.encode(), 5, (("trace", b"7"), ("empty", None), ("raw", b"\xff"))),
        InputRecord("a", None, None, 0),
        InputRecord("a", b"\x00\x01", b"", 2**62),
        InputRecord("a", b"\x7f", b"tab\tline\n", 3),
        ClockStep(60_000),
    ]
    file = tmp_path / "inputs.jsonl"
    assert inputs.write(file, given) == len(given)
    assert inputs.read(file, lambda topic: None) == given


def test_binary_inputs_are_written_with_the_serde_of_the_topic(tmp_path: Path) -> None:
    file = tmp_path / "inputs.jsonl"
    file.write_text(
        '{"topic": "a", "key": "ann", "value": 3, "timestamp": 5}\n\n'
        '{"topic": "a", "key": {"json": {"x": [1]}}, "value": {"base64": "AAE="}, "timestamp": 6, '
        '"headers": [["h", null]]}\n'
    )
    found = inputs.read(file, lambda topic: (sf.Serdes.string(), sf.Serdes.int64()))
    assert found == [
        InputRecord("a", b"ann", (3).to_bytes(8, "big"), 5),
        InputRecord("a", b'{"x":[1]}', b"\x00\x01", 6, (("h", None),)),
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('{"topic": "a", "key": "k", "value": "v"}', "there is no 'timestamp'"),
        ('{"topic": "a", "key": "k", "value": "v", "timestamp": -1}', "timestamp -1 is no whole number from 0 on"),
        ('{"key": "k", "value": "v", "timestamp": 1}', "there is no 'topic'"),
        ('{"topic": "a", "value": {"base64": "?"}, "timestamp": 1}', "the value is no Base64"),
        ('{"topic": "a", "value": 3, "timestamp": 1}', "the value 3 is neither text nor"),
        ("[]", "it is no JSON object"),
        ("{", "Expecting property name"),
    ],
)
def test_an_invalid_line_is_named(tmp_path: Path, line: str, why: str) -> None:
    file = tmp_path / "inputs.jsonl"
    file.write_text(f"\n{line}\n")
    with pytest.raises(sf.ConfigError) as raised:
        inputs.read(file, lambda topic: None)
    assert "inputs.jsonl, line 2, is no input" in str(raised.value)
    assert why in str(raised.value)


# Made ones


def test_the_same_seed_makes_the_same_inputs() -> None:
    first, again, other = (Generator(plan(shop()), SHAPES, seed).inputs(300) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_generated_inputs_cover_edge_cases() -> None:
    made = Generator(plan(shop()), SHAPES, 1).inputs(1000)
    records = [one for one in made if isinstance(one, InputRecord)]
    times = [one.timestamp for one in records]
    orders = [one for one in records if one.topic == "orders"]
    users = [one for one in records if one.topic == "users"]
    assert 10 < len(made) - len(records) < 100, "steps of the clock"
    assert any(later < earlier for earlier, later in pairwise(times)), "out of order"
    assert max(times) - min(times) > 10 * 300_000, "many windows"
    assert len({one.key for one in records}) < 10, "keys repeat"
    assert any(one.value is None for one in users), "tombstones of tables"
    assert all(one.value is not None for one in orders), "and of nothing else"
    assert any(one.headers for one in records), "headers"
    assert {json.loads(one.value or b"")["user"] for one in orders} == {"ann", "bob"}
    with_nulls = Generator(plan(shop()), SHAPES, 1, nulls=True).inputs(1000)
    assert any(isinstance(one, InputRecord) and one.topic == "orders" and one.value is None for one in with_nulls)
    assert any(isinstance(one, InputRecord) and one.key is None for one in with_nulls)


def test_inputs_of_every_plain_serde_can_be_generated() -> None:
    builder = sf.StreamsBuilder()
    for name, serde in (("s", str), ("l", int), ("d", float), ("b", bytes), ("i", sf.Serdes.int32())):
        builder.stream(name, key=serde, value=serde)
    for one in Generator(plan(builder.build()), Shapes({}, {}), 1).inputs(200):
        if isinstance(one, InputRecord):
            size = {"l": 8, "d": 8, "i": 4}.get(one.topic)
            assert size in (None, len(one.value or b""))
            assert size in (None, len(one.key or b""))


def test_inputs_that_cannot_be_generated_name_the_next_step() -> None:
    with pytest.raises(sf.ConfigError, match=r"JSON values of 'orders'.*--values.*--like"):
        Generator(plan(shop()), Shapes({}, {}), 1)
    builder = sf.StreamsBuilder()
    builder.stream("a", key=str, value=sf.Serdes.avro('{"type": "record", "name": "A", "fields": []}'))
    with pytest.raises(sf.ConfigError, match=r"values of 'a' can't be made: their serde is avro.*--like FILE"):
        Generator(plan(builder.build()), Shapes({}, {}), 1)
    like = [InputRecord("a", b"ann", b"", 1), InputRecord("b", b"x", b"y", 1)]
    for one in Generator(plan(builder.build()), Shapes({}, {}, like), 1).inputs(20):
        assert isinstance(one, ClockStep) or (one.key, one.value) == (b"ann", b"")
    with pytest.raises(sf.ConfigError, match="reads no topic 'others'"):
        Generator(plan(shop()), Shapes({}, {"others": "int"}), 1)
    with pytest.raises(sf.ConfigError, match="'number' is no type"):
        Generator(plan(shop()), Shapes({}, {"orders": {"amount": "number"}}), 1)
    with pytest.raises(sf.ConfigError, match="the keys of 'orders' does not fit"):
        Generator(plan(shop()), Shapes({"orders": [1]}, SHAPES.values), 1)


# Comparing


def run(*records: tuple[int, str, Output], rows: Sequence[Row] = (), failure: Failure | None = None) -> Run:
    made = Run(stores={"s": list(rows)}, failure=failure)
    for at, topic, record in records:
        made.add(topic, at, record)
    return made


RULES = Rules(stores=(("s", "s"),))
A, B = Output(b"a", b"1", 5), Output(b"b", b"2", 6)


def test_equal_runs_have_no_difference() -> None:
    rows = [Row(b"a", None, b"1", 5), Row(b"b", (0, 9), b"1", 5), Row(b"b", (5, 14), b"2", 5)]
    assert compare(run((0, "t", A), (1, "t", B), rows=rows), run((0, "t", A), (1, "t", B), rows=rows), RULES) is None


@pytest.mark.parametrize(
    ("java", "python", "kind", "at", "parts"),
    [
        (run((0, "t", A)), run((0, "t", Output(b"a", b"2", 5))), "record", 0, ("value",)),
        (run((0, "t", A)), run((0, "t", Output(b"a", b"1", 6))), "record", 0, ("timestamp",)),
        (run((0, "t", A)), run((0, "t", Output(b"a", b"1", 5, (("h", None),)))), "record", 0, ("headers",)),
        (run((0, "t", A)), run((0, "t", Output(None, b"", 5))), "record", 0, ("key", "value")),
        (run((0, "t", A)), run((1, "t", A)), "record", 0, ()),
        (run((0, "t", A), (0, "t", B)), run((0, "t", B)), "record", 0, ()),
        (run((0, "t", A)), run((0, "t", A), (3, "t", A)), "record", 3, ()),
        (run((0, "t", A), (0, "t", B)), run((0, "t", B), (0, "t", A)), "order", 0, ()),
        (run((4, "t", A), (2, "u", B)), run(), "record", 2, ()),
        (run(rows=[Row(b"a", None, b"1", 5)]), run(), "row", None, ()),
        (run(rows=[Row(b"a", (0, 9), b"1", 5)]), run(rows=[Row(b"a", (0, 8), b"1", 5)]), "row", None, ()),
        (run(rows=[Row(b"a", None, b"1", 5)]), run(rows=[Row(b"a", None, b"1", 6)]), "row", None, ("timestamp",)),
        (run(failure=Failure(2, "E", "no")), run(failure=Failure(3, "E", "no")), "failure", 2, ()),
        (run((0, "t", A), failure=Failure(2, "E", "no")), run(), "record", 0, ()),
    ],
)
def test_the_first_difference(java: Run, python: Run, kind: str, at: int | None, parts: tuple[str, ...]) -> None:
    found = compare(java, python, RULES)
    assert found is not None
    assert (found.kind, found.at, found.parts) == (kind, at, parts)


def test_outputs_of_a_failed_input_are_not_compared() -> None:
    failure = Failure(2, "E", "no")
    assert compare(run((2, "t", A), failure=failure), run(failure=failure), RULES) is None
    # A store without timestamps has none to compare.
    assert compare(run(rows=[Row(b"a", None, b"1", None)]), run(rows=[Row(b"a", None, b"1", 7)]), RULES) is None


def test_json_is_compared_as_bytes_or_by_meaning() -> None:
    java, python = Output(b"a", b'{"x": 1, "y": 2.0}', 5), Output(b"a", b'{"y":2,"x":1}', 5)
    assert compare(run((0, "t", java)), run((0, "t", python)), RULES) is not None
    assert compare(run((0, "t", java)), run((0, "t", python)), Rules(same_json=True)) is None
    for other in (b'{"y":2,"x":true}', b'{"y":2,"x":1.5}', b'{"y":2}', b"x", None):
        found = compare(run((0, "t", java)), run((0, "t", Output(b"a", other, 5))), Rules(same_json=True))
        assert found is not None


def test_shortening_keeps_the_needed_inputs() -> None:
    def attempt(given: Sequence[Input]) -> Difference | None:
        values = [one.value for one in given if isinstance(one, InputRecord)]
        place = max((values.index(each) for each in (b"17", b"60") if each in values), default=None)
        both = b"17" in values and b"60" in values
        return Difference("record", "t", place) if both else None

    many: list[Input] = [InputRecord("a", b"k", str(i).encode(), i) for i in range(200)]
    first = attempt(many)
    assert first is not None
    found = shorten(many, first, attempt, 400)
    assert [one.value for one in found.inputs if isinstance(one, InputRecord)] == [b"17", b"60"]
    assert found.is_complete
    assert found.runs < 100
    few = shorten(many, first, attempt, 5)
    assert not few.is_complete
    assert few.runs == 5
    assert attempt(few.inputs) is not None
    # Only another difference is left, or none: that is no shorter reproduction of this one.
    assert not shorten(many, first, lambda given: Difference("record", "u", 0), 9).is_repeated


@pytest.mark.parametrize(
    ("java", "python", "text"),
    [
        (b"\0\0\0\x05", b"\0\0\0\0\0\0\0\x05", "Java has 4 bytes, Python 8. Integer is Serdes.int32()"),
        (b"ann\0\0\0\0\0\0\0\x05", b"ann", "followed by a time window"),
        (b'{"a": 1}', b'{"a":1}', "--same-json allows it"),
        (None, b"1", "the value is null in Java"),
    ],
)
def test_slips_that_ports_often_have_are_named(java: bytes | None, python: bytes | None, text: str) -> None:
    one, other = Output(b"k", java, 1), Output(b"k", python, 1)
    (found,) = hints.slips(Difference("record", "t", 0, one, other, ("value",)))
    assert text in found


def test_documented_differences_are_named_for_their_operators() -> None:
    difference = Difference("record", "t", 0, A, B, ("key", "value"))
    assert hints.known(difference, plan(shop()), shop().describe()) == []
    builder = sf.StreamsBuilder()
    left, right = (builder.table(name, key=str, value=str, store=name) for name in ("left", "right"))
    joined = left.join(right, lambda one, other: one, foreign_key=sf.value, store=sf.Materialized("joined", str, str))
    joined.to_stream().to("t", key=str, value=str)
    (found,) = hints.known(difference, plan(builder.build()), "")
    assert "docs/adr/0007, points 14 and 15" in found
    pages = (Path(__file__).resolve().parents[2] / "docs" / "adr").glob("000[67]-*.md")
    for page in pages:
        text = page.read_text("utf-8")
        for decision in hints.DECISIONS:
            place, _, points = decision.where.partition(", ")
            if page.name.startswith(place.removeprefix("docs/adr/")):
                for number in points.replace("points", "").replace("point", "").replace("and", "").split():
                    assert f"\n{number}. " in text, decision


# Finding Java


def test_a_missing_java_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(sf.ConfigError, match=r"JAVA_HOME=.* has no bin/java\. Next: install a JDK"):
        find_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(sf.ConfigError, match=r"no java is on the PATH\. Next: install a JDK"):
        find_java()
    java = tmp_path / "java"
    for output, why in (
        ('openjdk version "1.8.0_292"', "is no Java 11 or newer"),
        ('version "17.0.1"', "has no compiler"),
    ):
        java.write_text(f"#!/bin/sh\necho '{output}'\n")
        java.chmod(0o755)
        with pytest.raises(sf.ConfigError, match=why):
            find_java()


def jar(path: Path, *names: str) -> str:
    with zipfile.ZipFile(path, "w") as made:
        for name in names:
            made.writestr(name, "version=4.0.7\n" if name.endswith(".properties") else "")
    return str(path)


def test_a_missing_class_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    streams = "org/apache/kafka/streams/"
    app = jar(tmp_path / "app.jar", "com/acme/App.class")
    fat = jar(tmp_path / "fat.jar", f"{streams}Topology.class", "kafka/kafka-streams-version.properties")
    tools = jar(tmp_path / "tools.jar", f"{streams}TopologyTestDriver.class")
    with pytest.raises(sf.ConfigError, match=r"Kafka Streams is not on the class path.*--kafka-streams 4\.1\.1"):
        ClassPath([app], tmp_path).check()
    with pytest.raises(sf.ConfigError, match=r"Kafka Streams 4\.0\.7, but not its test utilities.*test-utils:4\.0\.7"):
        ClassPath([app, fat], tmp_path).check()
    ClassPath([f"{app}:{fat}", tools], tmp_path).check()
    ClassPath([f"{tmp_path}/*"], tmp_path).check()
    with pytest.raises(sf.ConfigError, match=r"--java .*no.jar is no jar and no folder"):
        ClassPath([str(tmp_path / "no.jar")], tmp_path)
    with pytest.raises(sf.ConfigError, match="there is no jar"):
        ClassPath([f"{tmp_path}/none/*"], tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(sf.ConfigError, match=r"there is no mvn to fetch it.*kafka-streams-test-utils:4\.9\.9"):
        fetched("4.9.9")
    with pytest.raises(sf.ConfigError, match="is no version"):
        fetched("../4")


def test_a_jar_of_spring_boot_is_unpacked(tmp_path: Path) -> None:
    inner = jar(tmp_path / "kafka-streams-4.1.1.jar", "org/apache/kafka/streams/Topology.class")
    boot = tmp_path / "boot.jar"
    with zipfile.ZipFile(boot, "w") as made:
        made.writestr("BOOT-INF/classes/com/acme/App.class", "")
        made.write(inner, "BOOT-INF/lib/kafka-streams-4.1.1.jar")
    found = ClassPath([str(boot)], tmp_path / "unpacked")
    assert found.classes("App") == ["com.acme.App"]
    assert found.version() == "4.1.1"
    assert found.has("org/apache/kafka/streams/Topology.class")


def test_both_sides_run_without_caches_and_with_the_users_configuration() -> None:
    given = sf.Settings({"cache.max.bytes.buffering": 5, "acme.flag": True}, environ={})
    java = java_config(given)
    assert java["statestore.cache.max.bytes"] == java["cache.max.bytes.buffering"] == "0"
    assert java["acme.flag"] == "true"
    assert java["__emit.interval.ms.kstreams.outer.join.spurious.results.fix__"] == "0"
    ours = engine_settings(sf.Settings({"statestore.cache.max.bytes": 5}, environ={}))
    assert ours.get("statestore.cache.max.bytes") == 0
    ours.check()


def test_topics_by_a_pattern_are_refused() -> None:
    builder = sf.StreamsBuilder()
    builder.stream(re.compile("payments.*"), value=str)
    with pytest.raises(sf.ConfigError, match=r"by the pattern payments\.\*.*a list of topics"):
        EngineSide(builder.build(), "app.py", engine_settings(sf.Settings(environ={})))


def test_the_command_prints_errors_and_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    app = tmp_path / "app.py"
    app.write_text("import stoatflow as sf\n")
    command = ["prove", str(app), "--topology", "com.acme.App::topology"]
    assert main(command) == 2
    assert "defines no StoatFlow, Topology or StreamsBuilder" in capsys.readouterr().err
    app.write_text("import stoatflow as sf\nbuilder = sf.StreamsBuilder()\nbuilder.stream('a', value=str)\n1 / 0\n")
    assert main(command) == 2
    assert "ZeroDivisionError" in capsys.readouterr().err
    app.write_text("import stoatflow as sf\nbuilder = sf.StreamsBuilder()\nbuilder.stream('a', value=str)\n")
    assert main(command) == 2
    assert "give --inputs FILE (stoatflow record makes one), or --generate 1000" in capsys.readouterr().err
    assert main([*command, "--generate", "5", "--values", "a=[oh"]) == 2
    assert "--values: [oh is no JSON" in capsys.readouterr().err
    assert main([*command, "--generate", "5"]) == 2
    assert "Kafka Streams is not on the class path" in capsys.readouterr().err
    config = tmp_path / "streams.properties"
    config.write_text("acme.out=copies\ndefault.value.serde=org.apache.kafka.common.serialization.Serdes$LongSerde\n")
    assert main([*command, "--generate", "5", "--config", str(config)]) == 2
    assert "give the port a file of its own with --settings FILE" in capsys.readouterr().err


# Recording


def test_records_of_an_embedded_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with sf.EmbeddedBroker(tmp_path / "broker") as broker:
        broker.create_topic("orders", 3)
        broker.create_topic("users", 1)
        for number in range(12):
            broker.produce("orders", f"key-{number}", f"{number}", 1000 + number * 10, partition=number % 3)
        broker.produce("users", "ann", b"\xff", 1015)
        broker.produce("users", "ann", None, 900)
    command = ["record", "--bootstrap", f"embedded:{tmp_path / 'broker'}", "--topic", "orders", "--topic", "users"]
    out = tmp_path / "out.jsonl"

    def recorded(*more: str) -> list[InputRecord]:
        assert main([*command, "--out", str(out), *more]) == 0
        found = inputs.read(out, lambda topic: None)
        return [one for one in found if isinstance(one, InputRecord)]

    found = recorded()
    assert "12 record(s) of 'orders'\n2 record(s) of 'users'" in capsys.readouterr().out
    assert [one.value for one in found if one.topic == "orders"] == [str(number).encode() for number in range(12)]
    # Between topics by time; records that are late in their partition stay behind earlier ones.
    users = [one for one in found if one.topic == "users"]
    assert [(one.value, one.timestamp) for one in users] == [(b"\xff", 1015), (None, 900)]
    assert found.index(users[0]) == 2
    assert [one.value for one in recorded("--records", "4") if one.topic == "orders"] == [b"0", b"1", b"2", b"3"]
    assert [one.value for one in recorded("--records", "2", "--last") if one.topic == "orders"] == [b"10", b"11"]
    assert main([*command, "--topic", "none", "--out", str(out)]) == 1
    assert "the topic 'none' does not exist" in capsys.readouterr().err
    assert main([*command, "--out", str(tmp_path / "no" / "out")]) == 2
