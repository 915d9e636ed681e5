"""Watermarks: what a source says, and what windows, joins, suppressions and processors make of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.testing import MockProcessorContext, TopologyTestDriver

Watermark = sf.Watermark
BY_WATERMARK = {"time.semantics": "watermark"}
TIMED = sf.Serdes.time_windowed(str, "10s")
LANES = pytest.mark.parametrize("lanes", [1, 4])


def counted(*watermarks: sf.Watermark | None, suppressed: bool = False, grace: str = "0s") -> sf.Topology:
    """Count in windows of 10 s, given when they close; one topic (`in0`, `in1`, ...) for each watermark."""
    builder = sf.StreamsBuilder()
    first, *rest = [
        builder.stream(f"in{at}", key=str, value=int, watermark=watermark) for at, watermark in enumerate(watermarks)
    ]
    for other in rest:
        first = first.merge(other)
    windowed = first.group_by_key().windowed_by(sf.TimeWindows("10s", grace=grace))
    store = sf.Materialized("counts", retention="1h")
    if suppressed:
        counts = windowed.count(store=store).suppress(sf.Suppressed.until_window_closes(), name="final")
    else:
        counts = windowed.emit_strategy(sf.EmitStrategy.on_window_close()).count(store=store)
    counts.to_stream().to("out")
    return builder.build()


def read(driver: TopologyTestDriver) -> list[tuple[str, int, int]]:
    found = driver.output("out", TIMED, sf.Serdes.int64()).read_all()
    return sorted((r.key.key, r.key.window.start // 1000, r.value) for r in found)


def pipe(driver: TopologyTestDriver, topic: str, key: str, second: int) -> None:
    driver.input(topic, str, int).pipe(key, 1, timestamp=second * 1000)


def test_a_watermark_is_written_as_it_was_made() -> None:
    def last_event(record: sf.ConsumedRecord, current: int) -> int | None:
        return record.timestamp if current < 0 else None

    assert repr(Watermark.monotonic()) == "Watermark.monotonic()"
    assert repr(Watermark.none()) == "Watermark.none()"
    written = Watermark.bounded("10s").idle("5m").aligned("orders", "1m")
    assert repr(written) == 'Watermark.bounded("10s").idle("5m").aligned(\'orders\', "1m")'
    assert "last_event" in repr(Watermark.custom(last_event))
    assert written == Watermark.bounded("10s").idle("5m").aligned("orders", "60s")
    assert written != Watermark.bounded("10s").idle("5m")
    assert hash(Watermark.monotonic()) == hash(Watermark.monotonic())
    with pytest.raises(AttributeError):
        written._idle_ms = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Watermark.bounded(10), "test_watermark.py:.*delay"),  # type: ignore[arg-type]
        (lambda: Watermark.bounded("-1s"), "negative|no duration"),
        (lambda: Watermark.bounded("1s").idle("0s"), "idle.*at least 1 ms"),
        (lambda: Watermark.bounded("1s").aligned("", "1m"), "name of a group"),
        (lambda: Watermark.none().idle("1m"), r"none\(\) has nothing that \.idle"),
        (lambda: Watermark.none().aligned("g", "1m"), r"none\(\) has nothing that \.aligned"),
        (lambda: Watermark.custom("fn"), "needs a function of"),  # type: ignore[arg-type]
        (lambda: Watermark.custom(lambda record: 1), "record, current"),  # type: ignore[arg-type, misc]
        (lambda: Watermark.custom(sf.value), "does not take an expression"),  # type: ignore[arg-type]
        (lambda: sf.StreamsBuilder().stream("a", watermark="10s"), "needs a Watermark"),  # type: ignore[call-overload]
        (lambda: sf.StreamsBuilder().stream("a", watermark=Watermark), "the class Watermark itself"),  # type: ignore[call-overload]
        (
            lambda: sf.StreamsBuilder().global_table("a", consumed=sf.Consumed(str, str, watermark=Watermark.none())),
            "no part of event time",
        ),
        (
            lambda: sf.StreamsBuilder().stream(  # type: ignore[call-overload]
                "a", watermark=Watermark.none(), consumed=sf.Consumed(str, str)
            ),
            "beside consumed=",
        ),
    ],
)
def test_errors_name_the_line_that_was_written(make: Any, message: str) -> None:
    with pytest.raises(sf.TopologyError, match=message):
        make()


def test_two_streams_of_one_topic_must_agree() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("a", key=str, watermark=Watermark.monotonic()).to("x")
    builder.stream("a", key=str).to("y")
    with pytest.raises(sf.TopologyError, match="give both the same watermark"):
        builder.build()


@pytest.mark.parametrize(
    ("value", "message"),
    [("bounded", "write bounded:10s"), ("idle:5m", "write bounded:10s"), ("none,idle:0s", "write bounded:10s")],
)
def test_the_default_is_checked(value: str, message: str) -> None:
    with pytest.raises(sf.ConfigError, match=message):
        TopologyTestDriver(counted(None), {"watermark.default": value})


@LANES
@pytest.mark.parametrize("suppressed", [False, True])
def test_windows_close_when_the_watermark_has_passed_their_end(suppressed: bool, lanes: int) -> None:
    topology = counted(Watermark.bounded("5s"), suppressed=suppressed)
    with TopologyTestDriver(topology, BY_WATERMARK, lanes=lanes) as driver:
        pipe(driver, "in0", "a", 3)
        pipe(driver, "in0", "b", 14)
        # By stream time the first window would be closed, and this one late.
        pipe(driver, "in0", "a", 9)
        assert (driver.watermark, read(driver)) == (9_000, [])
        pipe(driver, "in0", "b", 15)
        assert (driver.watermark, read(driver)) == (10_000, [("a", 0, 2)])
        pipe(driver, "in0", "a", 9)
        pipe(driver, "in0", "c", 40)
        assert read(driver) == [("b", 10, 2)]


@LANES
def test_the_two_semantics_differ(lanes: int) -> None:
    """The example of the documentation."""
    given = [("a", 3), ("b", 14), ("a", 9), ("b", 31)]
    for semantics, expected in (
        ("stream-time", [("a", 0, 1), ("b", 10, 1)]),
        ("watermark", [("a", 0, 2), ("b", 10, 1)]),
    ):
        with TopologyTestDriver(counted(Watermark.bounded("6s")), {"time.semantics": semantics}, lanes=lanes) as driver:
            for key, second in given:
                driver.advance("2s")
                pipe(driver, "in0", key, second)
            assert read(driver) == expected, semantics


@LANES
def test_the_least_of_two_sources_counts_until_one_is_idle(lanes: int) -> None:
    topology = counted(Watermark.monotonic().idle("1m"), Watermark.monotonic().idle("1m"))
    with TopologyTestDriver(topology, BY_WATERMARK, lanes=lanes) as driver:
        pipe(driver, "in0", "a", 5)
        pipe(driver, "in0", "a", 35)
        assert (driver.watermark, read(driver)) == (-1, [])
        pipe(driver, "in1", "b", 12)
        assert (driver.watermark, read(driver)) == (12_000, [("a", 0, 1)])
        driver.advance("30s")
        pipe(driver, "in0", "a", 50)
        driver.advance("30s")
        # The second one has been silent for a minute.
        assert (driver.watermark, read(driver)) == (50_000, [("a", 30, 1), ("b", 10, 1)])
        # Back, and behind: its records are late, and time stays.
        pipe(driver, "in1", "b", 20)
        assert driver.watermark == 50_000
        pipe(driver, "in0", "a", 70)
        assert (driver.watermark, read(driver)) == (50_000, [])
        pipe(driver, "in1", "b", 65)
        assert (driver.watermark, read(driver)) == (65_000, [("a", 50, 1)])


def test_a_source_without_a_watermark_does_not_hold_it_back() -> None:
    with TopologyTestDriver(counted(Watermark.monotonic(), Watermark.none()), BY_WATERMARK) as driver:
        pipe(driver, "in1", "b", 90)
        assert driver.watermark == -1
        pipe(driver, "in0", "a", 30)
        assert driver.watermark == 30_000


@pytest.mark.parametrize(
    ("default", "expected"), [("bounded:7s", 23_000), ("monotonic", 30_000), ("none", -1), ("bounded:0ms", 30_000)]
)
def test_sources_without_a_choice_have_the_default(default: str, expected: int) -> None:
    with TopologyTestDriver(counted(None), BY_WATERMARK | {"watermark.default": default}) as driver:
        pipe(driver, "in0", "a", 30)
        assert driver.watermark == expected


def test_the_default_may_be_idle() -> None:
    config = BY_WATERMARK | {"watermark.default": "monotonic, idle:10s"}
    with TopologyTestDriver(counted(None, None), config) as driver:
        pipe(driver, "in0", "a", 30)
        assert driver.watermark == -1
        driver.advance("10s")
        assert driver.watermark == 30_000


@LANES
def test_a_function_returns_the_watermark(lanes: int) -> None:
    seen: list[tuple[str, int, int]] = []

    def markers(record: sf.ConsumedRecord, current: int) -> int | None:
        seen.append((record.key, record.timestamp, current))
        return record.timestamp if record.key == "mark" else None

    with TopologyTestDriver(counted(Watermark.custom(markers)), BY_WATERMARK, lanes=lanes) as driver:
        pipe(driver, "in0", "a", 3)
        pipe(driver, "in0", "a", 50)
        assert driver.watermark == -1
        pipe(driver, "in0", "mark", 20)
        assert (driver.watermark, read(driver)) == (20_000, [("a", 0, 1)])
        # Never back; and a restart goes on where it was.
        pipe(driver, "in0", "mark", 10)
        driver.crash()
        driver.restart(lanes=2)
        assert driver.watermark == 20_000
        pipe(driver, "in0", "a", 51)
        assert seen[-1] == ("a", 51_000, 20_000)
        assert driver.watermark == 20_000
        with driver.epoch():
            pipe(driver, "in0", "mark", 60)
            # Of the same epoch: time moves at its end.
            pipe(driver, "in0", "a", 52)
        assert read(driver) == [("a", 50, 3), ("mark", 20, 1)]


def test_an_invalid_result_of_a_watermark_function() -> None:
    def wrong(record: sf.ConsumedRecord, current: int) -> Any:
        return "now"

    output = r"milliseconds as an int, or None, it returned str"
    with (
        TopologyTestDriver(counted(Watermark.custom(wrong)), BY_WATERMARK) as driver,
        pytest.raises(sf.ProcessingError, match=output),
    ):
        pipe(driver, "in0", "a", 3)


@LANES
@pytest.mark.parametrize("suppressed", [False, True])
def test_windows_are_emitted_once_over_restarts(suppressed: bool, lanes: int) -> None:
    topology = counted(Watermark.bounded("5s"), suppressed=suppressed)
    with TopologyTestDriver(topology, BY_WATERMARK, lanes=lanes) as driver:
        for second in range(0, 60, 3):
            pipe(driver, "in0", "a", second)
            driver.crash()
            driver.restart(lanes=5 - lanes if second % 2 else lanes)
            assert driver.watermark == max(-1, second * 1000 - 5000)
        assert read(driver) == [("a", 0, 4), ("a", 10, 3), ("a", 20, 3), ("a", 30, 4), ("a", 40, 3)]


@LANES
def test_the_driver_can_advance_the_watermark(lanes: int) -> None:
    with TopologyTestDriver(counted(Watermark.monotonic()), BY_WATERMARK, lanes=lanes) as driver:
        pipe(driver, "in0", "a", 3)
        driver.advance_watermark(9_999)
        assert (driver.watermark, read(driver)) == (9_999, [])
        driver.advance_watermark(10_000)
        assert (driver.watermark, read(driver)) == (10_000, [("a", 0, 1)])
        driver.advance_watermark(5_000)
        driver.crash()
        driver.restart()
        assert driver.watermark == 10_000
        # It is late now.
        pipe(driver, "in0", "a", 4)
        driver.advance_watermark(90_000)
        assert read(driver) == []


class Closer(sf.ContextualProcessor[str, int, str, int]):
    """Forwards what time it is; a record with the key `close` raises the watermark to its time."""

    def init(self, context: sf.ProcessorContext[str, int]) -> None:
        super().init(context)
        context.schedule("10s", sf.PunctuationType.STREAM_TIME, self.tick)

    def tick(self, time: int) -> None:
        self.context.forward(sf.Record("tick", time, 0))

    def process(self, record: sf.Record[str, int]) -> None:
        if record.key == "close":
            self.context.advance_watermark(record.timestamp)
        self.context.forward(sf.Record(record.key, self.context.stream_time_ms, record.timestamp))
        assert self.context.watermark_ms == self.context.stream_time_ms


@LANES
def test_processors_use_and_can_advance_the_watermark(lanes: int) -> None:
    builder = sf.StreamsBuilder()
    source = builder.stream("in", key=str, value=int, watermark=Watermark.bounded("20s"))
    source.process(Closer).to("out", key=str, value=int)
    with TopologyTestDriver(builder.build(), BY_WATERMARK, lanes=lanes) as driver:
        output = driver.output("out", str, int)
        pipe(driver, "in", "a", 25)
        # Records see the watermark of the commit before; punctuations that of theirs.
        assert [(r.key, r.value) for r in output.read_all()] == [("a", -1), ("tick", 5_000)]
        pipe(driver, "in", "a", 26)
        assert [(r.key, r.value) for r in output.read_all()] == [("a", 5_000)]
        pipe(driver, "in", "close", 40)
        # No order is promised across keys.
        found = sorted((r.key, r.value) for r in output.read_all())
        assert found == [("close", 6_000), ("tick", 20_000), ("tick", 40_000)]
        assert driver.watermark == 40_000
        driver.crash()
        driver.restart(lanes=5 - lanes)
        pipe(driver, "in", "a", 41)
        assert (driver.watermark, [(r.key, r.value) for r in output.read_all()]) == (40_000, [("a", 40_000)])


def test_with_stream_time_the_watermark_is_only_reported() -> None:
    class Shows(sf.ContextualProcessor[str, int, str, int]):
        def process(self, record: sf.Record[str, int]) -> None:
            self.context.forward(sf.Record("watermark", self.context.watermark_ms, 0))
            self.context.forward(sf.Record("stream", self.context.stream_time_ms, 0))

    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=int, watermark=Watermark.bounded("20s")).process(Shows).to(
        "out", key=str, value=int
    )
    with TopologyTestDriver(builder.build()) as driver:
        pipe(driver, "in", "a", 25)
        pipe(driver, "in", "a", 26)
        found = [(r.key, r.value) for r in driver.output("out", str, int).read_all()]
        assert found == [("watermark", -1), ("stream", 25_000), ("watermark", 5_000), ("stream", 26_000)]
        assert driver.watermark == 6_000


@LANES
def test_left_joins_of_streams_wait_for_it(lanes: int) -> None:
    builder = sf.StreamsBuilder()
    left = builder.stream("left", key=str, value=str, watermark=Watermark.bounded("10s"))
    right = builder.stream("right", key=str, value=str, watermark=Watermark.bounded("10s"))
    joined = left.left_join(
        right,
        lambda one, other: f"{one}+{other}",
        sf.JoinWindows("5s", grace="0s"),
        joined=sf.StreamJoined(str, str, str, store_name="joined"),
    )
    joined.to("out", key=str, value=str)
    with TopologyTestDriver(builder.build(), BY_WATERMARK, lanes=lanes) as driver:

        def give(topic: str, value: str, second: int) -> list[str]:
            driver.input(topic, str, str).pipe("k", value, timestamp=second * 1000)
            return [r.value for r in driver.output("out", str, str).read_all()]

        assert give("left", "l1", 20) == []
        assert give("right", "r9", 32) == []
        # By stream time l1 would be over; the watermark is 10 s.
        assert give("right", "r1", 24) == ["l1+r1"]
        assert give("left", "l2", 26) == ["l2+r1"]
        # 16 s: it may find a partner for another second.
        assert give("left", "l3", 12) == []
        assert give("left", "l4", 40) == ["l3+None"]
        assert give("right", "r2", 41) == ["l4+r2"]
        # What is over when it comes waits for nobody.
        assert give("left", "l5", 10) == ["l5+None"]


def test_window_results_are_not_late_downstream() -> None:
    """A window behind a window, in one stage: the second sees the watermark when the first has given."""
    builder = sf.StreamsBuilder()
    windows = sf.TimeWindows("10s", grace="0s")
    source = builder.stream("in0", key=str, value=int, watermark=Watermark.monotonic())
    first = source.group_by_key().windowed_by(windows)
    closed = first.emit_strategy(sf.EmitStrategy.on_window_close()).count(store="first").to_stream()
    again = closed.group_by_key(key=TIMED, value=sf.Serdes.int64()).windowed_by(windows)
    again.emit_strategy(sf.EmitStrategy.on_window_close()).count(store="second").to_stream().map(
        lambda key, value: (key.key.key, value)
    ).to("out", key=str, value=sf.Serdes.int64())
    for lanes in (1, 3):
        with TopologyTestDriver(builder.build(), BY_WATERMARK, lanes=lanes) as driver:
            pipe(driver, "in0", "a", 3)
            pipe(driver, "in0", "b", 10)
            found = driver.output("out", str, sf.Serdes.int64()).read_all()
            assert [(r.key, r.value) for r in found] == [("a", 1)], lanes


def test_a_source_ahead_of_its_group_waits() -> None:
    aligned = Watermark.monotonic().aligned("g", "10s")
    with TopologyTestDriver(counted(aligned, aligned, Watermark.none()), BY_WATERMARK) as driver:
        pipe(driver, "in0", "a", 0)
        pipe(driver, "in1", "b", 0)
        pipe(driver, "in0", "a", 60)

        def taken() -> int:
            return sum(1 for _ in driver.store("counts").all())

        assert taken() == 3
        pipe(driver, "in0", "a", 80)
        assert taken() == 3
        # Others go on, the group catches up.
        pipe(driver, "in2", "c", 80)
        assert taken() == 4
        pipe(driver, "in1", "b", 51)
        assert taken() == 6


def test_a_source_by_hand_has_one_too() -> None:
    topology = sf.Topology()
    topology.add_source("source", "in0", key=str, value=int, watermark=Watermark.monotonic())
    topology.add_sink("sink", "out", "source", key=str, value=int)
    with TopologyTestDriver(topology) as driver:
        pipe(driver, "in0", "a", 7)
        assert driver.watermark == 7_000


def test_a_table_has_one_too() -> None:
    builder = sf.StreamsBuilder()
    builder.table("in0", key=str, value=int, store="rows", watermark=Watermark.bounded("1s"))
    with TopologyTestDriver(builder.build()) as driver:
        pipe(driver, "in0", "a", 7)
        assert driver.watermark == 6_000


def test_a_wrapper_sees_the_function() -> None:
    wrapped = []

    def wrapper(node: sf.NodeInfo, fn: Any) -> Any:
        wrapped.append((node.kind, node.function))
        return fn

    builder = sf.StreamsBuilder(wrapper=wrapper)
    builder.stream("a", watermark=Watermark.custom(lambda record, current: None)).to("b")
    builder.build()
    assert wrapped == [("stream", "watermark")]


def test_the_mock_context_captures_the_watermark() -> None:
    context = MockProcessorContext()
    context.set_watermark_ms(30)
    context.advance_watermark(50)
    assert (context.watermark_ms, context.advanced_watermarks) == (30, [50])


@pytest.mark.parametrize(("watermark", "wanted"), [(None, 100_000), (Watermark.monotonic(), 1_000)])
def test_a_table_holds_streams_back_only_if_it_is_asked_to(watermark: Watermark | None, wanted: int) -> None:
    builder = sf.StreamsBuilder()
    table = builder.table("users", key=str, value=int, store="users", watermark=watermark)
    stream = builder.stream("in", key=str, value=int, watermark=Watermark.monotonic())
    stream.join(table, lambda left, right: left + right).to("out", key=str, value=int)
    with TopologyTestDriver(builder.build()) as driver:
        pipe(driver, "users", "a", 1)
        pipe(driver, "in", "a", 100)
        assert driver.watermark == wanted


def test_tables_alone_have_the_watermark_of_the_settings() -> None:
    builder = sf.StreamsBuilder()
    builder.table("users", key=str, value=int, store="users").to_stream().to("out", key=str, value=int)
    with TopologyTestDriver(builder.build(), {"watermark.default": "monotonic"}) as driver:
        pipe(driver, "users", "a", 7)
        assert driver.watermark == 7_000


@pytest.fixture
def log(tmp_path: Path) -> None:
    """An application sets the log of the process up; the driver doesn't."""
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).to("out")
    settings = {"application.id": "log", "state.dir": str(tmp_path / "log"), "ensure.explicit.naming": False}
    with sf.EmbeddedBroker() as broker:
        broker.create_topic("in", 1)
        broker.create_topic("out", 1)
        with sf.StoatFlow(builder.build(), sf.Settings(settings, environ={}), broker=broker):
            pass


