"""Timestamp extractors: what they see and return, and what becomes of invalid timestamps."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from stoatflow import TimestampExtractors as Extractors
from stoatflow.testing import TopologyTestDriver

Given = tuple[str, str, int]


def reading(timestamp: Any) -> sf.Topology:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str, timestamp=timestamp, name="source").to("out")
    return builder.build()


def driver_of(timestamp: Any, start: Any = None) -> TopologyTestDriver:
    return TopologyTestDriver(reading(timestamp), start=start)


def pipe(driver: TopologyTestDriver, *records: Given) -> None:
    """Pipe all records in one batch."""
    source = driver.input("in", str, str)
    with driver.epoch():
        for key, value, timestamp in records:
            source.pipe(key, value, timestamp=timestamp)


def out(driver: TopologyTestDriver) -> dict[str, int]:
    return {str(record.value): record.timestamp for record in driver.output("out", str, str).read_all()}


def place(raised: pytest.ExceptionInfo[sf.errors.StoatFlowError]) -> tuple[Any, ...]:
    at = raised.value.coordinates
    return (at["topic"], at["partition"], at["offset"])


@pytest.mark.parametrize("extractor", [None, Extractors.FAIL_ON_INVALID])
def test_a_negative_timestamp_is_an_error_with_its_place(extractor: Any) -> None:
    with driver_of(extractor) as driver:
        pipe(driver, ("k", "good", 5))
        assert out(driver) == {"good": 5}
        with pytest.raises(sf.errors.StoatFlowError, match="negative timestamp -7") as raised:
            pipe(driver, ("k", "bad", -7))
        assert place(raised) == ("in", 0, 1)


def test_a_negative_time_may_drop_the_record_alone() -> None:
    with driver_of(Extractors.LOG_AND_SKIP) as driver:
        pipe(driver, ("k", "one", 5), ("k", "lost", -7), ("k", "two", 3))
        assert out(driver) == {"one": 5, "two": 3}


def test_a_record_that_is_dropped_moves_no_watermark() -> None:
    seen: list[str] = []

    def watermark(record: Any, current: int | None) -> int:
        seen.append(record.value)
        return int(record.timestamp)

    builder = sf.StreamsBuilder()
    given = {"timestamp": Extractors.LOG_AND_SKIP, "watermark": sf.Watermark.custom(watermark)}
    builder.stream("in", key=str, value=str, **given).to("out")  # type: ignore[call-overload]
    with TopologyTestDriver(builder.build(), {"time.semantics": "watermark"}) as driver:
        pipe(driver, ("k", "one", 5), ("k", "lost", -7), ("k", "two", 9))
        assert out(driver) == {"one": 5, "two": 9}
    assert seen == ["one", "two"]


def test_use_partition_time_falls_back_to_the_highest_timestamp() -> None:
    with driver_of(Extractors.USE_PARTITION_TIME) as driver:
        pipe(driver, ("k", "one", 50), ("k", "earlier", 20), ("k", "none", -7), ("k", "own", 30))
        assert out(driver) == {"one": 50, "earlier": 20, "none": 50, "own": 30}
        pipe(driver, ("k", "later", -1))
        assert out(driver) == {"later": 50}
        driver.crash()
        driver.restart()
        pipe(driver, ("k", "after", -1))
        assert out(driver) == {"after": 50}


def test_use_partition_time_without_a_partition_time_is_an_error() -> None:
    with driver_of(Extractors.USE_PARTITION_TIME) as driver:
        with pytest.raises(sf.errors.StoatFlowError, match="negative timestamp -7") as raised:
            pipe(driver, ("k", "first", -7))
        assert place(raised) == ("in", 0, 0)


def test_wallclock_ignores_the_record_timestamp() -> None:
    with driver_of(Extractors.WALLCLOCK, start=1000) as driver:
        pipe(driver, ("k", "one", 5), ("k", "none", -7))
        driver.advance(500)
        pipe(driver, ("k", "two", 9_999_999))
        assert out(driver) == {"one": 1000, "none": 1000, "two": 1500}


def test_an_extractor_gets_the_record_and_the_partition_time() -> None:
    seen: list[Any] = []

    def extract(record: sf.ConsumedRecord, highest: int) -> int:
        seen.append(
            (record.key, record.value, record.timestamp, record.topic, record.partition, record.offset, highest)
        )
        return int(record.value)

    with driver_of(extract) as driver:
        pipe(driver, ("k", "50", 1), ("j", "20", 2))
        pipe(driver, ("k", "30", -3))
        pipe(driver, ("k", "60", 4))
        assert out(driver) == {"50": 50, "20": 20, "30": 30, "60": 60}
        driver.crash()
        driver.restart()
        pipe(driver, ("k", "40", 5))
        assert out(driver) == {"40": 40}
    assert seen == [
        ("k", "50", 1, "in", 0, 0, -1),
        ("j", "20", 2, "in", 0, 1, 50),
        ("k", "30", -3, "in", 0, 2, 50),
        ("k", "60", 4, "in", 0, 3, 50),
        ("k", "40", 5, "in", 0, 4, 60),
    ]


def test_an_extractor_may_drop_records() -> None:
    def extract(record: sf.ConsumedRecord, highest: int) -> int:
        return -1 if str(record.value).startswith("bad") else record.timestamp

    with driver_of(extract) as driver:
        pipe(driver, ("k", "one", 5), ("k", "bad", 6), ("k", "two", 7), ("k", "bad too", 8))
        assert out(driver) == {"one": 5, "two": 7}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda record, highest: 1 // (len(record.value) - 3), "ZeroDivisionError|division"),
        (lambda record, highest: "late" if len(record.value) == 3 else 1, "str"),
        (lambda record, highest: None if len(record.value) == 3 else 1, "None"),
        (lambda record, highest: 2**70 if len(record.value) == 3 else 1, "1180591620717411303424|int|number"),
    ],
    ids=["raises", "text", "nothing", "too long"],
)
def test_an_error_of_an_extractor_names_its_place(wrong: Callable[[Any, int], Any], message: str) -> None:
    with driver_of(wrong) as driver:
        with pytest.raises(sf.errors.StoatFlowError, match=message) as raised:
            pipe(driver, ("k", "good", 5), ("k", "bad", 6), ("k", "good", 7))
        assert place(raised) == ("in", 0, 1)
        assert "test_extractors.py" in str(raised.value.coordinates["function"])


def test_undecodable_records_reach_their_handler_with_a_valid_timestamp() -> None:
    def extract(record: sf.ConsumedRecord, highest: int) -> int:
        return int(record.value)

    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=int, timestamp=extract, on_error=sf.DLQ("bad"))
    stream.map_values(str).to("out", value=str)
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("in")
        with driver.epoch():
            source.pipe(b"a", (70).to_bytes(8, "big"), timestamp=1)
            source.pipe(b"b", b"short", timestamp=-5)
            source.pipe(b"c", (9).to_bytes(8, "big"), timestamp=2)
        assert out(driver) == {"70": 70, "9": 9}
        bad = driver.output("bad").read_all()
    assert [(record.value, record.timestamp) for record in bad] == [(b"short", 0)]


def error_headers(letter: Any) -> dict[str, str]:
    """The headers of a dead letter."""
    return {name.removeprefix("__stoatflow.errors."): text.decode() for name, text in letter.headers}


@pytest.mark.parametrize("near", [True, False])
def test_records_on_which_an_extractor_fails_go_to_the_handler_of_the_source(near: bool) -> None:
    """Only that record: the ones around it have the same timestamps as without it."""
    seen: list[tuple[str, int]] = []

    def extract(record: sf.ConsumedRecord, highest: int) -> Any:
        seen.append((str(record.value), highest))
        if record.value == "nothing":
            return None
        return int(record.value)

    builder = sf.StreamsBuilder()
    how: Any = {"on_error": sf.DLQ("bad")} if near else {}
    builder.stream("in", key=str, value=str, timestamp=extract, name="source", **how).to("out")
    far: Any = {} if near else {"on_deserialization_error": sf.DLQ("bad")}
    with TopologyTestDriver(builder.build(), on_processing_error=sf.log_and_fail(), **far) as driver:
        pipe(driver, ("k", "10", 1), ("k", "soon", 2), ("k", "nothing", -3), ("k", "30", 4), ("k", "20", 5))
        pipe(driver, ("k", "later", 6), ("k", "40", 7))
        assert out(driver) == {"10": 10, "30": 30, "20": 20, "40": 40}
        bad = driver.output("bad").read_all()
    # The handler was called once for each.
    assert seen == [
        ("10", -1), ("soon", 10), ("nothing", 10), ("30", 10), ("20", 30), ("later", 30), ("40", 30),
    ]  # fmt: skip
    # The timestamp of a letter is that of its record in the topic.
    assert [(letter.value, letter.timestamp) for letter in bad] == [(b"soon", 2), (b"nothing", 0), (b"later", 6)]
    first, second = error_headers(bad[0]), error_headers(bad[1])
    assert (first["kind"], first["node"], first["exception"]) == ("deserialization", "source", "ValueError")
    assert "test_extractors.py" in first["function"]
    assert "invalid literal" in first["traceback"]
    assert (first["topic"], first["partition"], first["offset"]) == ("in", "0", "1")
    assert (second["timestamp"], second["offset"]) == ("-3", "2")
    assert "must return milliseconds as an int, it returned None" in second["message"]


@pytest.mark.parametrize(
    ("extractor", "values"),
    [(None, ["a", "b"]), (Extractors.FAIL_ON_INVALID, ["a", "b"]), (Extractors.USE_PARTITION_TIME, ["a", "none", "b"])],
)
def test_an_invalid_timestamp_goes_to_the_handler(extractor: Any, values: list[str]) -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str, timestamp=extractor, on_error=sf.DLQ("bad")).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        pipe(driver, ("k", "first", -7), ("k", "a", 5), ("k", "none", -1), ("k", "b", 6))
        assert list(out(driver)) == values
        bad = [(letter.value, letter.timestamp) for letter in driver.output("bad").read_all()]
    assert bad[0] == (b"first", 0)
    assert len(bad) == 4 - len(values)


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_record_without_a_timestamp_does_not_advance_stream_time(lanes: int) -> None:
    """Its original one is no event time: it would close other records' windows, whether extractor or serde failed."""
    builder = sf.StreamsBuilder()
    (
        builder.stream("in", key=str, value=int, timestamp=lambda record, highest: record.value, on_error=sf.DLQ("bad"))
        .group_by_key()
        .windowed_by(sf.TimeWindows("10s", grace="0s"))
        .count(store="s")
        .to_stream()
        .map(lambda key, count: (key.key, count))
        .to("out", key=str, value=int)
    )
    far = 10**12
    for settings in ({}, {"time.semantics": "watermark", "watermark.default": "monotonic"}):
        with TopologyTestDriver(builder.build(), settings, lanes=lanes) as driver:
            raw, good = driver.input("in"), driver.input("in", str, int)
            good.pipe("k", 5_000, timestamp=far)
            raw.pipe(b"k", b"short", timestamp=far + 1)
            good.pipe("k", 6_000, timestamp=far)
            assert driver.output("out", str, int).read_values_to_list() == [1, 2]
            assert [letter.timestamp for letter in driver.output("bad").read_all()] == [far + 1]


