"""`offload` in the test driver: order, early and late answers, timeouts, errors, room, crashes; and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

Headers = tuple[tuple[str, "bytes | None"], ...]


class Desk:
    """A driver with an offload named `score`, and the worker's side in the test's hands."""

    def __init__(self, *, lanes: int = 1, sink: Any = str, **how: Any) -> None:
        """`how` is that of `offload`."""
        how.setdefault("joiner", lambda value, answer: f"{value}={answer}")
        builder = sf.StreamsBuilder()
        stream = builder.stream("in", key=str, value=str)
        stream.offload("asked", "answered", response_value=str, name="score", **how).to("out", key=str, value=sink)
        self.driver = TopologyTestDriver(builder.build(), lanes=lanes)
        self.records = self.driver.input("in", str, str)
        self.answers = self.driver.input("answered", str, str)
        self._asked = self.driver.output("asked", str, str)
        self._out = self.driver.output("out", str, sink)

    def __enter__(self) -> Desk:
        """Running already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.driver.close()

    def asked(self) -> list[tuple[str, str, dict[str, str]]]:
        """Requests that went out since the last call: key, value, headers."""
        return [
            (str(r.key), str(r.value), {name: (value or b"").decode() for name, value in r.headers})
            for r in self._asked.read_all()
        ]

    def out(self) -> list[tuple[Any, Any]]:
        """Results since the last call."""
        return self._out.read_key_values_to_list()

    def answer(self, request: tuple[str, str, dict[str, str]], value: str | None, **more: str) -> None:
        """Answer a request; `error=` makes it one."""
        own = {f"stoatflow-{name}": text for name, text in more.items()}
        self.answers.pipe(request[0], value, headers={**request[2], **own})


def upper(desk: Desk, *requests: tuple[str, str, dict[str, str]]) -> None:
    """Answer as a worker would that gives capitals."""
    for request in requests:
        desk.answer(request, request[1].upper())


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_record_waits_for_its_answer(lanes: int) -> None:
    with Desk(lanes=lanes) as desk:
        desk.records.pipe("a", "x", timestamp=5)
        (request,) = desk.asked()
        assert request[:2] == ("a", "x")
        assert request[2]["stoatflow-attempt"] == "1"
        assert request[2]["stoatflow-correlation"].startswith("score/")
        assert desk.out() == []
        upper(desk, request)
        (result,) = desk.driver.output("out", str, str).read_all()
        # Its own time and headers, not the answer's.
        assert (result.key, result.value, result.timestamp, result.headers) == ("a", "x=X", 5, ())
        assert desk.driver.parked("score") == []


@pytest.mark.parametrize("lanes", [1, 3])
def test_results_of_a_key_keep_the_order_of_its_records(lanes: int) -> None:
    with Desk(lanes=lanes) as desk:
        for key, value in (("a", "1"), ("a", "2"), ("b", "3"), ("a", "4")):
            desk.records.pipe(key, value)
        requests = desk.asked()
        upper(desk, requests[3], requests[1])
        assert desk.out() == []
        upper(desk, requests[2])
        assert desk.out() == [("b", "3=3")]
        upper(desk, requests[0])
        assert desk.out() == [("a", "1=1"), ("a", "2=2"), ("a", "4=4")]


def test_unexpected_answers_are_dropped() -> None:
    with Desk() as desk:
        desk.records.pipe("a", "x")
        (request,) = desk.asked()
        desk.answers.pipe("a", "without")
        desk.answers.pipe("a", "foreign", headers={"stoatflow-correlation": "price/0"})
        desk.answers.pipe("b", "of another key", headers=request[2])
        assert desk.out() == []
        upper(desk, request, request)
        assert desk.out() == [("a", "x=X")]


