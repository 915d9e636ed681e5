"""`late=`: what becomes of records older than the watermark, before they reach any window."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

MONOTONIC = sf.Watermark.monotonic()
SECOND = 1_000


def copying(late: Any, **source: Any) -> sf.Topology:
    builder = sf.StreamsBuilder()
    source = {"watermark": MONOTONIC, **source}
    builder.stream("in", key=str, value=str, late=late, **source).to("out")
    return builder.build()


def values(driver: TopologyTestDriver, topic: str = "out") -> list[str]:
    return [record.value for record in driver.output(topic, str, str).read_all()]


def pipe(driver: TopologyTestDriver, *records: tuple[str, int]) -> None:
    source = driver.input("in", str, str)
    for value, seconds in records:
        source.pipe("k", value, timestamp=seconds * SECOND)


def error_headers(record: Any) -> dict[str, str]:
    prefix = "__stoatflow.errors."
    return {name.removeprefix(prefix): text.decode() for name, text in record.headers if name.startswith(prefix)}


MIXED = (("a", 5), ("b", 10), ("late", 9), ("c", 10), ("later", 3), ("d", 12))


# ---- policies -------
# ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("late", "message"),
    [
        ("later", r"stream: late='later' is not known"),
        (7, r"late=7 is not known"),
        (sf.DLQ, r"late=DLQ is not known"),
        (sf.log_and_continue(), r"late=log_and_continue\(\) is not known"),
        (lambda record: "drop", r"stream\(late=\) calls its function with \(record, watermark\), but"),
        (sf.value["x"] > 1, r"late=.* is not known|does not take an expression"),
    ],
)
def test_an_invalid_policy_is_refused_on_construction(late: Any, message: str) -> None:
    with pytest.raises(sf.TopologyError, match=message) as refused:
        copying(late)
    assert "test_late.py:" in str(refused.value)
    assert "(record, watermark)" in str(refused.value)


def test_an_async_policy_is_refused() -> None:
    async def ask(record: sf.ConsumedRecord, watermark: int) -> str:
        return "drop"

    with pytest.raises(sf.TopologyError, match="async function"):
        copying(ask)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((7,), r"DecideLate needs a function of \(record, watermark\)"),
        ((lambda record: "drop",), r"DecideLate calls its function with \(record, watermark\), but"),
        ((lambda record, watermark: "drop", "letters"), "needs names of topics, not 'letters'"),
        ((lambda record, watermark: "drop", [""]), r"needs names of topics, not \[''\]"),
    ],
)
def test_functions_that_cannot_decide_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(sf.TopologyError, match=message):
        sf.DecideLate(*arguments)


def test_topics_that_a_function_may_name_are_checked_at_the_start() -> None:
    late = sf.DecideLate(lambda record, watermark: "drop", dead_letters=["letters"])
    with sf.EmbeddedBroker() as broker:
        broker.create_topic("in")
        broker.create_topic("out")
        settings = {"application.id": "late", "state.dir": str(broker.path)}
        with pytest.raises(sf.MissingTopicError, match="letters"):
            sf.StoatFlow(copying(late), settings, broker=broker).run()


def test_a_policy_is_given_in_consumed_or_as_a_keyword() -> None:
    builder = sf.StreamsBuilder()
    how = sf.Consumed(str, str, late="drop")
    with pytest.raises(sf.TopologyError, match="late= is given beside consumed="):
        builder.stream("in", consumed=how, late="drop")  # type: ignore[call-overload]


def test_global_tables_have_no_late_records() -> None:
    builder = sf.StreamsBuilder()
    with pytest.raises(sf.TopologyError, match="global_table: its records are no part of the application's time"):
        builder.global_table("rates", consumed=sf.Consumed(str, str, late="drop"))


def test_late_records_are_not_sent_to_their_own_source() -> None:
    with pytest.raises(sf.TopologyError, match="sends late records to 'in', which it reads"):
        copying(sf.DLQ("in"))


def test_two_streams_of_a_topic_agree() -> None:
    builder = sf.StreamsBuilder()
    for late in ("drop", sf.DLQ("letters")):
        builder.stream("in", key=str, value=str, late=late).to("out")
    with pytest.raises(sf.TopologyError, match="give both the same late="):
        builder.build()


# ---- results ------------
# -----------------------------------------------------------------------------------


@pytest.mark.parametrize("late", [None, "grace"])
def test_by_default_late_records_are_processed(late: Any) -> None:
    with TopologyTestDriver(copying(late)) as driver:
        pipe(driver, *MIXED)
        assert values(driver) == ["a", "b", "late", "c", "later", "d"]


@pytest.mark.parametrize("semantics", ["stream-time", "watermark"])
@pytest.mark.parametrize("lanes", [1, 3])
def test_drop(semantics: str, lanes: int) -> None:
    with TopologyTestDriver(copying("drop"), {"time.semantics": semantics}, lanes=lanes) as driver:
        pipe(driver, *MIXED)
        assert values(driver) == ["a", "b", "c", "d"]


def test_the_watermark_is_constant_within_an_epoch() -> None:
    with TopologyTestDriver(copying("drop")) as driver:
        with driver.epoch():
            pipe(driver, *MIXED)
        assert values(driver) == ["a", "b", "late", "c", "later", "d"]
        pipe(driver, ("gone", 11), ("e", 12))
        assert values(driver) == ["e"]


def test_a_bounded_watermark_waits() -> None:
    topology = copying("drop", watermark=sf.Watermark.bounded("3s"))
    with TopologyTestDriver(topology) as driver:
        pipe(driver, ("a", 10), ("in time", 7), ("too late", 6), ("b", 11))
        assert values(driver) == ["a", "in time", "b"]


def test_without_a_watermark_nothing_is_late() -> None:
    with TopologyTestDriver(copying("drop", watermark=sf.Watermark.none())) as driver:
        pipe(driver, *MIXED)
        assert len(values(driver)) == len(MIXED)


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_dead_letter_is_the_record_with_its_lateness(lanes: int) -> None:
    with TopologyTestDriver(copying(sf.DLQ("letters")), lanes=lanes) as driver:
        pipe(driver, *MIXED)
        assert values(driver) == ["a", "b", "c", "d"]
        letters = driver.output("letters", str, str).read_all()
    assert [(r.key, r.value, r.timestamp) for r in letters] == [("k", "late", 9_000), ("k", "later", 3_000)]
    reported = error_headers(letters[1])
    assert reported["kind"] == "late"
    assert reported["application"] == "test"
    assert (reported["topic"], reported["partition"], reported["offset"]) == ("in", "0", "4")
    assert (reported["timestamp"], reported["watermark"]) == ("3000", "10000")
    assert reported["message"] == "the record is 7000 ms older than the watermark 10000"


def test_a_function_decides_for_each() -> None:
    asked: list[tuple[sf.ConsumedRecord, int]] = []

    def decide(record: sf.ConsumedRecord, watermark: int) -> sf.LateVerdict:
        asked.append((record, watermark))
        if watermark - record.timestamp <= 2 * SECOND:
            return "grace"
        return sf.DLQ("letters") if record.value.isupper() else "drop"

    with TopologyTestDriver(copying(sf.DecideLate(decide, dead_letters=["letters"]))) as driver:
        pipe(driver, ("a", 20), ("near", 18), ("far", 2), ("FAR", 3), ("b", 21))
        assert values(driver) == ["a", "near", "b"]
        assert values(driver, "letters") == ["FAR"]
    assert [(record.value, watermark) for record, watermark in asked] == [
        ("near", 20_000), ("far", 20_000), ("FAR", 20_000),
    ]  # fmt: skip
    record = asked[0][0]
    assert (record.key, record.timestamp, record.topic, record.partition, record.offset) == ("k", 18_000, "in", 0, 1)


@pytest.mark.parametrize(
    ("decide", "message"),
    [
        (lambda record, watermark: "later", "the late policy gave 'later', which is none"),
        (lambda record, watermark: None, "the late policy gave None, which is none"),
        (lambda record, watermark: sf.DLQ("in"), r"gave DLQ\(.in.\) for a record of that topic"),
        (lambda record, watermark: sf.DLQ("nowhere"), "no such topic"),
        (lambda record, watermark: 1 // 0, "ZeroDivisionError"),
    ],
)
def test_invalid_decisions_of_a_function_are_errors(decide: Callable[[Any, int], Any], message: str) -> None:
    with TopologyTestDriver(copying(decide)) as driver:
        pipe(driver, ("a", 20))
        with pytest.raises(sf.StoatFlowError, match=message) as failed:
            pipe(driver, ("late", 2))
    assert "test_late.py" in str(failed.value)
    assert failed.value.coordinates["offset"] == 1


def test_a_policy_of_a_table() -> None:
    builder = sf.StreamsBuilder()
    table = builder.table("in", key=str, value=str, store="rows", watermark=MONOTONIC, late="drop")
    table.to_stream().to("out")
    with TopologyTestDriver(builder.build()) as driver:
        pipe(driver, *MIXED)
        assert driver.store("rows").all() == {"k": "d"}
        assert values(driver) == ["a", "b", "c", "d"]


def test_a_policy_of_a_source_by_hand_and_of_consumed() -> None:
    topology = sf.Topology()
    topology.add_source("source", "in", key=str, value=str, watermark=MONOTONIC, late="drop")
    topology.add_sink("sink", "out", "source", key=str, value=str)
    builder = sf.StreamsBuilder()
    builder.stream("in", consumed=sf.Consumed(str, str, watermark=MONOTONIC, late="drop")).to("out")
    for each in (topology, builder.build()):
        with TopologyTestDriver(each) as driver:
            pipe(driver, *MIXED)
            assert values(driver) == ["a", "b", "c", "d"]


def test_each_topic_has_its_own_policy_and_all_share_the_watermark() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("strict", key=str, value=str, watermark=MONOTONIC, late="drop").to("from-strict")
    builder.stream("lenient", key=str, value=str, watermark=MONOTONIC).to("from-lenient")
    with TopologyTestDriver(builder.build()) as driver:
        strict, lenient = driver.input("strict", str, str), driver.input("lenient", str, str)
        strict.pipe("k", "a", timestamp=50)
        # The other topic has no records: the application's watermark is not known yet.
        strict.pipe("k", "b", timestamp=10)
        lenient.pipe("k", "c", timestamp=30)
        strict.pipe("k", "d", timestamp=20)
        strict.pipe("k", "e", timestamp=30)
        lenient.pipe("k", "f", timestamp=20)
        assert values(driver, "from-strict") == ["a", "b", "e"]
        assert values(driver, "from-lenient") == ["c", "f"]


# ---- with windows, crashes, an application
# --------------------------------------------------------------------


def windowed(late: Any, grace: str = "5s") -> sf.Topology:
    builder = sf.StreamsBuilder()
    (
        builder.stream("in", key=str, value=str, watermark=MONOTONIC, late=late)
        .group_by_key()
        .windowed_by(sf.TimeWindows("10s", grace=grace))
        .count(store=sf.Materialized("counts", retention="1h"))
        .to_stream()
        .to("out")
    )
    return builder.build()


@pytest.mark.parametrize("semantics", ["stream-time", "watermark"])
@pytest.mark.parametrize(
    ("late", "at", "counted"),
    [
        # After a record of 13 s: is it counted?
        ("grace", 9, {0: 1, 10: 1}),  # late, but its window is open until 15 s
        ("drop", 9, {10: 1}),  # the policy comes first
        ("drop", 13, {10: 2}),  # not late
    ],
)
def test_the_policy_applies_before_the_grace(semantics: str, late: Any, at: int, counted: dict[int, int]) -> None:
    with TopologyTestDriver(windowed(late), {"time.semantics": semantics}) as driver:
        pipe(driver, ("a", 13), ("b", at))
        rows = driver.store("counts").all()
    assert {window.window.start // SECOND: count for window, count in rows.items()} == counted


@pytest.mark.parametrize("semantics", ["stream-time", "watermark"])
def test_grace_applies_to_records_that_pass_the_policy(semantics: str) -> None:
    with TopologyTestDriver(windowed("grace"), {"time.semantics": semantics}) as driver:
        pipe(driver, ("a", 14), ("in", 9), ("b", 15), ("out", 8), ("c", 16))
        rows = driver.store("counts").all()
    assert sorted((window.window.start, count) for window, count in rows.items()) == [(0, 1), (10_000, 3)]


@pytest.mark.parametrize("lanes", [1, 2])
def test_dead_letters_are_written_once_and_the_watermark_survives(lanes: int) -> None:
    with TopologyTestDriver(copying(sf.DLQ("letters")), lanes=lanes) as driver:
        pipe(driver, ("a", 20))
        with driver.epoch():
            pipe(driver, ("late", 5), ("b", 21))
            driver.crash()
        driver.restart(lanes=3 - lanes)
        driver.barrier()
        pipe(driver, ("later", 19), ("c", 22))
        assert values(driver) == ["a", "b", "c"]
        assert values(driver, "letters") == ["late", "later"]


def test_a_wrapper_wraps_the_function() -> None:
    seen: list[tuple[str, str, str]] = []

    def wrapper(node: sf.NodeInfo, inner: Callable[..., Any]) -> Callable[..., Any]:
        def around(*arguments: Any) -> Any:
            seen.append((node.name, node.kind, node.function))
            return inner(*arguments)

        return around

    builder = sf.StreamsBuilder(wrapper=wrapper)
    source = builder.stream("in", key=str, value=str, name="orders", watermark=MONOTONIC, late=lambda r, w: "drop")
    source.to("out")
    with TopologyTestDriver(builder.build()) as driver:
        pipe(driver, ("a", 20), ("late", 2))
        assert values(driver) == ["a"]
    assert seen == [("orders", "stream", "late")]


def test_an_application_counts_by_topic_and_policy(tmp_path: Path) -> None:
    def until(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, "waited in vain"
            time.sleep(0.01)

    topology = copying(lambda record, watermark: sf.DLQ("letters") if record.value == "x" else "drop", name="orders")
    config = sf.Settings({"application.id": "late", "state.dir": str(tmp_path / "state")}, environ={})
    with sf.EmbeddedBroker(tmp_path / "broker") as broker:
        for topic in ("in", "out", "letters"):
            broker.create_topic(topic)
        with sf.StoatFlow(topology, config, broker=broker) as app:
            broker.produce("in", b"k", b"a", 20)
            until(lambda: len(list(broker.read("out"))) == 1)
            for value in (b"x", b"y", b"z"):
                broker.produce("in", b"k", value, 2)
            until(lambda: app.state is sf.State.RUNNING and app.lag() == 0)
            metrics = app.metrics()
            with urllib.request.urlopen(f"{app.admin_url}metrics", timeout=60) as answer:  # noqa: S310  # our own port
                scraped = answer.read().decode()
        assert [record.value for record in broker.read("letters")] == [b"x"]
    counted = {(row["topic"], row["policy"]): row["count"] for row in metrics["late"]}
    assert counted == {("in", "dlq"): 1, ("in", "drop"): 2}
    dropped = {(row["node"], row["reason"]): row["count"] for row in metrics["dropped"]}
    assert dropped == {("orders", "late"): 2, ("orders", "late_dead_letter"): 1}
    assert 'stoatflow_late_records_total{application_id="late",topic="in",policy="drop"} 2' in scraped