def test_a_late_record_without_a_time_is_not_late() -> None:
    """Lateness is unknown, so the error handler is called, and not the policy for late records."""

    def extract(record: sf.ConsumedRecord, highest: int) -> int:
        return int(record.value)

    builder = sf.StreamsBuilder()
    how: Any = {"on_error": sf.DLQ("bad"), "late": sf.DLQ("late"), "watermark": sf.Watermark.monotonic()}
    builder.stream(["in", "behind"], key=str, value=str, timestamp=extract, **how).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("behind", str, str).pipe("k", "1")
        driver.input("in", str, str).pipe("k", "100")
        driver.advance_watermark(90)
        driver.input("behind", str, str).pipe("k", "what", timestamp=3)
        driver.input("behind", str, str).pipe("k", "2", timestamp=4)
        assert driver.output("bad", str, str).read_values_to_list() == ["what"]
        assert driver.output("late", str, str).read_values_to_list() == ["2"]


def test_a_watermark_function_skips_records_without_a_timestamp() -> None:
    seen: list[str] = []

    def watermark(record: Any, current: int | None) -> int:
        seen.append(record.value)
        return int(record.timestamp)

    how: Any = {"timestamp": lambda record, highest: int(record.value), "watermark": sf.Watermark.custom(watermark)}
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str, on_error=sf.log_and_continue(), **how).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        pipe(driver, ("k", "5", 1), ("k", "lost", 2), ("k", "9", 3))
    assert seen == ["5", "9"]


