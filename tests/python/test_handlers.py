"""Records that fail: per application, source and operator; dead letters belong to the transaction."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.dlq.dead_letter import read
from stoatflow.testing import TopologyTestDriver


def number(value: str) -> int:
    if value == "boom":
        raise ValueError(f"no number: {value}")
    return int(value)


def build(shape: Callable[[sf.KStream[str, str]], sf.KStream[Any, Any]], **source: Any) -> sf.Topology:
    builder = sf.StreamsBuilder()
    shape(builder.stream("in", key=str, value=str, **source)).to("out", key=str, value=str)
    return builder.build()


def run(topology: sf.Topology, *values: Any, lanes: int = 1, **handlers: Any) -> tuple[list[Any], list[Any]]:
    """Give what came out, and the dead letters."""
    with TopologyTestDriver(topology, lanes=lanes, **handlers) as driver:
        source = driver.input("in", key=str, value=str)
        with driver.epoch():
            for at, value in enumerate(values):
                source.pipe(f"k{at}", value, timestamp=1000 + at)
        return driver.output("out").read_all(), driver.output("bad").read_all()


def error_headers(record: Any) -> dict[str, str]:
    """Give what a dead letter says of itself."""
    prefix = "__stoatflow.errors."
    return {name.removeprefix(prefix): text.decode() for name, text in record.headers if name.startswith(prefix)}


def test_log_and_continue_leaves_the_record_out() -> None:
    topology = build(lambda s: s.map_values(number).map_values(str))
    out, _ = run(topology, "1", "boom", "3", on_processing_error=sf.log_and_continue())
    assert [record.value for record in out] == [b"1", b"3"]


def test_without_a_handler_the_application_fails() -> None:
    topology = build(lambda s: s.map_values(number).map_values(str))
    with pytest.raises(sf.errors.ProcessingError, match="no number"):
        run(topology, "1", "boom")


def test_a_dead_letter_has_the_input_and_the_error() -> None:
    topology = build(lambda s: s.map_values(number, on_error=sf.DLQ("bad"), name="parse").map_values(str))
    out, bad = run(topology, "1", "boom", "3")
    assert [record.value for record in out] == [b"1", b"3"]
    (letter,) = bad
    assert (letter.key, letter.value, letter.timestamp) == (b"k1", b"boom", 1001)
    headers = error_headers(letter)
    assert headers["application"] == "test"
    assert headers["kind"] == "processing"
    assert headers["node"] == "parse"
    assert "test_handlers.py" in headers["function"]
    assert headers["exception"] == "ValueError"
    assert headers["message"] == "no number: boom"
    assert 'raise ValueError(f"no number' in headers["traceback"]
    assert (headers["topic"], headers["partition"], headers["offset"]) == ("in", "0", "1")
    assert headers["attempts"] == "1"


def test_a_dead_letter_has_the_headers_of_kafka_streams_on_request() -> None:
    topology = build(lambda s: s.map_values(number, on_error=sf.DLQ("bad"), name="parse").map_values(str))

    def headers(settings: dict[str, str]) -> list[tuple[str, str]]:
        with TopologyTestDriver(topology, settings) as driver:
            driver.input("in", key=str, value=str).pipe("k", "boom", headers=[("own", b"1")])
            return [(name, (text or b"").decode()) for name, text in driver.output("bad").read().headers]

    plain = headers({})
    both = headers({"errors.dead.letter.queue.headers": "kafka-streams"})
    theirs = {name.removeprefix("__streams.errors."): text for name, text in both if name.startswith("__streams.")}
    assert [each for each in both if not each[0].startswith("__streams.")] == plain
    assert both[0] == ("own", "1")
    reported = dict(plain)
    assert theirs == {
        "exception": "ValueError: no number: boom",
        "message": "no number: boom",
        "stacktrace": reported["__stoatflow.errors.traceback"],
        "topic": "in",
        "partition": "0",
        "offset": "0",
    }
    found = read(0, 0, 0, b"k", b"boom", [(name, text.encode()) for name, text in both])
    assert found == read(0, 0, 0, b"k", b"boom", [(name, text.encode()) for name, text in plain])
    assert found is not None
    assert found.headers == (("own", b"1"),)


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_dead_letter_of_a_later_stage_has_the_bytes_of_the_input(lanes: int) -> None:
    def later(stream: sf.KStream[str, str]) -> sf.KStream[Any, Any]:
        table = (
            stream.map_values(lambda value: value + "!")
            .group_by(lambda key, value: value[0], key=str)
            .aggregate(
                lambda: 0, lambda key, value, agg: agg + number(value[:-1]), store="sums", value=int, on_error="dlq:bad"
            )
        )
        return table.to_stream().map_values(str)

    out, bad = run(build(later), "11", "boom", "12", lanes=lanes)
    assert [record.value for record in out] == [b"11", b"23"]
    assert [(record.key, record.value) for record in bad] == [(b"k1", b"boom")]
    assert error_headers(bad[0])["offset"] == "1"


def test_the_nearest_handler_wins() -> None:
    topology = build(lambda s: s.map_values(number, on_error=sf.log_and_continue()).map_values(str))
    _, bad = run(topology, "boom", on_processing_error=sf.DLQ("bad"))
    assert bad == []
    topology = build(lambda s: s.map_values(number, on_error=sf.log_and_fail()).map_values(str))
    with pytest.raises(sf.errors.ProcessingError):
        run(topology, "boom", on_processing_error=sf.DLQ("bad"))


@pytest.mark.parametrize("word", ["log_and_continue", "org.apache.kafka.streams.errors.LogAndContinueExceptionHandler"])
def test_settings_name_handlers(word: str) -> None:
    topology = build(lambda s: s.map_values(number).map_values(str))
    with TopologyTestDriver(topology, {"processing.exception.handler": word}) as driver:
        driver.input("in", key=str, value=str).pipe("k", "boom")
        assert driver.output("out").is_empty


def test_a_setting_may_name_a_dead_letter_topic() -> None:
    topology = build(lambda s: s.map_values(number).map_values(str))
    with TopologyTestDriver(topology, {"processing.exception.handler": "dlq:bad"}) as driver:
        driver.input("in", key=str, value=str).pipe("k", "boom")
        assert driver.output("bad", key=str, value=str).read().value == "boom"


def test_a_wrong_setting_suggests_valid_values() -> None:
    with pytest.raises(sf.errors.ConfigError, match="write log_and_fail, log_and_continue or dlq:TOPIC"):
        sf.Settings({"application.id": "a", "bootstrap.servers": "x:1", "processing.exception.handler": "skip"}).check()


def numbers(**source: Any) -> sf.Topology:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=int, **source).map_values(str).to("out", key=str, value=str)
    return builder.build()


@pytest.mark.parametrize("near", [True, False])
def test_undecodable_records_go_to_the_handler_of_the_source(near: bool) -> None:
    topology = numbers(on_error=sf.DLQ("bad")) if near else numbers()
    far = {} if near else {"on_deserialization_error": sf.DLQ("bad")}
    with TopologyTestDriver(topology, on_processing_error=sf.log_and_fail(), **far) as driver:
        raw = driver.input("in")
        with driver.epoch():
            raw.pipe(b"a", (7).to_bytes(8, "big"))
            raw.pipe(b"b", b"short")
            raw.pipe(b"c", (8).to_bytes(8, "big"))
        assert driver.output("out", key=str, value=str).read_values_to_list() == ["7", "8"]
        letter = driver.output("bad").read()
        assert (letter.key, letter.value) == (b"b", b"short")
        assert error_headers(letter)["kind"] == "deserialization"


def test_consumed_carries_a_handler() -> None:
    consumed = sf.Consumed(str, int, on_error=sf.log_and_continue())
    builder = sf.StreamsBuilder()
    builder.stream("in", consumed=consumed).to("out", key=str, value=int)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in").pipe(b"a", b"short")
        assert driver.output("out").is_empty


def test_an_extractor_does_not_get_undecodable_records() -> None:
    """Nor does the time that it gives for another record become that of one that it didn't see."""
    seen: list[Any] = []

    def extract(record: Any, before: int) -> int:
        seen.append(record.value)
        return int(record.value)

    def number(value: int) -> bytes:
        return value.to_bytes(8, "big")

    with TopologyTestDriver(numbers(on_error=sf.DLQ("bad"), timestamp=extract)) as driver:
        raw = driver.input("in")
        with driver.epoch():
            raw.pipe_all(
                [(b"a", number(7)), (b"b", b"short"), (b"c", number(9)), (b"d", b"shorter"), (b"e", number(8))]
            )
        raw.pipe(b"f", b"short too", timestamp=5)
        assert [record.timestamp for record in driver.output("out").read_all()] == [7, 9, 8]
        bad = driver.output("bad").read_all()
    assert [record.value for record in bad] == [b"short", b"shorter", b"short too"]
    assert bad[2].timestamp == 5
    assert seen == [7, 9, 8]