def test_a_timeout_is_retried_and_finally_a_dead_letter() -> None:
    how: dict[str, Any] = {
        "timeout": "10s",
        "retry": sf.Backoff(attempts=3, first="1s", jitter=0),
        "on_timeout": sf.DLQ("dead"),
    }
    with Desk(**how) as desk:
        desk.records.pipe("a", "x")
        (first,) = desk.asked()
        desk.driver.advance("9999ms")
        assert desk.asked() == []
        desk.driver.advance("1ms")
        (parked,) = desk.driver.parked("score")
        assert (parked.state, parked.attempt, parked.due) == ("pausing", 1, 11_000)
        desk.driver.advance("1s")
        (second,) = desk.asked()
        assert (second[2]["stoatflow-attempt"], second[2]["stoatflow-correlation"]) == (
            "2",
            first[2]["stoatflow-correlation"],
        )
        desk.driver.advance("10s")
        desk.driver.advance("2s")
        (third,) = desk.asked()
        assert third[2]["stoatflow-attempt"] == "3"
        assert desk.driver.output("dead").is_empty
        desk.driver.advance("10s")
        letter = desk.driver.output("dead", str, str).read()
        headers = dict(letter.headers)
        assert (letter.key, letter.value) == ("a", "x")
        assert headers["__stoatflow.errors.message"] == b"no answer within 10000 ms, after 3 requests"
        assert headers["__stoatflow.errors.node"] == b"score"
        assert desk.driver.parked("score") == []
        upper(desk, third)
        assert desk.out() == []


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
    with Desk(timeout="10s", retry=sf.Backoff(attempts=2, first="0ms", jitter=0)) as desk:
        desk.records.pipe("a", "x")
        desk.driver.advance("10s")
        first, second = desk.asked()
        assert second[2]["stoatflow-attempt"] == "2"
        upper(desk, first, second)
        assert desk.out() == [("a", "x=X")]


def test_an_error_handler_does_not_handle_timeouts() -> None:
    with Desk(on_error=sf.log_and_continue(), timeout="1s") as desk:
        desk.records.pipe(None, "left out")
        desk.records.pipe("a", "x")
        with pytest.raises(sf.ProcessingError, match=r"no answer within 1000 ms.*on_timeout="):
            desk.driver.advance("1s")


def test_the_handler_of_the_application_decides_about_timeouts() -> None:
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.offload("asked", "answered", response_value=str, timeout="1s", name="score").to("out", value=str)
    with TopologyTestDriver(builder.build(), on_processing_error=sf.DLQ("dead")) as driver:
        driver.input("in", str, str).pipe("a", "x")
        driver.advance("1s")
        assert driver.output("dead", str, str).read_key_values_to_list() == [("a", "x")]


def test_fallback_functions_keep_the_order() -> None:
    with Desk(
        timeout="1s", on_timeout=lambda value: f"{value} timed out", on_error=lambda value, error: f"{value}: {error}"
    ) as desk:
        for value in "xyz":
            desk.records.pipe("a", value)
        requests = desk.asked()
        desk.answer(requests[1], None, error="ValueError: boom")
        upper(desk, requests[2])
        assert desk.out() == []
        desk.driver.advance("1s")
        assert desk.out() == [("a", "x timed out"), ("a", "y: ValueError: boom"), ("a", "z=Z")]


def test_the_error_is_a_worker_error() -> None:
    seen: list[object] = []

    def replaced(value: str, error: sf.WorkerError) -> str:
        seen.append(error)
        return value

    with Desk(on_error=replaced) as desk:
        desk.records.pipe("a", "x")
        desk.answer(desk.asked()[0], None, error="KeyError: 'k'")
        assert desk.out() == [("a", "x")]
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
    with Desk(retry=sf.Backoff(attempts=2, first="1s", jitter=0), on_error=sf.log_and_continue()) as desk:
        desk.records.pipe("a", "x")
        desk.records.pipe("b", "y")
        of_a, of_b = desk.asked()
        desk.answer(of_a, None, error="busy")
        desk.answer(of_b, None, error="busy")
        desk.driver.advance("1s")
        again = desk.asked()
        assert [(key, headers["stoatflow-attempt"]) for key, _, headers in again] == [("a", "2"), ("b", "2")]
        # An error of the first request comes late: the second one's answer counts.
        desk.answer(of_a, None, error="busy")
        upper(desk, again[0])
        desk.answer(again[1], None, error="still busy")
        assert desk.out() == [("a", "x=X")]
        assert desk.driver.parked("score") == []


