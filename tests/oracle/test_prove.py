"""`stoatflow prove` with a Java topology that a real Kafka Streams runs.

Ports of it: a right one, and ones with a mistake each. The mistake must be named, with the fewest inputs that show
it.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from broker.java_home import find_javac

import stoatflow as sf
from conformance.kafka_streams import VERSION, class_path
from stoatflow.cli import main
from stoatflow.prove.engine_side import EngineSide
from stoatflow.prove.generate import Generator, Shapes
from stoatflow.prove.inputs import ClockStep, InputRecord
from stoatflow.prove.jvm import KafkaStreams
from stoatflow.prove.proving import Proof, Sides, engine_settings, java_config, prove
from stoatflow.prove.report import Report
from stoatflow.prove.runs import Output

SOURCE = Path(__file__).parent / "ported" / "Payments.java"
CLASS = "com.acme.Payments"
INT32 = sf.Serdes.int32()
QUICK = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-proc:none")
CONFIG = {
    "acme.out": "copies",
    "default.key.serde": "org.apache.kafka.common.serialization.Serdes$StringSerde",
    "default.value.serde": "org.apache.kafka.common.serialization.Serdes$LongSerde",
}


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The value of --java: the compiled topology, and Kafka Streams."""
    folder = tmp_path_factory.mktemp("classes")
    subprocess.run([str(find_javac()), *QUICK, "-cp", class_path(), "-d", str(folder), str(SOURCE)], check=True)
    libraries = class_path().rpartition(os.pathsep)[2]
    return f"{folder}{os.pathsep}{libraries}"


@pytest.fixture(scope="module")
def java(classes: str) -> Iterator[KafkaStreams]:
    """One JVM for all tests of this file."""
    config = java_config(sf.Settings(CONFIG, environ={}))
    with KafkaStreams([classes], None, f"{CLASS}::topology", config) as running:
        yield running


class Checked(sf.ContextualFixedKeyProcessor[str, int, int]):
    """The port of Checked."""

    header: tuple[str, bytes] = ("checked", b"yes")

    def process(self, record: Any) -> None:
        self.context.forward(record.replace(headers=(*record.headers, self.header)))


class Seen(sf.ContextualProcessor[str, int, None, None]):
    """The port of Seen."""

    def process(self, record: Any) -> None:
        store = self.context.state_store("seen")
        store.put(record.key, self.count(store.get(record.key), record.value))

    def count(self, before: int | None, amount: int) -> int:
        return (before or 0) + 1


def shared(amount: int) -> int:
    """Divides as Java does: towards zero."""
    return int(100 / (amount - 42))


def port(
    window: str = "5m",
    least: int = 1,
    checked: type[Checked] = Checked,
    seen: type[Seen] = Seen,
    letters: Callable[[int], list[str]] = lambda amount: [f"a{shared(amount)}", "b"],
    named: Callable[[int, str | None], str] = lambda amount, user: (
        f'{{"user": "{"null" if user is None else user}", "amount": {amount}}}'
    ),
) -> sf.Topology:
    """The port, with the changes of the tests."""
    builder = sf.StreamsBuilder()
    users = builder.table("users", key=str, value=str, store="users")
    payments = builder.stream("payments", key=str, value=int)
    totals = (
        payments.filter(lambda user, amount: amount >= least)
        .group_by_key()
        .windowed_by(sf.TimeWindows(window, grace="1m"))
        .reduce(lambda total, amount: total + amount, store="totals")
    )
    totals.to_stream(lambda window, total: window.key).to("totals", key=str, value=int)
    payments.process_values(checked).to("checked", key=str, value=int)
    payments.flat_map_values(letters).to("letters", key=str, value=str)
    payments.left_join(users, named, joined=sf.Joined(str, int, str)).to("named", key=str, value=str)
    builder.add_state_store(sf.Stores.in_memory_key_value("seen", key=str, value=INT32))
    payments.process(seen, stores=["seen"])
    return builder.build()


def proven(java: KafkaStreams, topology: sf.Topology, count: int = 90, **options: Any) -> tuple[Proof, str]:
    java.use(f"{CLASS}::topology")
    python = EngineSide(topology, "app.py", engine_settings(sf.Settings(environ={})))
    made = Generator(python.plan, Shapes({}, {}), 1).inputs(count)
    proof = prove(Sides(java, python, **options), made, most_runs=200)
    return proof, Report(proof, python, "made, seed 1").text()