def test_serialization_errors_go_to_the_production_handler() -> None:
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=str).map_values(lambda v: int(v) if v.isdigit() else v)
    stream.to("out", key=str, value=int)
    topology = builder.build()
    out, bad = run(topology, "1", "one", "2", on_production_error=sf.DLQ("bad"))
    assert [record.value for record in out] == [(1).to_bytes(8, "big"), (2).to_bytes(8, "big")]
    assert [record.value for record in bad] == [b"one"]
    assert error_headers(bad[0])["kind"] == "production"
    with pytest.raises(sf.errors.StoatFlowError):
        run(topology, "1", "one", on_processing_error=sf.log_and_continue())


def test_a_record_too_large_goes_to_the_production_handler() -> None:
    topology = build(lambda s: s.map_values(lambda v: v * 1000, name="grow"))
    settings = {"producer.message.max.bytes": 5000}
    with TopologyTestDriver(topology, settings, on_production_error=sf.DLQ("bad")) as driver:
        source = driver.input("in", key=str, value=str)
        source.pipe("a", "x")
        source.pipe("b", "xxxxxxxxx")
        assert driver.output("out").read_all()[0].key == b"a"
        letter = driver.output("bad").read()
        assert letter.value == b"xxxxxxxxx"
        assert "larger than the producer may send" in error_headers(letter)["message"]