def test_a_retry_calls_the_function_again() -> None:
    calls: list[str] = []

    def extract(record: sf.ConsumedRecord, highest: int) -> int:
        calls.append(str(record.value))
        if record.value == "70" and calls.count("70") < 3:
            raise ConnectionError("not yet")
        return int(record.value)

    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str, timestamp=extract, on_error=sf.Retry(3, then=sf.DLQ("bad"))).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        pipe(driver, ("k", "50", 1), ("k", "70", 2), ("k", "60", 3), ("k", "no", 4))
        assert out(driver) == {"50": 50, "70": 70, "60": 60}
        assert [letter.value for letter in driver.output("bad").read_all()] == [b"no"]
    assert calls == ["50", "70", "60", "no", "70", "70", "no", "no", "no"]


def test_a_table_and_a_global_table_have_handlers_for_it_too() -> None:
    builder = sf.StreamsBuilder()
    how: Any = {"key": str, "value": str, "timestamp": lambda record, highest: int(record.value)}
    builder.table("in", store="t", on_error=sf.DLQ("bad"), **how)
    builder.global_table("everywhere", store="g", on_error=sf.log_and_continue(), **how)
    builder.stream("other", key=str, value=str).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        pipe(driver, ("a", "1", 1), ("a", "no", 2), ("b", "2", 3))
        driver.input("everywhere", str, str).pipe_all([("a", "1"), ("a", "no"), ("b", "2")])
        assert dict(driver.store("t").all()) == {"a": "1", "b": "2"}
        assert dict(driver.store("g").all()) == {"a": "1", "b": "2"}
        assert driver.output("bad", str, str).read_value() == "no"