def test_an_error_stops_the_application_by_default() -> None:
    with Desk() as desk:
        desk.records.pipe("a", "x")
        with pytest.raises(sf.ProcessingError, match=r"the worker failed: ValueError: boom .*on_error=") as failed:
            desk.answer(desk.asked()[0], None, error="ValueError: boom")
        assert failed.value.coordinates["node"] == "score"
        assert failed.value.coordinates["topic"] == "in"
        # Nothing of that was committed: the answer is read again, until somebody says what becomes
        # of such records.
        with pytest.raises(sf.ProcessingError, match="ValueError: boom"):
            desk.driver.restart()


def test_a_handler_may_retry_after_a_pause() -> None:
    with Desk(on_error=sf.Retry(1, backoff="2s", then=sf.DLQ("dead"))) as desk:
        desk.records.pipe("a", "x")
        desk.records.pipe("b", "y")
        for request in desk.asked():
            desk.answer(request, None, error="busy")
        assert [parked.state for parked in desk.driver.parked("score")] == ["pausing", "pausing"]
        desk.driver.advance("2s")
        of_a, of_b = desk.asked()
        assert of_a[2]["stoatflow-attempt"] == "2"
        upper(desk, of_a)
        desk.answer(of_b, None, error="busy")
        assert desk.out() == [("a", "x=X")]
        assert desk.driver.output("dead", str, str).read_key_values_to_list() == [("b", "y")]


def test_a_retry_counts_its_own_requests() -> None:
    how: dict[str, Any] = {"on_error": sf.Retry(1, backoff="0ms", then=sf.DLQ("dead")), "timeout": "1s"}
    # Backoff asks again after a timeout only, Retry once after an error, whatever went before.
    with Desk(retry=sf.Backoff(attempts=3, first="0ms", on=TimeoutError), **how) as desk:
        desk.records.pipe("a", "x")
        desk.driver.advance("1s")
        asked = []
        while requests := desk.asked():
            asked += [headers["stoatflow-attempt"] for _, _, headers in requests]
            desk.answer(requests[-1], None, error="boom")
        assert asked == ["1", "2", "3"]
        assert len(desk.driver.output("dead").read_all()) == 1
    # It comes behind all that Backoff asks, where that asks again after errors.
    with Desk(retry=sf.Backoff(attempts=2, first="0ms"), **how) as desk:
        desk.records.pipe("a", "x")
        asked = []
        while requests := desk.asked():
            asked += [headers["stoatflow-attempt"] for _, _, headers in requests]
            desk.answer(requests[-1], None, error="boom")
        assert asked == ["1", "2", "3"]
    with Desk(retry=sf.Backoff(attempts=3, first="0ms", on=TimeoutError), **how) as desk:
        desk.records.pipe("a", "x")
        desk.answer(desk.asked()[0], None, error="boom")
        desk.driver.crash()
        desk.driver.restart()
        (second,) = desk.asked()
        desk.answer(second, None, error="boom")
        assert (second[2]["stoatflow-attempt"], desk.asked()) == ("2", [])


def test_only_retryable_errors_are_retried() -> None:
    how: dict[str, Any] = {
        "timeout": "1s",
        "retry": sf.Backoff(attempts=2, first="0ms", on=TimeoutError),
        "on_error": lambda value, error: "failed",
    }
    with Desk(**how) as desk:
        desk.records.pipe("a", "x")
        desk.answer(desk.asked()[0], None, error="boom")
        assert desk.out() == [("a", "failed")]
        desk.records.pipe("a", "y")
        desk.driver.advance("1s")
        assert [headers["stoatflow-attempt"] for _, _, headers in desk.asked()] == ["1", "2"]


def test_while_the_parking_lot_is_full_no_more_are_read() -> None:
    with Desk(max_parked=2) as desk:
        for value in "vwxyz":
            desk.records.pipe(value, value)
        requests = desk.asked()
        assert [value for _, value, _ in requests] == ["v", "w"]
        upper(desk, requests[0])
        assert [value for _, value, _ in desk.asked()] == ["x"]
        upper(desk, requests[1])
        (request,) = desk.asked()
        assert request[1] == "y"
        # What waits in front is read again after a crash.
        desk.driver.crash()
        desk.driver.restart(lanes=3)
        assert [p.value for p in desk.driver.parked("score")] == ["x", "y"]
        upper(desk, request)
        assert [value for _, value, _ in desk.asked()] == ["z"]
        assert desk.out() == [("v", "v=V"), ("w", "w=W"), ("y", "y=Y")]


