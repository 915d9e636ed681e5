"""Checked by mypy and pyright, never run: the keys of timers have a type."""

from __future__ import annotations

from typing import Any

from typing_extensions import assert_type

import stoatflow as sf

assert_type(sf.Stores.timers("alarms", key=str), sf.StoreBuilder[str, bytes])


class Remind(sf.ContextualProcessor[str, int, str, str]):
    """What a processor does with timers."""

    def init(self, context: Any) -> None:
        self.alarms: sf.TimerStore[str] = context.state_store("alarms")

    def process(self, record: sf.Record[str, int]) -> None:
        self.alarms.register(record.timestamp + 5)
        self.alarms.register(record.timestamp + 5, key="k", domain="processing")
        assert_type(self.alarms.pending("k"), list[sf.Timer[str]])
        self.alarms.register(record.timestamp, key=5)  # type: ignore[arg-type]
        self.alarms.cancel(record.timestamp, domain="stream")  # type: ignore[arg-type]
        self.alarms.register(5.0)  # type: ignore[arg-type]

    def on_timer(self, timer: sf.Timer[str]) -> None:
        assert_type(timer.key, str)
        assert_type(timer.at, int)
        assert_type(timer.domain, sf.TimeDomain)