def needed(proof: Proof) -> list[InputRecord]:
    assert proof.shortened is not None
    assert proof.shortened.is_complete
    assert proof.shortened.is_repeated
    assert not any(isinstance(one, ClockStep) for one in proof.shortened.inputs)
    return [one for one in proof.shortened.inputs if isinstance(one, InputRecord)]


def test_a_port_that_is_right_is_equal(java: KafkaStreams) -> None:
    proof, text = proven(java, port(), 120)
    assert proof.difference is None, text
    assert min(proof.compared.values()) > 10
    assert proof.compared.keys() == {"totals", "checked", "letters", "named"}
    assert proof.stores.keys() == {"totals", "users", "seen"}
    assert min(proof.stores.values()) > 2
    assert "EQUAL" in text
    assert "describe()" not in text, text
    # Both divide by zero at 42: each of these inputs is skipped, and reported.
    assert {one.java.name for one in proof.failed} == {"java.lang.ArithmeticException"}
    assert {one.python.name for one in proof.failed} == {"ZeroDivisionError"}
    assert "left out, because both sides fail with it" in text


def kinds() -> sf.Topology:
    """The port of kinds."""
    builder = sf.StreamsBuilder()
    cities = builder.table("cities", key=str, value=str, store="cities")
    users = builder.table("users", key=str, value=str, store="users")
    where = users.join(
        cities,
        lambda user, city: f"{user} in {city}",
        foreign_key=sf.value,
        store=sf.Materialized("where", str, str),
    )
    where.to_stream().to("where", key=str, value=str)
    builder.table("prices", key=str, value=str, store=sf.Materialized("prices", history="1h"))
    sessions = builder.stream("payments", key=str, value=int).group_by_key()
    counts = sessions.windowed_by(sf.SessionWindows("1m", grace="1m")).count(store="sessions")
    closed = counts.suppress(sf.Suppressed.until_window_closes(), name="closed")
    closed.to_stream(lambda session, count: session.key).to("closed", key=str, value=int)
    return builder.build()


def proven_kinds(java: KafkaStreams, cities: list[str]) -> Proof:
    java.use(f"{CLASS}::kinds")
    python = EngineSide(kinds(), "app.py", engine_settings(sf.Settings(environ={})))
    shapes = Shapes({}, {"users": ["ann", "bob", "cyd"], "cities": cities})
    return prove(Sides(java, python), Generator(python.plan, shapes, 1).inputs(250), most_runs=99)


def test_stores_of_each_kind_and_internal_topics(java: KafkaStreams) -> None:
    proof = proven_kinds(java, ["Ulm", "Bern"])
    assert proof.difference is None, proof.difference
    assert proof.stores.keys() == {"cities", "users", "where", "prices", "sessions"}
    assert min(proof.stores.values()) > 0
    assert proof.compared.keys() == {"where", "closed"}
    assert min(proof.compared.values()) > 5
    (note,) = proof.notes
    assert "closed-store" in note
    assert "stores of what waits" in note


def test_a_documented_difference_is_reported_with_its_page(java: KafkaStreams) -> None:
    # An empty value on the right of a foreign-key join, which Kafka Streams takes for null.
    proof = proven_kinds(java, ["Ulm", ""])
    assert proof.difference is not None
    assert proof.difference.place == "where"
    assert {one.topic for one in needed(proof)} == {"cities", "users"}
    (known,) = proof.known
    assert known.endswith("with a right value of no bytes (docs/adr/0007, points 14 and 15)")