@pytest.mark.parametrize(
    ("serde", "expression", "values"),
    [
        (dict, sf.value["at"].str.to_timestamp(), [{"at": "1970-01-01T00:00:05Z"}, {"at": "1970-01-01T00:00:07Z"}]),
        (dict, sf.value["at"], [{"at": 5000}, {"at": 7000}]),
        (dict, (sf.value["at"] * 1000).cast("int"), [{"at": 5.0}, {"at": 7.0001}]),
        (dict, sf.coalesce(sf.value["at"], sf.timestamp), [{"at": 5000}, {"no": 1}]),
        (int, sf.value, [5000, 7000]),
        (str, sf.value.str.to_int() * 1000, ["5", "7"]),
    ],
    ids=["text", "milliseconds", "seconds", "or its own", "the value", "of a text"],
)
def test_an_expression_extracts_the_timestamp(serde: Any, expression: sf.Expression, values: list[Any]) -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=serde, timestamp=expression).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("in", str, serde)
        with driver.epoch():
            for value in values:
                source.pipe("k", value, timestamp=7000)
        assert [record.timestamp for record in driver.output("out").read_all()] == [5000, 7000]


def test_an_expression_reads_the_key_too_and_sources_of_all_kinds_take_it() -> None:
    builder = sf.StreamsBuilder()
    how: Any = {"key": int, "value": str, "timestamp": sf.key * 10}
    builder.table("t", store="t", **how).to_stream().to("out")
    builder.global_table("g", store="g", **how)
    builder.stream(["a", "b"], consumed=sf.Consumed(int, str, timestamp=sf.key * 10)).to("out", name="sink")
    with TopologyTestDriver(builder.build()) as driver:
        for topic in ("t", "g", "a", "b"):
            driver.input(topic, int, str).pipe(7, topic, timestamp=1)
        assert out(driver) == {"t": 70, "a": 70, "b": 70}
    topology = sf.Topology()
    topology.add_source("source", "c", key=int, value=str, timestamp=sf.key * 10)
    topology.add_sink("sink", "out", parents=["source"], key=int, value=str)
    with TopologyTestDriver(topology) as driver:
        driver.input("c", int, str).pipe(7, "c", timestamp=1)
        assert out(driver) == {"c": 70}


