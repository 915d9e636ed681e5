"""The test driver runs the engine: topics, times, stores, crashes, errors of user functions."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timezone

import pytest

import stoatflow as sf
from stoatflow.record_context import Headers, RecordContext
from stoatflow.testing import Record, TopologyTestDriver


def word_count() -> sf.Topology:
    builder = sf.StreamsBuilder()
    lines = builder.stream("lines", key=str, value=str)
    counts = lines.flat_map_values(str.split).group_by(sf.value, key=str).count(store="counts")
    counts.to_stream().to("counts", key=str, value=int)
    return builder.build()


@pytest.fixture
def driver() -> Iterator[TopologyTestDriver]:
    with TopologyTestDriver(word_count()) as made:
        yield made


def test_word_count(driver: TopologyTestDriver) -> None:
    lines, counts = driver.input("lines", str, str), driver.output("counts", str, int)
    lines.pipe("a b a", timestamp=5)
    assert len(counts) == 3
    assert counts.read() == Record("a", 1, 5)
    assert counts.read_value() == 1
    assert counts.read_key_value() == ("a", 2)
    assert counts.is_empty
    with pytest.raises(LookupError, match="no record is left in the topic 'counts'"):
        counts.read()
    lines.pipe_all(["b", ("k", "c"), Record("k", "a", 9)])
    assert counts.to_dict() == {"b": 2, "c": 1, "a": 3}
    assert driver.produced_topics == ["counts"]


def test_store(driver: TopologyTestDriver) -> None:
    driver.input("lines", str, str).pipe("c a b a", timestamp=3)
    counts = driver.store("counts")
    assert counts.get("a") == 2
    assert counts.get("x") is None
    assert counts.all() == {"a": 2, "b": 1, "c": 1}
    assert list(counts) == ["a", "b", "c"]
    assert counts.range("b") == {"b": 1, "c": 1}
    assert counts.range("a", "b") == {"a": 2, "b": 1}
    assert len(counts) == 3
    assert "a" in counts
    assert "x" not in counts
    entry = counts.entry("a")
    assert entry is not None
    assert entry.timestamp == 3
    with pytest.raises(sf.TopologyError, match="no store is named 'count'") as caught:
        driver.store("count")
    assert "counts" in caught.value.next_step


def test_two_readers_share_a_topic(driver: TopologyTestDriver) -> None:
    one, two = (driver.output("counts", str, int) for _ in range(2))
    driver.input("lines", str, str).pipe("a b")
    assert one.read().key == "a"
    assert [record.key for record in two.read_all()] == ["b"]
    assert one.is_empty


def test_timestamps() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in").to("out")
    start = datetime(2024, 1, 1, tzinfo=timezone.utc)
    with TopologyTestDriver(builder.build(), start=start) as driver:
        ms = int(start.timestamp() * 1000)
        out = driver.output("out")
        plain = driver.input("in")
        plain.pipe(b"1")
        driver.advance("2s")
        driver.advance(5)
        plain.pipe(b"2")
        stepping = driver.input("in", start=100, advance="10ms")
        stepping.pipe(b"3")
        stepping.pipe(b"4")
        stepping.pipe(b"5", timestamp=7)
        stepping.advance_time("1s")
        stepping.pipe(b"6")
        plain.pipe_all([b"7", b"8"], start=50, advance="1ms")
        assert [r.timestamp for r in out.read_all()] == [ms, ms + 2005, 100, 110, 7, 1120, 50, 51]
        with pytest.raises(ValueError, match="go back"):
            driver.advance(-1)


def test_headers_and_nulls_pass_through() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("in", str, str)
        source.pipe("k", None, timestamp=1, headers=[("h", b"\xff"), ("h", None), ("t", "text")])
        source.pipe(None, "v", timestamp=2, headers={"one": "x"})
        assert driver.output("out", str, str).read_all() == [
            Record("k", None, 1, (("h", b"\xff"), ("h", None), ("t", b"text"))),
            Record(None, "v", 2, (("one", b"x"),)),
        ]


def test_names_of_the_java_driver(driver: TopologyTestDriver) -> None:
    lines = driver.create_input_topic("lines", str, str)
    counts = driver.create_output_topic("counts", str, int)
    lines.pipe_input("a")
    lines.pipe_value_list(["a", "b"])
    lines.pipe_key_value_list([("k", "a")])
    assert counts.queue_size == 4
    assert counts.read_record().value == 1
    assert counts.read_records_to_list()[0] == Record("a", 2, 0)
    lines.pipe_input("k", "a b")
    assert counts.read_key_values_to_map() == {"a": 4, "b": 2}
    lines.pipe_input("a")
    assert counts.read_key_values_to_list() == [("a", 5)]
    lines.pipe_input("a")
    assert counts.read_values_to_list() == [6]
    assert driver.get_key_value_store("counts").get("a") == 6


def test_a_crash_loses_nothing_that_was_processed(driver: TopologyTestDriver) -> None:
    lines, counts = driver.input("lines", str, str), driver.output("counts", str, int)
    lines.pipe("a a")
    driver.crash()
    driver.restart(lanes=3)
    lines.pipe("a")
    assert counts.read_values_to_list() == [1, 2, 3]
    assert driver.store("counts").all() == {"a": 3}
    driver.barrier()
    driver.crash()
    driver.restart()
    lines.pipe("a")
    assert counts.read_values_to_list() == [4]


def test_a_failing_function_is_named() -> None:
    def divide(value: int) -> int:
        return 1 // value

    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=int).map_values(divide).to("out", value=int)
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("in", str, int)
        source.pipe(1)
        with pytest.raises(sf.ProcessingError) as caught:
            source.pipe(0)
    error = caught.value
    assert isinstance(error.__cause__, ZeroDivisionError)
    function = str(error.coordinates["function"])
    assert function.endswith(f"test_driver.py:{divide.__code__.co_firstlineno} divide")
    assert (error.coordinates["topic"], error.coordinates["partition"], error.coordinates["offset"]) == ("in", 0, 1)
    assert error.next_step in str(error)


def test_text_from_flat_map_values_is_refused() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).flat_map_values(lambda value: value).to("out", value=str)
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(sf.ProcessingError):
        driver.input("in", str, str).pipe("abc")


def test_wrong_value_for_a_topic(driver: TopologyTestDriver) -> None:
    with pytest.raises(sf.SerdeError, match="the serde 'string' can't write 5"):
        driver.input("lines", str, str).pipe(5)  # type: ignore[call-overload]


def test_custom_serdes_reach_stores() -> None:
    class Reversed(sf.Serde[str]):
        def serialize(self, value: str) -> bytes:
            return value[::-1].encode()

        def deserialize(self, data: bytes) -> str:
            return data.decode()[::-1]

    serde = Reversed()
    builder = sf.StreamsBuilder()
    table = (
        builder.stream("in", key=serde, value=serde).group_by_key().reduce(lambda agg, value: agg + value, store="s")
    )
    table.to_stream().to("out", key=str, value=serde)
    with TopologyTestDriver(builder.build()) as driver:
        source, out = driver.input("in", serde, serde), driver.output("out", str, bytes)
        source.pipe("key", "ab")
        source.pipe("key", "cd")
        assert out.read_key_values_to_list() == [("key", b"ba"), ("key", b"dcba")]
        assert driver.store("s").all() == {"key": "abcd"}


@pytest.mark.parametrize("lanes", [0, -1, True, 1.5])
def test_wrong_lanes(lanes: int) -> None:
    with pytest.raises(sf.ConfigError, match="lanes must be a whole number"):
        TopologyTestDriver(word_count(), lanes=lanes)


def test_the_environment_does_not_reach_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOATFLOW_NO_SUCH_SETTING", "1")
    TopologyTestDriver(word_count()).close()


def test_an_epoch_of_several_records(driver: TopologyTestDriver) -> None:
    lines, counts = driver.input("lines", str, str), driver.output("counts", str, int)
    with driver.epoch():
        lines.pipe("a b", timestamp=1)
        lines.pipe("a", timestamp=2)
        assert counts.is_empty, "nothing is committed yet"
    assert [(r.key, r.value) for r in counts] == [("a", 1), ("b", 1), ("a", 2)]
    lines.pipe("b")
    assert counts.read_key_value() == ("b", 2), "a barrier after each record again"


def test_an_epoch_that_crashes_is_read_again(driver: TopologyTestDriver) -> None:
    lines, counts = driver.input("lines", str, str), driver.output("counts", str, int)
    with driver.epoch():
        lines.pipe("a")
        lines.pipe("a")
        driver.crash()
        assert counts.is_empty
        driver.restart(lanes=3)
    assert [r.value for r in counts] == [1, 2]
    assert driver.store("counts").get("a") == 2


def test_an_epoch_keeps_the_order_between_topics() -> None:
    builder = sf.StreamsBuilder()
    builder.stream(["one", "two"], key=str, value=str).to("out", key=str, value=str)
    with TopologyTestDriver(builder.build()) as driver:
        one, two = driver.input("one", str, str), driver.input("two", str, str)
        with driver.epoch():
            one.pipe("first", timestamp=9)
            two.pipe("second", timestamp=1)
            one.pipe("third", timestamp=5)
        assert [r.value for r in driver.output("out", str, str)] == ["first", "second", "third"]


def test_a_function_chooses_the_topic() -> None:
    builder = sf.StreamsBuilder()
    seen = []

    def choose(key: str, value: str, context: RecordContext) -> str:
        seen.append(context)
        return f"{context.topic}-{value}"

    builder.stream("in", key=str, value=str).to(choose, key=str, value=str)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, str).pipe("k", "a", timestamp=7, headers=[("h", b"1"), ("n", None)])
        driver.input("in", str, str).pipe("k", "b", timestamp=8)
        assert driver.produced_topics == ["in-a", "in-b"]
        assert driver.output("in-a", str, str).read() == Record("k", "a", 7, (("h", b"1"), ("n", None)))
    assert seen[0] == RecordContext("in", 0, 0, 7, (("h", b"1"), ("n", None)))
    assert seen[1] == RecordContext("in", 0, 1, 8, ())


@pytest.mark.parametrize("low_level", [False, True])
def test_a_partitioner_may_get_the_headers(low_level: bool) -> None:
    seen: list[object] = []

    def by_tenant(topic: str, headers: Headers, key: str, value: str, partitions: int) -> list[int] | None:
        seen.append((topic, headers, key, value, partitions))
        return [0] if dict(headers).get("tenant") else []

    if low_level:
        topology = sf.Topology().add_source("source", "in", key=str, value=str)
        topology.add_sink(
            "sink", "out", "source", key=str, value=str, partitioner=by_tenant, partitioner_with_headers=True
        )
    else:
        builder = sf.StreamsBuilder()
        stream = builder.stream("in", key=str, value=str)
        stream.to("out", key=str, value=str, partitioner=by_tenant, partitioner_with_headers=True)
        topology = builder.build()
    with TopologyTestDriver(topology) as driver:
        source = driver.input("in", str, str)
        source.pipe("k", "a", headers=[("tenant", b"x"), ("tenant", None), ("tenant", b"y")])
        source.pipe("k", "b")
        assert [record.value for record in driver.output("out", str, str)] == ["a"]
    assert seen == [
        ("out", (("tenant", b"x"), ("tenant", None), ("tenant", b"y")), "k", "a", 1),
        ("out", (), "k", "b", 1),
    ]


def test_a_partitioner_with_the_wrong_parameters_is_told_the_right_ones() -> None:
    stream = sf.StreamsBuilder().stream("in", key=str, value=str)
    with pytest.raises(sf.TopologyError) as caught:
        stream.to("out", partitioner=lambda topic, headers, key, value, partitions: None)  # type: ignore[call-overload, misc]
    assert caught.value.next_step.endswith("write to(..., partitioner_with_headers=True)")
    with pytest.raises(sf.TopologyError, match=r"with \(topic, headers, key, value, partitions\), but"):
        stream.to(  # type: ignore[call-overload]
            "out", partitioner=lambda topic, key, value, partitions: None, partitioner_with_headers=True
        )
    with pytest.raises(sf.TopologyError, match="does not take an expression"):
        stream.to("out", partitioner=sf.value, partitioner_with_headers=True)  # type: ignore[call-overload]
    with pytest.raises(sf.TopologyError, match=r"needs a function of \(topic, headers, key, value, partitions\)"):
        stream.to("out", partitioner_with_headers=True)  # type: ignore[call-overload]


@pytest.mark.parametrize("topic", [None, "", 5])
def test_a_topic_must_be_a_name(topic: object) -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).to(lambda k, v, context: topic, key=str, value=str)  # type: ignore[arg-type,return-value]
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(sf.ProcessingError, match="topic") as caught:
        driver.input("in", str, str).pipe("k", "a")
    assert caught.value.next_step


def test_a_partitioner() -> None:
    builder = sf.StreamsBuilder()
    calls = []

    def part(topic: str, key: str, value: str, partitions: int) -> list[int] | None:
        calls.append((topic, key, value, partitions))
        return {"default": None, "nowhere": [], "here": [0], "beyond": [1]}[value]

    builder.stream("in", key=str, value=str).to("out", key=str, value=str, partitioner=part)
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.input("in", str, str)
        for value in ("default", "nowhere", "here"):
            topic.pipe("k", value)
        assert [r.value for r in driver.output("out", str, str)] == ["default", "here"]
        assert calls[0] == ("out", "k", "default", 1)
        with pytest.raises(sf.ProcessingError, match="partition 1 of the topic out, which has 1"):
            topic.pipe("k", "beyond")


def test_a_mistyped_input_topic_names_the_right_one() -> None:
    builder = sf.StreamsBuilder()
    builder.stream(["orders", "users"], key=str, value=str).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        for topic, step in (
            ("order", "write to 'orders', which it reads"),
            ("elsewhere", "write to one that it reads: 'orders', 'users'"),
        ):
            with pytest.raises(sf.MissingTopicError, match=f"the topology doesn't read the topic '{topic}'") as caught:
                driver.input(topic, str, str).pipe("k", "v")
            assert caught.value.next_step == step
        driver.input("orders", str, str).pipe("k", "v")
        assert driver.output("out", str, str).read_value() == "v"


def test_a_forgotten_to_is_found_by_reading_its_topic() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("orders", key=str, value=str).map_values(str.upper)
    with TopologyTestDriver(builder.build()) as driver:
        with pytest.raises(sf.TopologyError, match="writes to no topic: nothing reads the results of map_values") as at:
            driver.output("out", str, str)
        assert "test_driver.py:" in at.value.message
        assert at.value.next_step == 'end it with .to("out")'
    with TopologyTestDriver(builder.build(), {"deserialization.exception.handler": "dlq:bad"}) as driver:
        assert driver.output("bad").is_empty, "dead letters may come"
    builder.stream("users", key=str, value=str).foreach(print)
    with TopologyTestDriver(builder.build()) as driver, pytest.raises(sf.TopologyError, match="map_values"):
        driver.output("out")
    effects = sf.StreamsBuilder()
    effects.stream("users", key=str, value=str).foreach(print)
    with TopologyTestDriver(effects.build()) as driver:
        assert driver.output("out").is_empty