def test_a_retry_calls_again_and_then_applies_its_fallback() -> None:
    calls: list[str] = []

    def flaky(value: str) -> str:
        calls.append(value)
        if calls.count(value) < int(value):
            raise ConnectionError(value)
        return value

    handler = sf.Retry(2, backoff="50ms", then=sf.DLQ("bad"))
    out, bad = run(build(lambda s: s.map_values(flaky, on_error=handler)), "1", "3", "9", "0")
    assert [record.value for record in out] == [b"1", b"3", b"0"]
    assert [record.value for record in bad] == [b"9"]
    assert calls == ["1", "3", "3", "3", "9", "9", "9", "0"]
    assert error_headers(bad[0])["attempts"] == "3"


class FlakySerde(sf.Serde[str]):
    """Can't write a key the first time."""

    def __init__(self) -> None:
        self.tried: set[str] = set()

    def serialize(self, value: str | None) -> bytes | None:
        if value is not None and value not in self.tried:
            self.tried.add(value)
            raise ConnectionError(value)
        return None if value is None else value.encode()

    def deserialize(self, data: bytes | None) -> str | None:
        return None if data is None else data.decode()


@pytest.mark.parametrize("cache", [0, 1_000_000])
def test_a_key_that_is_written_at_the_second_try_is_counted_once(cache: int) -> None:
    builder = sf.StreamsBuilder()
    words = builder.stream("in", key=str, value=str).group_by(lambda key, value: value[0], key=FlakySerde(), value=str)
    words.count(store="counts").to_stream().to("out", value=int)
    settings = {"statestore.cache.max.bytes": cache}
    with TopologyTestDriver(builder.build(), settings, on_production_error=sf.Retry(1, then="log_and_fail")) as driver:
        source = driver.input("in", key=str, value=str)
        with driver.epoch():
            for value in ("x1", "x2", "y3"):
                source.pipe("k", value)
        counts = driver.output("out", str, int).read_key_values_to_map()
    assert counts == {"x": 2, "y": 1}