@pytest.mark.parametrize("near", [True, False])
def test_records_on_which_an_expression_fails_go_to_the_handler_of_the_source(near: bool) -> None:
    builder = sf.StreamsBuilder()
    how: Any = {"on_error": sf.DLQ("bad")} if near else {}
    at = sf.value["at"].str.to_timestamp()
    builder.stream("in", key=str, value=dict, timestamp=at, **how).to("out")
    far: Any = {} if near else {"on_deserialization_error": sf.DLQ("bad")}
    bad = [b'{"at": "soon"}', b'{"at": 7}', b"{}", b"7", b'{"at": "1970-01-01T00:00:09Z"']
    with TopologyTestDriver(builder.build(), on_processing_error=sf.log_and_fail(), **far) as driver:
        raw = driver.input("in")
        with driver.epoch():
            raw.pipe(b"k", b'{"at": "1970-01-01T00:00:05Z"}', timestamp=10**12)
            for value in bad:
                raw.pipe(b"k", value, timestamp=10**12)
            raw.pipe(b"k", b'{"at": "1970-01-01T00:00:04Z"}', timestamp=10**12)
            raw.pipe(b"k", b'{"at": "1969-12-31T23:59:59Z"}', timestamp=10**12)
        assert [record.timestamp for record in driver.output("out").read_all()] == [5000, 4000]
        letters = driver.output("bad").read_all()
    assert [letter.value for letter in letters] == bad
    assert {error_headers(letter)["kind"] for letter in letters} == {"deserialization"}
    messages = [error_headers(letter)["message"] for letter in letters]
    assert "soon" in messages[0]
    assert "the expression of a timestamp gave null" in messages[2]
    assert "not well-formed JSON" in messages[4]
    assert "sf.value['at']" in error_headers(letters[2])["function"].replace('"', "'")


def test_without_a_handler_the_error_names_place_and_next_step() -> None:
    with driver_of(sf.value.str.to_int(strict=False)) as driver:
        with pytest.raises(sf.errors.StoatFlowError, match=r"gave null.*sf\.coalesce") as raised:
            pipe(driver, ("k", "5", 1), ("k", "five", 2))
        assert place(raised) == ("in", 0, 1)
        assert "test_extractors.py" in str(raised.value.coordinates["function"])


@pytest.mark.parametrize(
    ("expression", "match"),
    [
        (sf.value.str.lower(), "it gives str, but a timestamp is milliseconds"),
        (sf.value == "a", "it gives bool"),
        (sf.value.cast("float"), "it gives float.*cast"),
        (sf.lit(None), "it gives null"),
        (sf.new, "reads sf.new, which isn't there"),
        (sf.value + 1, "str"),
    ],
)
def test_an_expression_that_is_no_timestamp_is_refused(expression: sf.Expression, match: str) -> None:
    with pytest.raises(sf.errors.TopologyError, match=match):
        reading(expression)


def test_each_partition_has_a_time_of_its_own() -> None:
    builder = sf.StreamsBuilder()
    for topic in ("one", "two"):
        stream = builder.stream(topic, key=str, value=str, timestamp=Extractors.USE_PARTITION_TIME)
        stream.to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("one", str, str).pipe("k", "a", timestamp=50)
        driver.input("two", str, str).pipe("k", "b", timestamp=20)
        driver.input("one", str, str).pipe("k", "c", timestamp=-1)
        driver.input("two", str, str).pipe("k", "d", timestamp=-1)
        assert out(driver) == {"a": 50, "b": 20, "c": 50, "d": 20}


def test_windows_use_the_extracted_timestamp() -> None:
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=int, timestamp=lambda record, highest: record.value)
    stream.group_by_key().windowed_by(sf.TimeWindows.of_size_with_no_grace("10s")).count(store="s").to_stream().map(
        lambda key, value: (key.key, key.window.start), name="start"
    ).to("out", key=str, value=int)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, int).pipe_all([("k", 5), ("k", 12_000), ("k", 13_000), ("k", 25_000)])
        starts = driver.output("out", str, int).read_values_to_list()
    assert starts == [0, 10_000, 10_000, 20_000]


@pytest.mark.parametrize("extractor", [Extractors.LOG_AND_SKIP, lambda record, highest: record.timestamp])
def test_dropped_records_are_counted(extractor: Any, tmp_path: Path) -> None:
    config = sf.Settings({"application.id": "times", "state.dir": str(tmp_path / "state")}, environ={})
    with sf.EmbeddedBroker(tmp_path / "broker") as broker:
        broker.create_topic("in")
        broker.create_topic("out")
        for value, timestamp in ((b"a", 5), (b"lost", -7), (b"lost too", -1), (b"b", 6)):
            broker.produce("in", b"k", value, timestamp)
        with sf.StoatFlow(reading(extractor), config, broker=broker) as app:
            deadline = time.monotonic() + 60
            while len(list(broker.read("out"))) < 2:
                assert time.monotonic() < deadline, "waited in vain"
                time.sleep(0.01)
            dropped = app.metrics()["dropped"]
        assert [record.value for record in broker.read("out")] == [b"a", b"b"]
    assert [(row["node"], row["reason"], row["count"]) for row in dropped] == [("source", "negative_timestamp", 2)]
