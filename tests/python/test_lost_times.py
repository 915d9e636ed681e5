"""At-least-once: rows of stream time are written after the offsets, so a crash may lose the last of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import stoatflow as sf
from committed import Make, read
from concurrency import until
from stoatflow import EmbeddedBroker, EmbeddedRecord

DUE = 10_000


class Remind(sf.ContextualProcessor[str, str, str, str]):
    """Sets a timer with its first record."""

    def init(self, context: sf.ProcessorContext[str, str]) -> None:
        super().init(context)
        self.alarms = context.state_store("alarms")

    def process(self, record: sf.Record[str, str]) -> None:
        if record.timestamp < DUE:
            self.alarms.register(DUE)

    def on_timer(self, timer: sf.Timer) -> None:
        self.context.forward(sf.Record(timer.key, "rung", timer.at))


def rows(broker: EmbeddedBroker, store: str, key: bytes) -> list[EmbeddedRecord]:
    """Rows of a changelog whose keys end like this."""
    return [row for row in broker.read(f"app-{store}-changelog") if row.key is not None and row.key.endswith(key)]


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_timer_does_not_wait_for_the_next_record(
    broker: EmbeddedBroker, make: Make, tmp_path: Path, lanes: int
) -> None:
    builder = sf.StreamsBuilder()
    builder.add_state_store(sf.Stores.timers("alarms", key=str))
    builder.stream("in", key=str, value=str).process(Remind, stores=["alarms"]).to("out", key=str, value=str)
    topology = builder.build()
    settings = {"processing.guarantee": "at_least_once", "lanes.count": lanes}
    broker.create_topic("out", 1)
    for time in (DUE - 1, DUE + 1):
        broker.produce("in", "k", "v", time, partition=1)
        with make(topology, **settings) as app:
            read(app, broker)
    assert len(list(broker.read("out"))) == 1
    # As after a crash between offsets and times: the timer is there, and no task has a stream time.
    [timer, deleted] = rows(broker, "alarms", b"k")
    assert deleted.value is None
    broker.produce("app-alarms-changelog", timer.key, timer.value, timer.timestamp, partition=timer.partition)
    times = rows(broker, "clocks", b"-stream-time")[-1]
    assert (DUE + 1).to_bytes(8, "big") in (times.value or b"")
    broker.produce("app-clocks-changelog", times.key, b"\x01" + 3 * 24 * b"\xff", 0, partition=times.partition)
    shutil.rmtree(tmp_path / "state")
    with make(topology, **settings):
        until(lambda: len(list(broker.read("out"))) == 2)