def test_a_callable_gets_the_error_and_decides() -> None:
    reported: list[tuple[sf.ErrorContext, Any, BaseException]] = []

    def decide(context: sf.ErrorContext, record: Any, exception: BaseException) -> sf.ErrorHandler | str:
        reported.append((context, record, exception))
        return sf.DLQ("bad") if record.key == "k1" else "log_and_continue"

    topology = build(lambda s: s.map_values(number, name="parse", on_error=sf.Decide(decide, ["bad"])).map_values(str))
    out, bad = run(topology, "boom", "boom", "2")
    assert [record.value for record in out] == [b"2"]
    assert [record.key for record in bad] == [b"k1"]
    context, record, exception = reported[1]
    assert (context.kind, context.node, context.topic, context.offset) == ("processing", "parse", "in", 1)
    assert (context.attempt, context.lane) == (1, 0)
    assert (record.key, record.value, record.timestamp) == ("k1", "boom", 1001)
    assert isinstance(exception, ValueError)
    assert "ValueError: no number: boom" in context.traceback


def test_a_callable_at_a_source_sees_the_bytes() -> None:
    seen: list[Any] = []

    def decide(context: sf.ErrorContext, record: Any, exception: BaseException) -> str:
        seen.append((context.source_raw_key, context.source_raw_value, record.value, type(exception).__name__))
        return "log_and_continue"

    with TopologyTestDriver(numbers(on_error=decide)) as driver:
        driver.input("in").pipe(b"a", b"short")
    assert seen == [(b"a", b"short", b"short", "SerdeError")]


def test_a_callable_that_names_a_missing_topic_stops_the_application() -> None:
    topology = build(lambda s: s.map_values(number, on_error=lambda c, r, e: sf.DLQ("nowhere")).map_values(str))
    with pytest.raises(sf.errors.StoatFlowError, match="no such topic"):
        run(topology, "boom")


@pytest.mark.parametrize(("answer", "why"), [(None, "gave None"), ("perhaps", "gave 'perhaps'")])
def test_a_callable_with_an_invalid_result_stops_the_application(answer: Any, why: str) -> None:
    topology = build(lambda s: s.map_values(number, on_error=lambda c, r, e: answer).map_values(str))
    with pytest.raises(sf.errors.ProcessingError, match=why):
        run(topology, "boom")


def test_a_key_stays_as_it_was_before_a_failed_step() -> None:
    def add(key: str, value: str, agg: list[int]) -> list[int]:
        agg.append(0)
        agg[-1] = number(value)
        return agg

    lists = sf.Serdes.json(decode="dict")
    builder = sf.StreamsBuilder()
    grouped = builder.stream("in", key=str, value=str).group_by(lambda key, value: "all", key=str)
    grouped.aggregate(list, add, store="all", value=lists, on_error=sf.log_and_continue()).to_stream().to(
        "out", key=str, value=list
    )
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("in", key=str, value=str)
        with driver.epoch():
            for value in ("1", "boom", "2"):
                source.pipe("k", value)
        source.pipe("k", "boom")
        source.pipe("k", "3")
        assert driver.output("out", key=str, value=list).read_values_to_list() == [[1], [1, 2], [1, 2, 3]]