def test_sessions_that_kafka_streams_loses_are_emitted(java: KafkaStreams) -> None:
    java.use(f"{CLASS}::closing")
    builder = sf.StreamsBuilder()
    payments = builder.stream("payments", key=str, value=int).group_by_key()
    sessions = payments.windowed_by(sf.SessionWindows("1m", grace="1m"))
    counts = sessions.emit_strategy(sf.EmitStrategy.on_window_close()).count(store="sessions")
    counts.to_stream(lambda session, count: session.key).to("closed", key=str, value=int)
    python = EngineSide(builder.build(), "app.py", engine_settings(sf.Settings(environ={})))
    ann, bob = (InputRecord("payments", key, (1).to_bytes(8, "big"), 0) for key in (b"ann", b"bob"))
    # A bit more than two minutes close ann's session; after four its segment is dropped.
    soon, late = replace(bob, timestamp=120_001), replace(bob, timestamp=240_000)
    assert prove(Sides(java, python), [ann, soon], most_runs=9).difference is None
    proof = prove(Sides(java, python), [ann, late], most_runs=9)
    assert proof.difference is not None
    assert proof.difference.java is None
    assert proof.difference.python == Output(b"ann", (1).to_bytes(8, "big"), 0)
    (known,) = proof.known
    assert "sessions that Kafka Streams' store has dropped" in known


def test_the_single_stream_time_of_the_java_test_driver_is_reported(java: KafkaStreams) -> None:
    class Timed(sf.ContextualProcessor[str, int, str, int]):
        def process(self, record: Any) -> None:
            self.context.forward(record.replace(value=self.context.stream_time_ms))

    java.use(f"{CLASS}::times")
    builder = sf.StreamsBuilder()
    builder.table("users", key=str, value=str, store="users")
    builder.stream("payments", key=str, value=int).process(Timed).to("times", key=str, value=int)
    python = EngineSide(builder.build(), "app.py", engine_settings(sf.Settings(environ={})))
    user, payment = InputRecord("users", b"ann", b"Ann", 50), InputRecord("payments", b"ann", bytes(8), 20)
    proof = prove(Sides(java, python), [user, payment], most_runs=9)
    assert proof.difference is not None
    assert isinstance(proof.difference.java, Output)
    assert isinstance(proof.difference.python, Output)
    assert proof.difference.java.value == (50).to_bytes(8, "big")
    assert proof.difference.python.value == (20).to_bytes(8, "big")
    assert any("all sub-topologies as one task" in known for known in proof.known)
    # A sub-topology has one stream time.
    same = [payment, replace(payment, timestamp=10), user]
    assert prove(Sides(java, python), same, most_runs=9).difference is None


def test_a_wrong_window_is_shown_by_two_payments(java: KafkaStreams) -> None:
    proof, text = proven(java, port(window="10m"))
    first, second = needed(proof)
    assert first.topic == second.topic == "payments"
    assert first.key == second.key
    assert first.timestamp // 300_000 != second.timestamp // 300_000
    assert proof.difference is not None
    assert (proof.difference.place, proof.difference.parts) == ("totals", ("value",))
    assert "DIFFERENT: a record of the topic 'totals'" in text
    assert "inputs that show it, 2 of " in text
    assert "the value differs" in text


def test_a_wrong_filter_is_shown_by_one_payment(java: KafkaStreams) -> None:
    proof, text = proven(java, port(least=2))
    (payment,) = needed(proof)
    assert payment.value == (1).to_bytes(8, "big")
    assert "Python  nothing\n  only Java has it" in text


def test_other_headers_are_named(java: KafkaStreams) -> None:
    class Otherwise(Checked):
        header = ("tested", b"yes")

    proof, text = proven(java, port(checked=Otherwise))
    assert len(needed(proof)) == 1
    assert proof.difference is not None
    assert (proof.difference.place, proof.difference.parts) == ("checked", ("headers",))
    assert proof.slips == ["headers that only Java has: checked", "headers that only Python has: tested"]
    assert "headers checked='yes'" in text
    assert "headers tested='yes'" in text


def test_a_store_that_differs_is_found_behind_equal_records(java: KafkaStreams) -> None:
    class Otherwise(Seen):
        def count(self, before: int | None, amount: int) -> int:
            return (before or 0) + (amount != 1_000_000)

    proof, text = proven(java, port(seen=Otherwise))
    (payment,) = needed(proof)
    assert payment.value == (1_000_000).to_bytes(8, "big")
    assert proof.difference is not None
    assert (proof.difference.kind, proof.difference.place) == ("row", "seen")
    assert "DIFFERENT: the store 'seen' at the end" in text
    assert "decided to be different" in text
    assert "docs/adr/0007, points 2 and 3" in text


