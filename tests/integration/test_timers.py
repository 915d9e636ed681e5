"""Timers on a real broker: one that is due in days is kept, although a broker accepts no records of the future."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from counting import until
from topics import KafkaTopics

import stoatflow as sf
from stoatflow import Stores

DAYS_MS = 3 * 86_400_000


class Alarm(sf.ContextualProcessor[str, str, str, int]):
    """Registers a timer that is due in days, and one that is due immediately."""

    def init(self, context: Any) -> None:
        super().init(context)
        self.timers = context.state_store("alarms")

    def process(self, record: sf.Record[str, str]) -> None:
        now = self.context.system_time_ms
        self.timers.register(now + DAYS_MS, domain="processing")
        self.timers.register(now, domain="processing")

    def on_timer(self, timer: sf.Timer[str]) -> None:
        self.context.forward(sf.Record(timer.key, timer.at, 0))


def test_a_timer_that_is_due_in_days(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    for topic in ("in", "out"):
        kafka.create(f"{name}-{topic}")
    builder = sf.StreamsBuilder()
    builder.add_state_store(Stores.timers("alarms", key=str))
    given = builder.stream(f"{name}-in", key=str, value=str)
    given.process(Alarm, stores=["alarms"]).to(f"{name}-out", key=str, value=int)
    kafka.write(f"{name}-in", ["x"], key="k")
    settings = {"bootstrap.servers": kafka.address, "application.id": name, "state.dir": tmp_path}
    with sf.StoatFlow(builder.build(), settings):
        until(lambda: kafka.count(f"{name}-out") == 1, "the one that is due has fired")
    last = {row.key: row.value for row in kafka.read(f"{name}-alarms-changelog")}
    assert [value is None for value in last.values()].count(False) == 1, last