def test_an_unwritable_aggregate_goes_to_the_handler() -> None:
    builder = sf.StreamsBuilder()
    grouped = builder.stream("in", key=str, value=str).group_by_key()
    grouped.reduce(lambda agg, value: agg + value if value != "x" else 7, store="all", on_error="dlq:bad")  # type: ignore[arg-type,return-value]
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("in", key=str, value=str)
        for value in ("a", "x", "b"):
            source.pipe("k", value)
        assert driver.store("all").get("k") == "ab"
        assert driver.output("bad", key=str, value=str).read_values_to_list() == ["x"]


WINDOWS: dict[str, Callable[[sf.KGroupedStream[str, str]], Any]] = {
    "tumbling": lambda g: g.windowed_by(sf.TimeWindows("10s", grace="0s")),
    "sliding": lambda g: g.windowed_by(sf.SlidingWindows("10s", grace="0s")),
    "session": lambda g: g.windowed_by(sf.SessionWindows("10s", grace="0s")),
    "count": lambda g: g.windowed_by(sf.CountWindows(2)),
}


@pytest.mark.parametrize("kind", WINDOWS)
def test_a_failed_record_leaves_windows_unchanged(kind: str) -> None:
    def results(*values: str) -> list[tuple[Any, Any]]:
        builder = sf.StreamsBuilder()
        windowed = WINDOWS[kind](builder.stream("in", key=str, value=str).group_by_key())
        merger = [lambda key, one, two: one + two] if kind == "session" else []
        table = windowed.aggregate(
            str,
            lambda key, value, agg: agg + str(number(value)),
            *merger,
            store="w",
            value=str,
            on_error=sf.log_and_continue(),
        )
        table.to_stream(lambda key, value: f"{key.key}@{key.window.start}").to("out", key=str, value=str)
        with TopologyTestDriver(builder.build()) as driver:
            source = driver.input("in", key=str, value=str)
            for at, value in enumerate(values):
                if value:
                    source.pipe("k", value, timestamp=at * 1000)
            return [(r.key, r.value) for r in driver.output("out", key=str, value=str).read_all()]

    assert results("1", "2", "boom", "3", "4") == results("1", "2", "", "3", "4")


def test_a_processors_forwards_of_a_failed_call_are_taken_back() -> None:
    class Twice(sf.ContextualProcessor[str, str, str, str]):
        def process(self, record: sf.Record[str, str]) -> None:
            self.context.forward(record)
            self.context.forward(record.replace(value=str(number(record.value or ""))))

    topology = build(lambda s: s.process(Twice, on_error=sf.DLQ("bad")))
    out, bad = run(topology, "1", "boom", "3")
    assert [record.value for record in out] == [b"1", b"1", b"3", b"3"]
    assert [record.value for record in bad] == [b"boom"]


def test_a_join_leaves_out_the_row_that_fails() -> None:
    builder = sf.StreamsBuilder()
    table = builder.table("table", key=str, value=str, store="t")
    stream = builder.stream("in", key=str, value=str)
    stream.join(table, lambda left, right: str(number(left)) + right, on_error=sf.DLQ("bad")).to(
        "out", key=str, value=str
    )
    with TopologyTestDriver(builder.build()) as driver:
        rows, source = driver.input("table", key=str, value=str), driver.input("in", key=str, value=str)
        for key in ("k0", "k1", "k2"):
            rows.pipe(key, "!")
        with driver.epoch():
            for at, value in enumerate(("1", "boom", "3")):
                source.pipe(f"k{at}", value)
        assert driver.output("out", value=str).read_values_to_list() == ["1!", "3!"]
        assert driver.output("bad").read().value == b"boom"


def test_a_crash_discards_uncommitted_dead_letters() -> None:
    topology = build(lambda s: s.map_values(number, on_error=sf.DLQ("bad")).map_values(str))
    with TopologyTestDriver(topology) as driver:
        source = driver.input("in", key=str, value=str)
        with driver.epoch():
            source.pipe("a", "boom")
            source.pipe("b", "1")
            driver.crash()
        driver.restart()
        driver.barrier()
        assert [r.value for r in driver.output("bad").read_all()] == [b"boom"]
        assert [r.value for r in driver.output("out").read_all()] == [b"1"]


