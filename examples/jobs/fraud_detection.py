"""Cards that pay too often, or go quiet in the middle: sessions, a processor and timers.

A session of payments ends half an hour after the last one. Four payments in a session, or more than 500 in total, lock
the card; a timer unlocks it an hour later, even after a crash. `python examples/jobs/fraud_detection.py` runs it in the
test driver.
"""

from __future__ import annotations

from typing import Any

import stoatflow as sf
from stoatflow import Record, Stores, Timer
from stoatflow.testing import TopologyTestDriver

MINUTE = 60_000
Session = dict[str, int]


class Lock(sf.ContextualProcessor[str, Session, str, str]):
    """Locks a card once, and unlocks it after an hour."""

    @classmethod
    def stores(cls) -> list[sf.StoreBuilder[str, Any]]:
        """Its stores: locked cards, and timers for the end of their locks."""
        return [Stores.persistent_key_value("locked", key=str, value=int), Stores.timers("unlock", key=str)]

    def init(self, context: sf.ProcessorContext[str, str]) -> None:
        """Get the stores."""
        super().init(context)
        self.locked = context.state_store("locked")
        self.unlock = context.state_store("unlock")

    def process(self, record: Record[str, Session]) -> None:
        """Check a session that has grown."""
        session = record.value or {"payments": 0, "sum": 0}
        suspicious = session["payments"] >= 4 or session["sum"] > 500
        if suspicious and self.locked.get(record.key) is None:
            until = record.timestamp + 60 * MINUTE
            self.locked.put(record.key, until)
            self.unlock.register(until)
            self.context.forward(record.replace(value="locked"))

    def on_timer(self, timer: Timer[str]) -> None:
        """Unlock the card after an hour."""
        self.locked.delete(timer.key)
        self.context.forward(Record(timer.key, "unlocked", timer.at))


def build() -> sf.Topology:
    """Payments in, locks out."""
    builder = sf.StreamsBuilder()
    payments = builder.stream("payments", key=str, value=int)
    sessions = (
        payments.group_by_key()
        .windowed_by(sf.SessionWindows("30m", grace="0s"))
        .aggregate(
            lambda: {"payments": 0, "sum": 0},
            lambda card, amount, seen: {"payments": seen["payments"] + 1, "sum": seen["sum"] + amount},
            lambda card, one, two: {name: one[name] + two[name] for name in one},
            store="sessions",
            value=dict,
        )
    )
    # When a session grows, its row with the old times is deleted first: null.
    (
        sessions.to_stream(lambda windowed, seen: windowed.key)
        .filter(sf.value.is_not_null())
        .process(Lock)
        .to("locks", key=str, value=str)
    )
    return builder.build()


topology = build()


def main() -> None:
    """Two cards, an afternoon."""
    with TopologyTestDriver(topology) as driver:
        payments = driver.input("payments", str, int)
        for minute in (0, 5, 9, 12):
            payments.pipe("often", 10, timestamp=minute * MINUTE)
        payments.pipe("rarely", 300, timestamp=14 * MINUTE)
        driver.crash()
        driver.restart()
        payments.pipe("rarely", 30, timestamp=70 * MINUTE)
        payments.pipe("rarely", 480, timestamp=75 * MINUTE)
        for lock in sorted(driver.output("locks", str, str), key=lambda lock: lock.timestamp):
            print(f"minute {lock.timestamp // MINUTE}: {lock.key} {lock.value}")


if __name__ == "__main__":
    main()
