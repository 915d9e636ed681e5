"""Two instances of one application: the new one takes over, the old one reports it and stops, the result is exact."""

from __future__ import annotations

import threading
import time
from functools import partial
from pathlib import Path

import pytest
from counting import (
    PATIENCE_S,
    by_hand,
    check_every_update,
    check_nothing_lost,
    lines,
    make,
    table,
    until,
    until_consumed,
    until_running,
)
from topics import KafkaTopics

from stoatflow import EmbeddedBroker, FencedError, StoatFlow, StreamsBuilder

# The old instance learns of it at its next commit, which an idle engine makes every 5 s, and a busy one all
# the time. The rest is for a machine that is held up.
NOTICE_S, BUSY_NOTICE_S = 60.0, 20.0
# How long a new instance waits for one that has not ended cleanly.
WAIT_S = 2.0
TRIES = 5


def running(app: StoatFlow) -> bool:
    return str(app.state) == "RUNNING"


class Feeder:
    """Writes lines until it is stopped; `given` holds what it wrote."""

    def __init__(self, kafka: KafkaTopics, topic: str) -> None:
        self.given: list[str] = []
        self._write = partial(kafka.write, topic)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._feed)

    def once(self, seed: int, count: int = 300) -> None:
        more = lines(seed, count)
        self._write(more)
        self.given += more

    def _feed(self) -> None:
        for seed in range(1000):
            if self._stop.wait(0.05):
                return
            self.once(seed, 200)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(PATIENCE_S)


def check(kafka: KafkaTopics, name: str, guarantee: str, given: list[str]) -> None:
    rows = kafka.read(f"{name}-out")
    if guarantee == "exactly_once_v2":
        check_every_update(rows, given)
        assert table(kafka.read(f"{name}-counts-changelog")) == by_hand(given)
    else:
        check_nothing_lost(rows, given)
    assert kafka.committed(name, f"{name}-in") == kafka.ends(f"{name}-in")


@pytest.mark.parametrize("busy", [True, False], ids=["busy", "idle"])
@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_newcomer_fences_the_older_instance(
    kafka: KafkaTopics, name: str, tmp_path: Path, guarantee: str, busy: bool
) -> None:
    kafka.create(f"{name}-in", 4)
    kafka.create(f"{name}-out", 4)
    feeder = Feeder(kafka, f"{name}-in")
    older = make(kafka.address, name, tmp_path / "older", processing_guarantee=guarantee)
    newer = make(kafka.address, name, tmp_path / "newer", processing_guarantee=guarantee, lanes_count=3)
    try:
        older.start()
        feeder.once(2000)
        if busy:
            feeder.start()
        until(lambda: older.metrics()["records_committed"] >= 300, "the older one works")
        newer.start()
        until_running(newer)
        noticed = until(lambda: str(older.state) == "ERROR", "the older one stops", NOTICE_S)
        assert not busy or noticed < BUSY_NOTICE_S
        with pytest.raises(FencedError, match="took over"):
            older.wait(PATIENCE_S)
        feeder.stop()
        feeder.once(3000)
        until_consumed(newer)
        assert running(newer)
    finally:
        feeder.stop()
        newer.close()
        older.close()
    check(kafka, name, guarantee, feeder.given)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_newcomer_waits_for_the_lock_of_the_state_directory(
    kafka: KafkaTopics, name: str, tmp_path: Path, guarantee: str, capfd: pytest.CaptureFixture[str]
) -> None:
    kafka.create(f"{name}-in", 2)
    kafka.create(f"{name}-out", 2)
    given = lines(1, 500)
    kafka.write(f"{name}-in", given)
    older = make(kafka.address, name, tmp_path, processing_guarantee=guarantee)
    newer = make(kafka.address, name, tmp_path, processing_guarantee=guarantee)
    try:
        older.start()
        until_consumed(older)
        newer.start()
        # It has opened the producer (which fences the old instance) and may not touch the directory before
        # that one ends.
        until_running(newer)
        # Logged once, or not at all: if the new instance was delayed, the old one has ended before it looks.
        assert capfd.readouterr().err.count("to release the state directory") <= 1
        # It releases the directory first, and then reports its end.
        until(lambda: str(older.state) == "ERROR", "the older one has ended")
        with pytest.raises(FencedError):
            older.wait(PATIENCE_S)
        more = lines(2, 500)
        kafka.write(f"{name}-in", more)
        until_consumed(newer)
    finally:
        newer.close()
        older.close()
    check(kafka, name, guarantee, given + more)