def test_a_missing_dead_letter_topic_is_found_at_the_start() -> None:
    with sf.EmbeddedBroker() as broker:
        broker.create_topic("in")
        broker.create_topic("out")
        topology = build(lambda s: s.map_values(number, on_error=sf.DLQ("bad")).map_values(str))
        app = sf.StoatFlow(topology, {"application.id": "letters"}, broker=broker)
        with pytest.raises(sf.errors.MissingTopicError, match=r"dead-letter topic.*bad"):
            app.run()


def test_the_engine_sends_dead_letters_and_counts_them() -> None:
    with sf.EmbeddedBroker() as broker:
        for topic in ("in", "out", "bad"):
            broker.create_topic(topic)
        broker.produce_many("in", [(None, b"a", b"1", 1), (None, b"b", b"boom", 2), (None, b"c", b"boom", 3)])
        topology = build(lambda s: s.map_values(number).map_values(str))
        settings = {"application.id": "letters", "state.dir": str(broker.path)}
        app = sf.StoatFlow(topology, settings, broker=broker, on_processing_error=sf.DLQ("bad"))
        with app:
            while app.lag() or app.metrics()["commits"] == 0:
                app.wait(0.02)
            dropped = app.metrics()["dropped"]
        assert [(d["reason"], d["count"]) for d in dropped] == [("processing_dead_letter", 2)]


def test_a_transaction_has_no_more_records_than_are_kept_for_dead_letters(tmp_path: Path) -> None:
    """Half of in.flight.max.bytes: so none of them is read again while it is open."""
    size, records = 4000, 200

    def later(stream: sf.KStream[str, str]) -> sf.KStream[Any, Any]:
        table = stream.group_by(lambda key, value: key[-1], key=str).aggregate(
            lambda: 0, lambda key, value, agg: agg + number(value[:4]), store="sums", value=int, on_error="dlq:bad"
        )
        return table.to_stream().map_values(str)

    settings = {
        "application.id": "kept",
        "state.dir": str(tmp_path),
        # All of the input fits, twice half of it doesn't. No commit comes by the clock.
        "in.flight.max.bytes": size * records * 5 // 4,
        "commit.interval.ms": 50_000,
        "commit.min.interval.ms": 50_000,
    }
    texts = ["boom" if at % 50 == 0 else "0001" for at in range(records)]
    given = [(None, b"k%d" % at, text.ljust(size).encode(), at) for at, text in enumerate(texts)]
    with sf.EmbeddedBroker() as broker:
        for topic in ("in", "out", "bad"):
            broker.create_topic(topic)
        broker.produce_many("in", given)
        with sf.StoatFlow(build(later), settings, broker=broker) as app:
            began = time.monotonic()
            while not (committed := app.metrics()["records_committed"]):
                assert time.monotonic() - began < 30, "nothing is committed before it ends"
                app.wait(0.02)
        letters = list(broker.read("bad"))
    assert records // 2 <= committed <= records * 3 // 4
    assert [(at.key, at.value) for at in letters] == [given[at][1:3] for at in range(0, records, 50)]


@pytest.mark.parametrize("wrong", ["dlq:", "skip", 7, sf.DLQ])
def test_an_invalid_handler_is_refused_on_construction(wrong: Any) -> None:
    with pytest.raises(sf.errors.TopologyError):
        build(lambda s: s.map_values(number, on_error=wrong))


@pytest.mark.parametrize("make", [lambda: sf.Retry(0), lambda: sf.Retry(1, backoff="2m"), lambda: sf.DLQ("")])
def test_wrong_handlers_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(sf.errors.TopologyError):
        make()


def test_one_topic_is_read_with_one_handler() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", on_error=sf.log_and_continue()).to("a")
    builder.stream("in").to("b")
    with pytest.raises(sf.errors.TopologyError, match="same on_error"):
        builder.build()
