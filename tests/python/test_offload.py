"""`offload` in the test driver: order, early and late answers, timeouts, errors, room, crashes; and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from offload_harness import OffloadHarness, upper
from stoatflow.testing import TopologyTestDriver

Headers = tuple[tuple[str, "bytes | None"], ...]


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_record_waits_for_its_answer(lanes: int) -> None:
    with OffloadHarness(lanes=lanes) as harness:
        harness.records.pipe("a", "x", timestamp=5)
        (request,) = harness.asked()
        assert request[:2] == ("a", "x")
        assert request[2]["stoatflow-attempt"] == "1"
        assert request[2]["stoatflow-correlation"].startswith("score/")
        assert harness.out() == []
        upper(harness, request)
        (result,) = harness.driver.output("out", str, str).read_all()
        # Its own time and headers, not the answer's.
        assert (result.key, result.value, result.timestamp, result.headers) == ("a", "x=X", 5, ())
        assert harness.driver.parked("score") == []


@pytest.mark.parametrize("lanes", [1, 3])
def test_results_of_a_key_keep_the_order_of_its_records(lanes: int) -> None:
    with OffloadHarness(lanes=lanes) as harness:
        for key, value in (("a", "1"), ("a", "2"), ("b", "3"), ("a", "4")):
            harness.records.pipe(key, value)
        requests = harness.asked()
        upper(harness, requests[3], requests[1])
        assert harness.out() == []
        upper(harness, requests[2])
        assert harness.out() == [("b", "3=3")]
        upper(harness, requests[0])
        assert harness.out() == [("a", "1=1"), ("a", "2=2"), ("a", "4=4")]


def test_unexpected_answers_are_dropped() -> None:
    with OffloadHarness() as harness:
        harness.records.pipe("a", "x")
        (request,) = harness.asked()
        harness.answers.pipe("a", "without")
        harness.answers.pipe("a", "foreign", headers={"stoatflow-correlation": "price/0"})
        harness.answers.pipe("b", "of another key", headers=request[2])
        assert harness.out() == []
        upper(harness, request, request)
        assert harness.out() == [("a", "x=X")]


def test_a_timeout_is_retried_and_finally_a_dead_letter() -> None:
    how: dict[str, Any] = {
        "timeout": "10s",
        "retry": sf.Backoff(attempts=3, first="1s", jitter=0),
        "on_timeout": sf.DLQ("dead"),
    }
    with OffloadHarness(**how) as harness:
        harness.records.pipe("a", "x")
        (first,) = harness.asked()
        harness.driver.advance("9999ms")
        assert harness.asked() == []
        harness.driver.advance("1ms")
        (parked,) = harness.driver.parked("score")
        assert (parked.state, parked.attempt, parked.due) == ("pausing", 1, 11_000)
        harness.driver.advance("1s")
        (second,) = harness.asked()
        assert (second[2]["stoatflow-attempt"], second[2]["stoatflow-correlation"]) == (
            "2",
            first[2]["stoatflow-correlation"],
        )
        harness.driver.advance("10s")
        harness.driver.advance("2s")
        (third,) = harness.asked()
        assert third[2]["stoatflow-attempt"] == "3"
        assert harness.driver.output("dead").is_empty
        harness.driver.advance("10s")
        letter = harness.driver.output("dead", str, str).read()
        headers = dict(letter.headers)
        assert (letter.key, letter.value) == ("a", "x")
        assert headers["__stoatflow.errors.message"] == b"no answer within 10000 ms, after 3 requests"
        assert headers["__stoatflow.errors.node"] == b"score"
        assert harness.driver.parked("score") == []
        upper(harness, third)
        assert harness.out() == []


def test_a_longer_timeout_applies_to_parked_records(tmp_path: Path) -> None:
    def topology(timeout: str) -> sf.Topology:
        builder = sf.StreamsBuilder()
        stream = builder.stream("in", key=str, value=str)
        stream.offload("asked", "answered", response_value=str, timeout=timeout, name="score").to("out", value=str)
        return builder.build()

    config: dict[str, object] = {"application.id": "app", "state.dir": str(tmp_path / "state")}
    with sf.EmbeddedBroker(tmp_path / "topics") as broker:
        for topic in ("in", "out", "asked", "answered"):
            broker.create_topic(topic)
        broker.produce("in", b"a", b"x")
        with (
            sf.StoatFlow(topology("1s"), config, broker=broker) as app,
            pytest.raises(sf.ProcessingError, match="no answer within 1000 ms, after 1 request"),
        ):
            app.wait("60s")
        with sf.StoatFlow(topology("1h"), config, broker=broker) as app:
            while not (parked := app.parked("score") if app.state == "RUNNING" else []):
                app.wait("20ms")
            assert parked[0].due == parked[0].since + 3_600_000
            assert not app.wait("500ms")
            with sf.Worker(str.upper, requests="asked", responses="answered", broker=broker, value=str, answer=str):
                while not (found := list(broker.read("out"))):
                    app.wait("20ms")
        assert found[0].value == b"X"


def test_an_answer_to_an_earlier_request_counts() -> None:
    with OffloadHarness(timeout="10s", retry=sf.Backoff(attempts=2, first="0ms", jitter=0)) as harness:
        harness.records.pipe("a", "x")
        harness.driver.advance("10s")
        first, second = harness.asked()
        assert second[2]["stoatflow-attempt"] == "2"
        upper(harness, first, second)
        assert harness.out() == [("a", "x=X")]


def test_an_error_handler_does_not_handle_timeouts() -> None:
    with OffloadHarness(on_error=sf.log_and_continue(), timeout="1s") as harness:
        harness.records.pipe(None, "left out")
        harness.records.pipe("a", "x")
        with pytest.raises(sf.ProcessingError, match=r"no answer within 1000 ms.*on_timeout="):
            harness.driver.advance("1s")


def test_the_handler_of_the_application_decides_about_timeouts() -> None:
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.offload("asked", "answered", response_value=str, timeout="1s", name="score").to("out", value=str)
    with TopologyTestDriver(builder.build(), on_processing_error=sf.DLQ("dead")) as driver:
        driver.input("in", str, str).pipe("a", "x")
        driver.advance("1s")
        assert driver.output("dead", str, str).read_key_values_to_list() == [("a", "x")]


def test_fallback_functions_keep_the_order() -> None:
    with OffloadHarness(
        timeout="1s", on_timeout=lambda value: f"{value} timed out", on_error=lambda value, error: f"{value}: {error}"
    ) as harness:
        for value in "xyz":
            harness.records.pipe("a", value)
        requests = harness.asked()
        harness.answer(requests[1], None, error="ValueError: boom")
        upper(harness, requests[2])
        assert harness.out() == []
        harness.driver.advance("1s")
        assert harness.out() == [("a", "x timed out"), ("a", "y: ValueError: boom"), ("a", "z=Z")]


def test_the_error_is_a_worker_error() -> None:
    seen: list[object] = []

    def replaced(value: str, error: sf.WorkerError) -> str:
        seen.append(error)
        return value

    with OffloadHarness(on_error=replaced) as harness:
        harness.records.pipe("a", "x")
        harness.answer(harness.asked()[0], None, error="KeyError: 'k'")
        assert harness.out() == [("a", "x")]
    assert [type(each) for each in seen] == [sf.WorkerError]


def test_an_error_may_have_any_value() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).offload(
        "asked",
        "answered",
        joiner=lambda value, answer: answer,
        response_value=int,
        on_error=lambda value, error: len(str(error)),
        name="score",
    ).to("out", value=int)
    with TopologyTestDriver(builder.build()) as driver:
        answers = driver.input("answered", str, bytes)
        for value in "xy":
            driver.input("in", str, str).pipe("a", value)
        of_x, of_y = driver.output("asked", str, str).read_all()
        answers.pipe("a", b"boom", headers=(*of_x.headers, ("stoatflow-error", b"boom")))
        assert driver.output("out", str, int).read_value() == 4
        # One that can't be read is an error, too.
        answers.pipe("a", b"boom", headers=of_y.headers)
        assert driver.output("out", str, int).read_value() > 20


def test_an_error_is_retried() -> None:
    with OffloadHarness(retry=sf.Backoff(attempts=2, first="1s", jitter=0), on_error=sf.log_and_continue()) as harness:
        harness.records.pipe("a", "x")
        harness.records.pipe("b", "y")
        of_a, of_b = harness.asked()
        harness.answer(of_a, None, error="busy")
        harness.answer(of_b, None, error="busy")
        harness.driver.advance("1s")
        again = harness.asked()
        assert [(key, headers["stoatflow-attempt"]) for key, _, headers in again] == [("a", "2"), ("b", "2")]
        # An error of the first request comes late: the second one's answer counts.
        harness.answer(of_a, None, error="busy")
        upper(harness, again[0])
        harness.answer(again[1], None, error="still busy")
        assert harness.out() == [("a", "x=X")]
        assert harness.driver.parked("score") == []


def test_an_error_stops_the_application_by_default() -> None:
    with OffloadHarness() as harness:
        harness.records.pipe("a", "x")
        with pytest.raises(sf.ProcessingError, match=r"the worker failed: ValueError: boom .*on_error=") as failed:
            harness.answer(harness.asked()[0], None, error="ValueError: boom")
        assert failed.value.coordinates["node"] == "score"
        assert failed.value.coordinates["topic"] == "in"
        # Nothing of that was committed: the answer is read again, until somebody says what becomes
        # of such records.
        with pytest.raises(sf.ProcessingError, match="ValueError: boom"):
            harness.driver.restart()


def test_a_handler_may_retry_after_a_pause() -> None:
    with OffloadHarness(on_error=sf.Retry(1, backoff="2s", then=sf.DLQ("dead"))) as harness:
        harness.records.pipe("a", "x")
        harness.records.pipe("b", "y")
        for request in harness.asked():
            harness.answer(request, None, error="busy")
        assert [parked.state for parked in harness.driver.parked("score")] == ["pausing", "pausing"]
        harness.driver.advance("2s")
        of_a, of_b = harness.asked()
        assert of_a[2]["stoatflow-attempt"] == "2"
        upper(harness, of_a)
        harness.answer(of_b, None, error="busy")
        assert harness.out() == [("a", "x=X")]
        assert harness.driver.output("dead", str, str).read_key_values_to_list() == [("b", "y")]


def test_a_retry_counts_its_own_requests() -> None:
    how: dict[str, Any] = {"on_error": sf.Retry(1, backoff="0ms", then=sf.DLQ("dead")), "timeout": "1s"}
    # Backoff asks again after a timeout only, Retry once after an error, whatever went before.
    with OffloadHarness(retry=sf.Backoff(attempts=3, first="0ms", on=TimeoutError), **how) as harness:
        harness.records.pipe("a", "x")
        harness.driver.advance("1s")
        asked = []
        while requests := harness.asked():
            asked += [headers["stoatflow-attempt"] for _, _, headers in requests]
            harness.answer(requests[-1], None, error="boom")
        assert asked == ["1", "2", "3"]
        assert len(harness.driver.output("dead").read_all()) == 1
    # It comes behind all that Backoff asks, where that asks again after errors.
    with OffloadHarness(retry=sf.Backoff(attempts=2, first="0ms"), **how) as harness:
        harness.records.pipe("a", "x")
        asked = []
        while requests := harness.asked():
            asked += [headers["stoatflow-attempt"] for _, _, headers in requests]
            harness.answer(requests[-1], None, error="boom")
        assert asked == ["1", "2", "3"]
    with OffloadHarness(retry=sf.Backoff(attempts=3, first="0ms", on=TimeoutError), **how) as harness:
        harness.records.pipe("a", "x")
        harness.answer(harness.asked()[0], None, error="boom")
        harness.driver.crash()
        harness.driver.restart()
        (second,) = harness.asked()
        harness.answer(second, None, error="boom")
        assert (second[2]["stoatflow-attempt"], harness.asked()) == ("2", [])


def test_only_retryable_errors_are_retried() -> None:
    how: dict[str, Any] = {
        "timeout": "1s",
        "retry": sf.Backoff(attempts=2, first="0ms", on=TimeoutError),
        "on_error": lambda value, error: "failed",
    }
    with OffloadHarness(**how) as harness:
        harness.records.pipe("a", "x")
        harness.answer(harness.asked()[0], None, error="boom")
        assert harness.out() == [("a", "failed")]
        harness.records.pipe("a", "y")
        harness.driver.advance("1s")
        assert [headers["stoatflow-attempt"] for _, _, headers in harness.asked()] == ["1", "2"]


def test_while_the_parking_lot_is_full_no_more_are_read() -> None:
    with OffloadHarness(max_parked=2) as harness:
        for value in "vwxyz":
            harness.records.pipe(value, value)
        requests = harness.asked()
        assert [value for _, value, _ in requests] == ["v", "w"]
        upper(harness, requests[0])
        assert [value for _, value, _ in harness.asked()] == ["x"]
        upper(harness, requests[1])
        (request,) = harness.asked()
        assert request[1] == "y"
        # What waits in front is read again after a crash.
        harness.driver.crash()
        harness.driver.restart(lanes=3)
        assert [p.value for p in harness.driver.parked("score")] == ["x", "y"]
        upper(harness, request)
        assert [value for _, value, _ in harness.asked()] == ["z"]
        assert harness.out() == [("v", "v=V"), ("w", "w=W"), ("y", "y=Y")]


@pytest.mark.parametrize("in_epoch", [False, True])
def test_a_crash_in_the_middle_and_other_lanes(in_epoch: bool) -> None:
    with OffloadHarness(
        timeout="10s", retry=sf.Backoff(attempts=2, first="1s", jitter=0), on_timeout=lambda value: "late"
    ) as harness:
        values = [(key, f"{key}{number}") for number in range(3) for key in "abcd"]
        for key, value in values:
            harness.records.pipe(key, value)
        requests = harness.asked()
        # Early ones, an error, and some that are done.
        upper(harness, *requests[4:8])
        harness.answer(requests[0], None, error="boom")
        upper(harness, requests[1])
        given = harness.out()
        if in_epoch:
            with harness.driver.epoch():
                harness.records.pipe("e", "lost with the epoch, and read again")
                upper(harness, requests[2])
                harness.driver.crash()
        else:
            harness.driver.crash()
        harness.driver.advance("1s")
        harness.driver.restart(lanes=5)
        again = harness.asked()
        assert ("a", "a0", "2") in [(key, value, headers["stoatflow-attempt"]) for key, value, headers in again]
        upper(harness, *(each for each in again if each[1] == "a0"), *requests[2:4], *requests[8:])
        given += harness.out()
        harness.driver.crash()
        harness.driver.restart(lanes=2)
        harness.driver.advance("10s")
        harness.driver.advance("1s")
        harness.driver.advance("10s")
        given += harness.out()
        for key in "abcd":
            assert [value for k, value in given if k == key] == [f"{key}{n}={key.upper()}{n}" for n in range(3)]
        assert [value for k, value in given if k == "e"] == (["late"] if in_epoch else [])
        assert harness.driver.parked("score") == []


def test_parked_records_are_exposed() -> None:
    with OffloadHarness(timeout=None) as harness:
        harness.driver.advance(500)
        harness.records.pipe("a", "x", timestamp=7)
        harness.records.pipe("a", "y", timestamp=8)
        first, second = harness.asked()
        harness.driver.advance(100)
        upper(harness, second)
        x, y = harness.driver.parked("score")
        assert x == sf.Parked("a", "x", 7, 500, 1, None, "asked", first[2]["stoatflow-correlation"])
        assert (y.value, y.state) == ("y", "answered")
        with pytest.raises(sf.ConfigError, match=r"no offload named 'price'.*score"):
            harness.driver.parked("price")


def test_a_request_that_can_not_be_written_parks_nothing() -> None:
    how: dict[str, Any] = {"request": lambda v: 1 if v == "bad" else v, "request_value": str, "timeout": "1s"}
    with OffloadHarness(on_error=sf.DLQ("dead"), **how) as harness:
        harness.records.pipe("a", "bad")
        harness.records.pipe("a", "good")
        (request,) = harness.asked()
        assert [parked.value for parked in harness.driver.parked("score")] == ["good"]
        upper(harness, request)
        assert harness.out() == [("a", "good=GOOD")]
        harness.driver.advance("1s")
        (letter,) = harness.driver.output("dead", str, str).read_all()
        assert (letter.value, dict(letter.headers)["__stoatflow.errors.node"]) == ("bad", b"score")
    with OffloadHarness(**how) as harness, pytest.raises(sf.SerdeError, match="'string' can't write"):
        harness.records.pipe("a", "bad")


def test_a_retry_that_cannot_be_written_fails_its_record() -> None:
    asked: list[object] = ["x", 1]
    how: dict[str, Any] = {"request": lambda _: asked.pop(0), "request_value": str, "timeout": None}
    with OffloadHarness(on_error=sf.DLQ("dead"), retry=sf.Backoff(attempts=3, first="0ms"), **how) as harness:
        harness.records.pipe("a", "v")
        harness.answer(harness.asked()[0], None, error="boom")
        assert (harness.asked(), harness.driver.parked("score")) == ([], [])
        assert len(harness.driver.output("dead").read_all()) == 1


def test_a_request_that_is_too_large_parks_nothing() -> None:
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    scored = stream.offload(
        "asked", "answered", request=lambda value: value * 2, request_value=str, response_value=str,
        on_error=sf.DLQ("dead"), timeout=None, name="score",
    )  # fmt: skip
    scored.to("out", value=str)
    with TopologyTestDriver(builder.build(), {"producer.message.max.bytes": 1_000}) as driver:
        for size in (300, 480):
            driver.input("in", str, str).pipe("a", "x" * size)
        assert [len(parked.value) for parked in driver.parked("score")] == [300]
        (letter,) = driver.output("dead", str, str).read_all()
        assert len(letter.value or "") == 480
        reported = dict(letter.headers)["__stoatflow.errors.message"] or b""
        assert b"is larger than the producer may send (1000)" in reported


def test_a_record_without_a_key_is_refused() -> None:
    with OffloadHarness() as harness, pytest.raises(sf.ProcessingError, match=r"without a key.*select_key"):
        harness.records.pipe(None, "x")
    with OffloadHarness(on_error=sf.log_and_continue()) as harness:
        harness.records.pipe(None, "x")
        harness.records.pipe("a", "y")
        assert [value for _, value, _ in harness.asked()] == ["y"]


REFUSED: list[tuple[Callable[[sf.KStream[str, str]], object], str]] = [
    (lambda s: s.offload("q", "r", max_parked=0, response_value=str), r"max_parked=0.*at least 1"),
    (lambda s: s.offload("q", "r", retry=sf.Retry(3), response_value=str), r"needs a Backoff, not Retry"),  # type: ignore[call-overload]
    (lambda s: s.offload("q", "r", timeout="0s", response_value=str), r"offload\(timeout=\)"),
    (lambda s: s.offload("q", "q", response_value=str, name="n"), "names the topic 'q' twice"),
    (lambda s: s.offload("q", "in", response_value=str, name="n"), "the answers to an offload are its own"),
    (lambda s: s.offload("q", "r", request=lambda value: value, response_value=str), "Give request_value="),
    (lambda s: s.offload("q", "r", joiner=sf.value, response_value=str), "reads sf.value"),
    (lambda s: s.offload("q", "r", joiner=lambda value: value, response_value=str), r"\(value, answer\)"),  # type: ignore[arg-type, misc]
    (lambda s: s.offload("q", "r", on_error=lambda value: value, response_value=str), r"\(value, error\)"),  # type: ignore[arg-type, misc]
    (lambda s: s.offload("q", "r", on_timeout="nonsense", response_value=str), "'nonsense' is no error handler"),
]


def built(build: Callable[[sf.KStream[str, str]], object]) -> sf.Topology:
    """A topology of one stream and what is done with it."""
    builder = sf.StreamsBuilder()
    build(builder.stream("in", key=str, value=str))
    return builder.build()


@pytest.mark.parametrize(("build", "message"), REFUSED)
def test_invalid_arguments_are_refused(build: Callable[[sf.KStream[str, str]], object], message: str) -> None:
    with pytest.raises((sf.TopologyError, ValueError), match=message):
        built(build)


async def later(value: str) -> str:
    return value


def test_fallback_functions_are_not_async() -> None:
    builder = sf.StreamsBuilder()
    with pytest.raises(sf.TopologyError, match="only plain functions"):
        builder.stream("in", key=str, value=str).offload("q", "r", on_timeout=later, response_value=str)  # type: ignore[arg-type]


def test_an_async_joiner_is_awaited_though_plain_functions_follow() -> None:
    """What follows in the same chain keeps the interpreter for a batch; the call needs it to end."""

    async def join(value: str, answer: str) -> str:
        await asyncio.sleep(0.01)
        return f"{value}={answer}"

    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=str).map_values(lambda value: value.strip())
    joined = stream.offload("asked", "answered", joiner=join, request_value=str, response_value=str, name="score")
    joined.map_values(lambda value: f"<{value}>").to("out", key=str, value=str)
    with TopologyTestDriver(builder.build(), lanes=2) as driver:
        records, answers = driver.input("in", str, str), driver.input("answered", str, str)
        for key, value in (("a", " 1"), ("b", "2"), ("a", "3 ")):
            records.pipe(key, value)
        for request in driver.output("asked", str, str).read_all():
            answers.pipe(str(request.key), str(request.value).upper(), headers=dict(request.headers))
        out = driver.output("out", str, str).read_key_values_to_list()
    assert sorted(out) == [("a", "<1=1>"), ("a", "<3=3>"), ("b", "<2=2>")]