@pytest.mark.usefixtures("log")
def test_the_log_names_the_source_that_holds_back_the_watermark(capfd: pytest.CaptureFixture[str]) -> None:
    """Once for as long as it stands still, not for each record, and only while records come."""
    builder = sf.StreamsBuilder()
    for topic in ("busy", "quiet"):
        builder.stream(topic, key=str, value=str, watermark=sf.Watermark.monotonic()).to("out", name=f"to-{topic}")

    reported: list[str] = []

    def listen() -> int:
        lines = capfd.readouterr().err.splitlines()
        reported.extend(line for line in lines if "the watermark stands still" in line)
        return len(reported)

    with TopologyTestDriver(builder.build(), {"time.semantics": "watermark"}) as driver:
        busy, quiet = driver.input("busy", str, str), driver.input("quiet", str, str)
        for seconds in range(120):
            busy.pipe("k", "v", timestamp=seconds * 1000)
            driver.advance("1s")
        assert listen() == 1
        assert "It waits for quiet-0 (no record yet)" in reported[0]
        assert '.idle(\\"5m\\")' in reported[0]
        quiet.pipe("k", "v", timestamp=5_000)
        driver.advance("10m")
        assert listen() == 1
        busy.pipe("k", "v", timestamp=200_000)
        assert listen() == 2
        assert "It waits for quiet-0 (at 5000)" in reported[1]


@pytest.mark.usefixtures("log")
def test_nothing_is_logged_with_stream_time(capfd: pytest.CaptureFixture[str]) -> None:
    builder = sf.StreamsBuilder()
    for topic in ("busy", "quiet"):
        builder.stream(topic, key=str, value=str, watermark=sf.Watermark.monotonic()).to("out", name=f"to-{topic}")
    with TopologyTestDriver(builder.build()) as driver:
        for seconds in range(120):
            driver.input("busy", str, str).pipe("k", "v", timestamp=seconds * 1000)
            driver.advance("1s")
    assert "stands still" not in capfd.readouterr().err