def test_order_between_keys_is_not_compared(java: KafkaStreams) -> None:
    proof, text = proven(java, port(letters=lambda amount: ["b", f"a{shared(amount)}"]))
    assert len(needed(proof)) == 1
    assert proof.difference is not None
    assert (proof.difference.kind, proof.difference.place) == ("order", "letters")
    assert "the records are the same, their order is not" in text


def test_json_can_be_compared_by_meaning(java: KafkaStreams) -> None:
    def compact(amount: int, user: str | None) -> str:
        return json.dumps({"amount": amount, "user": user or ("null" if user is None else "")}, separators=(",", ":"))

    proof, text = proven(java, port(named=compact))
    assert proof.difference is not None
    assert proof.difference.place == "named"
    assert "the same JSON, written otherwise" in text
    proof, text = proven(java, port(named=compact), same_json=True)
    assert proof.difference is None, text


def test_a_function_that_fails_on_one_side_only(java: KafkaStreams) -> None:
    def shares(amount: int) -> list[str]:
        return [f"a{shared(amount)}", "b"[: 1 // (amount - 5 or 0)] if amount == 5 else "b"]

    proof, text = proven(java, port(letters=shares))
    (payment,) = needed(proof)
    assert payment.value == (5).to_bytes(8, "big")
    assert "DIFFERENT: Python fails with an input that the other side takes" in text
    assert "Python  fails: ZeroDivisionError" in text
    assert proof.known == []


def test_a_nondeterministic_function_is_reported(java: KafkaStreams) -> None:
    seen: list[int] = []

    def letters(amount: int) -> list[str]:
        seen.append(amount)
        return ["once" if len(seen) == 1 else f"a{shared(amount)}", "b"]

    proof, text = proven(java, port(letters=letters))
    assert proof.shortened is not None
    assert not proof.shortened.is_repeated
    assert "did not show it a second time" in text


def test_stores_with_other_names_are_reported_and_can_be_paired(java: KafkaStreams) -> None:
    java.use(f"{CLASS}::topology")
    builder = sf.StreamsBuilder()
    builder.table("users", key=str, value=str, store="people")
    builder.stream("payments", key=str, value=int)
    python = EngineSide(builder.build(), "app.py", engine_settings(sf.Settings(environ={})))
    user = InputRecord("users", b"ann", b"Ann", 7)
    proof = prove(Sides(java, python, renamed={"users": "people"}), [user], most_runs=9)
    assert proof.stores == {"people": 1}
    assert "only Java writes to the topic 'totals'" in proof.notes
    assert any(note.startswith("describe() differs from line ") and "in Java" in note for note in proof.notes)
    with pytest.raises(sf.ConfigError, match="nothing is proven"):
        prove(Sides(java, python), [user], most_runs=9)
    with pytest.raises(sf.ConfigError, match="neither topology reads the topic 'others'"):
        prove(Sides(java, python), [InputRecord("others", None, None, 1)], most_runs=9)


@pytest.mark.parametrize(
    ("topology", "message"),
    [
        ("com.acme.Payment::topology", "the class com.acme.Payment is not on the class path that --java gives"),
        ("Payments::topology", "Next: name com.acme.Payments"),
        (f"{CLASS}::topologi", r"no such method as topologi \(those that can be called: .*topology"),
        (f"{CLASS}::text", "Payments::text gave a java.lang.String, no Topology"),
        (f"{CLASS}::nothing", "Payments::nothing gave null, no Topology"),
        (f"{CLASS}::raises", "java.lang.IllegalStateException: no database here"),
        (f"{CLASS}::pattern", "reads topics by the pattern payments"),
        (CLASS, "is no CLASS::METHOD"),
        ("org.apache.kafka.streams.StreamsConfig::main", "StreamsConfig::main made no KafkaStreams"),
    ],
)
def test_a_missing_java_method_names_the_callable_ones(java: KafkaStreams, topology: str, message: str) -> None:
    with pytest.raises(sf.ConfigError, match=message):
        java.use(topology)


def test_main_stops_at_its_kafka_streams_and_brings_its_configuration(java: KafkaStreams) -> None:
    java.use(f"{CLASS}::main")
    assert java.described.sinks == {"elsewhere"}
    run = java.run([InputRecord("payments", b"ann", (3).to_bytes(8, "big"), 5)], 0)
    assert [record.value for _, record in run.outputs["elsewhere"]] == [(3).to_bytes(8, "big")]
    java.use(f"{CLASS}::add")
    assert java.described.topics == {"users", "payments"}


def test_both_get_the_configuration_and_the_clock(java: KafkaStreams) -> None:
    class Ticking(sf.ContextualProcessor[str, int, str, int]):
        def init(self, context: Any) -> None:
            super().init(context)
            context.schedule("1m", sf.PunctuationType.WALL_CLOCK_TIME, self.tick)

        def tick(self, timestamp: int) -> None:
            self.context.forward(sf.Record("tick", self.context.system_time_ms, timestamp))

        def process(self, record: Any) -> None:
            self.context.forward(record.replace(value=self.context.system_time_ms))

    def proven_with(builder: sf.StreamsBuilder) -> Proof:
        mine = {name: value for name, value in CONFIG.items() if name != "acme.out"}
        settings = engine_settings(sf.Settings(mine, environ={}))
        python = EngineSide(builder.build(settings), "app.py", settings)
        return prove(Sides(java, python), Generator(python.plan, Shapes({}, {}), 1).inputs(200), most_runs=9)

    for method in ("configured", "counted"):
        java.use(f"{CLASS}::{method}")
        builder = sf.StreamsBuilder()
        # Without serdes: those of the configuration.
        builder.stream("payments").to("copies")
        proof = proven_with(builder)
        assert proof.difference is None, proof.difference
        assert proof.compared["copies"] > 40

    java.use(f"{CLASS}::clock")
    builder = sf.StreamsBuilder()
    builder.stream("payments", key=str, value=int).process(Ticking).to("copies", key=str, value=int)
    proof = proven_with(builder)
    steps = [one.ms for one in proof.inputs if isinstance(one, ClockStep)]
    assert proof.difference is None, proof.difference
    assert sum(steps) > 60_000
    assert proof.compared["copies"] > len(proof.inputs) - len(steps), "and ticks"


def test_the_command_writes_json_and_keeps_the_inputs(
    classes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _, libraries = classes.partition(os.pathsep)
    # As packed by Spring Boot, which Java's class path can't read.
    boot = tmp_path / "app.jar"
    with zipfile.ZipFile(boot, "w") as jar:
        for file in Path(folder).rglob("*.class"):
            jar.write(file, f"BOOT-INF/classes/{file.relative_to(folder)}")
        for file in Path(libraries.rstrip("*")).glob("kafka-streams-*.jar"):
            jar.write(file, f"BOOT-INF/lib/{file.name}")
    others = [str(file) for file in Path(libraries.rstrip("*")).glob("*.jar") if "kafka-streams" not in file.name]
    (tmp_path / "app.py").write_text(
        "import stoatflow as sf\n"
        "builder = sf.StreamsBuilder()\n"
        "builder.stream('payments', key=str, value=int).filter(sf.value < 100).to('elsewhere', key=str, value=int)\n"
    )
    # The cache can't be written: Java runs our program from its source.
    monkeypatch.setenv("XDG_CACHE_HOME", str(boot))
    kept = tmp_path / "kept.jsonl"
    command = ["prove", str(tmp_path / "app.py"), "--java", str(boot), "--java", os.pathsep.join(others)]
    like = [{"topic": "payments", "key": "ann", "value": value, "timestamp": 1} for value in (7, 99, 100)]
    (tmp_path / "like.jsonl").write_text("\n".join(map(json.dumps, like)))
    (tmp_path / "both.properties").write_text("acme.mine=yes\n")
    (tmp_path / "port.toml").write_text('"application.id" = "port"\n')
    files = [("--like", "like.jsonl"), ("--config", "both.properties"), ("--settings", "port.toml")]
    command += [str(part) for option, name in files for part in (option, tmp_path / name)]
    command += ["--topology", f"{CLASS}::main", "--json", "--keep", str(kept), "--generate", "50"]
    assert main(command) == 1
    output = json.loads(capsys.readouterr().out)
    assert output["equal"] is False
    assert output["java"]["version"].startswith(f"Kafka Streams {VERSION}, Java ")
    assert output["difference"]["inputs"] == [json.loads(kept.read_text("utf-8"))]
    assert output["difference"]["java"]["value"] == {"base64": base64.b64encode((100).to_bytes(8, "big")).decode()}
    assert output["difference"]["python"] is None