@pytest.mark.parametrize("in_epoch", [False, True])
def test_a_crash_in_the_middle_and_other_lanes(in_epoch: bool) -> None:
    with Desk(
        timeout="10s", retry=sf.Backoff(attempts=2, first="1s", jitter=0), on_timeout=lambda value: "late"
    ) as desk:
        values = [(key, f"{key}{number}") for number in range(3) for key in "abcd"]
        for key, value in values:
            desk.records.pipe(key, value)
        requests = desk.asked()
        # Early ones, an error, and some that are done.
        upper(desk, *requests[4:8])
        desk.answer(requests[0], None, error="boom")
        upper(desk, requests[1])
        given = desk.out()
        if in_epoch:
            with desk.driver.epoch():
                desk.records.pipe("e", "lost with the epoch, and read again")
                upper(desk, requests[2])
                desk.driver.crash()
        else:
            desk.driver.crash()
        desk.driver.advance("1s")
        desk.driver.restart(lanes=5)
        again = desk.asked()
        assert ("a", "a0", "2") in [(key, value, headers["stoatflow-attempt"]) for key, value, headers in again]
        upper(desk, *(each for each in again if each[1] == "a0"), *requests[2:4], *requests[8:])
        given += desk.out()
        desk.driver.crash()
        desk.driver.restart(lanes=2)
        desk.driver.advance("10s")
        desk.driver.advance("1s")
        desk.driver.advance("10s")
        given += desk.out()
        for key in "abcd":
            assert [value for k, value in given if k == key] == [f"{key}{n}={key.upper()}{n}" for n in range(3)]
        assert [value for k, value in given if k == "e"] == (["late"] if in_epoch else [])
        assert desk.driver.parked("score") == []


def test_parked_records_are_exposed() -> None:
    with Desk(timeout=None) as desk:
        desk.driver.advance(500)
        desk.records.pipe("a", "x", timestamp=7)
        desk.records.pipe("a", "y", timestamp=8)
        first, second = desk.asked()
        desk.driver.advance(100)
        upper(desk, second)
        x, y = desk.driver.parked("score")
        assert x == sf.Parked("a", "x", 7, 500, 1, None, "asked", first[2]["stoatflow-correlation"])
        assert (y.value, y.state) == ("y", "answered")
        with pytest.raises(sf.ConfigError, match=r"no offload named 'price'.*score"):
            desk.driver.parked("price")


def test_a_request_that_can_not_be_written_parks_nothing() -> None:
    how: dict[str, Any] = {"request": lambda v: 1 if v == "bad" else v, "request_value": str, "timeout": "1s"}
    with Desk(on_error=sf.DLQ("dead"), **how) as desk:
        desk.records.pipe("a", "bad")
        desk.records.pipe("a", "good")
        (request,) = desk.asked()
        assert [parked.value for parked in desk.driver.parked("score")] == ["good"]
        upper(desk, request)
        assert desk.out() == [("a", "good=GOOD")]
        desk.driver.advance("1s")
        (letter,) = desk.driver.output("dead", str, str).read_all()
        assert (letter.value, dict(letter.headers)["__stoatflow.errors.node"]) == ("bad", b"score")
    with Desk(**how) as desk, pytest.raises(sf.SerdeError, match="'string' can't write"):
        desk.records.pipe("a", "bad")


def test_a_retry_that_cannot_be_written_fails_its_record() -> None:
    asked: list[object] = ["x", 1]
    how: dict[str, Any] = {"request": lambda _: asked.pop(0), "request_value": str, "timeout": None}
    with Desk(on_error=sf.DLQ("dead"), retry=sf.Backoff(attempts=3, first="0ms"), **how) as desk:
        desk.records.pipe("a", "v")
        desk.answer(desk.asked()[0], None, error="boom")
        assert (desk.asked(), desk.driver.parked("score")) == ([], [])
        assert len(desk.driver.output("dead").read_all()) == 1


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
    with Desk() as desk, pytest.raises(sf.ProcessingError, match=r"without a key.*select_key"):
        desk.records.pipe(None, "x")
    with Desk(on_error=sf.log_and_continue()) as desk:
        desk.records.pipe(None, "x")
        desk.records.pipe("a", "y")
        assert [value for _, value, _ in desk.asked()] == ["y"]


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