def test_a_stop_during_the_wait_for_the_state_directory_works(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    """An application on another broker holds the directory and is never fenced: a stop must not wait for it."""
    kafka.create(f"{name}-in")
    kafka.create(f"{name}-out")
    with EmbeddedBroker(tmp_path / "broker") as other:
        other.create_topic(f"{name}-in")
        other.create_topic(f"{name}-out")
        waiting = make(kafka.address, name, tmp_path)
        with make(f"embedded:{other.path}", name, tmp_path) as holder:
            until_running(holder)
            waiting.start()
            until(lambda: f"{name}-counts-changelog" in kafka.topics(), "it is on its way")
            assert not waiting.wait(0.5)
            assert str(waiting.state) == "STARTING"
            began = time.monotonic()
            assert waiting.close(timeout="60s")
            assert time.monotonic() - began < 50.0
            assert waiting.error is None
            assert running(holder)


def test_at_least_once_a_newcomer_waits_until_the_older_is_silent(
    kafka: KafkaTopics, name: str, tmp_path: Path
) -> None:
    """Outputs of the old instance are not fenced: the new one starts when they have ended."""
    for topic in ("in", "out-older", "out-newer"):
        kafka.create(f"{name}-{topic}", 2)

    def instance(which: str) -> StoatFlow:
        builder = StreamsBuilder()
        builder.stream(f"{name}-in").to(f"{name}-out-{which}")
        # By its own commits it would learn of the new instance only after a minute.
        config = {"application.id": name, "bootstrap.servers": kafka.address, "state.dir": tmp_path / which}
        return StoatFlow(
            builder.build(), config | {"processing.guarantee": "at_least_once", "commit.interval.ms": 50_000}
        )

    def count(which: str) -> int:
        return kafka.count(f"{name}-out-{which}")

    feeder = Feeder(kafka, f"{name}-in")
    older, newer = instance("older"), instance("newer")
    try:
        older.start()
        feeder.start()
        until(lambda: count("older") >= 300, "the older one works")
        newer.start()
        until(lambda: count("newer") > 0, "the newer one works")
        silent = count("older")
        with pytest.raises(FencedError, match="took over"):
            older.wait(PATIENCE_S)
        until(lambda: count("newer") >= 1000, "the newer one goes on")
        assert count("older") == silent
    finally:
        feeder.stop()
        newer.close()
        older.close()


def test_at_least_once_waits_only_after_an_end_that_was_not_clean(
    kafka: KafkaTopics, name: str, tmp_path: Path
) -> None:
    def start(one: str, number: int) -> tuple[StoatFlow, float]:
        app = make(kafka.address, one, tmp_path / str(number), processing_guarantee="at_least_once")
        began = time.monotonic()
        app.start()
        until_running(app)
        return app, time.monotonic() - began

    def begin(one: str) -> tuple[StoatFlow, float, float]:
        """A first start, and one after a clean end: the running application, and the durations of both starts."""
        kafka.create(f"{one}-in", 2)
        kafka.create(f"{one}-out", 2)
        first, fresh = start(one, 1)
        kafka.write(f"{one}-in", lines(1, 100))
        until_consumed(first)
        assert first.close()
        second, after_clean = start(one, 2)
        return second, fresh, after_clean

    # A single slow start may be the machine's fault, since other tests share it; a start that waits is slow
    # every time.
    for attempt in range(TRIES):
        one = f"{name}-{attempt}"
        second, fresh, after_clean = begin(one)
        if max(fresh, after_clean) < WAIT_S:
            break
        assert second.close()
    assert fresh < WAIT_S
    assert after_clean < WAIT_S
    kafka.write(f"{one}-in", lines(2, 100))
    until_consumed(second)
    third, beside = start(one, 3)
    with pytest.raises(FencedError):
        second.wait(PATIENCE_S)
    assert third.close()
    assert beside >= WAIT_S
