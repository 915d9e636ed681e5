"""The application: word count, windows, sessions, joins, grouped tables, a processor, a bank, dynamic topics.

Runs in its own process: `application.py ADDRESS NAME STATE LANES GUARANTEE [--follow]`. It prints its state and lag
as JSON lines and ends when there is no lag; with `--follow` only by a signal. All stores and topics have explicit
names.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
import threading
from typing import Any

import stoatflow as sf
from stoatflow import PunctuationType, Record, Stores

WINDOW_MS, GRACE_MS = 10_000, 5_000
CLOSED_MS, ADVANCE_MS = 20_000, 10_000
GAP_MS = 8_000
PAIR_MS, PAIR_GRACE_MS = 2_000, 1_000
LATE_GRACE_MS = 20_000
MEET_MS, MEET_GRACE_MS = 3_000, 12 * 3_600_000
REPORT_MS = 30_000
ALARM_MS, SNOOZE_MS, BEAT_MS = 60_000, 40, 500
INPUTS = {"lines": 3, "ticks": 1, "readings": 3, "users": 3, "clicks": 3, "views": 3, "orders": 3, "products": 3,
          "transfers": 3}  # fmt: skip
OUTPUTS = dict.fromkeys(
    ("words", "sums", "closed", "sessions", "pairs", "totals", "reports", "updates", "finals", "visits", "meetings",
     "cities", "people", "named", "odd", "even", "letters", "alarms", "asked",
     "rung"), 3) | {"balances": 1, "beats": 1}  # fmt: skip
"""Names and partitions."""
BAD_LINE, BAD_WORD = "w11", "w13"
"""Lines that begin with the first word fail where they are read, words equal to the second one after an exchange."""


class Totals(sf.ContextualProcessor[str, int, str, Any]):
    """Counts the records of a key; reports the sum since the last report, and resets it, by event time."""

    def init(self, context: Any) -> None:
        """Get the stores, register the schedule."""
        super().init(context)
        self.totals = context.state_store("totals")
        self.since = context.state_store("since")
        context.schedule(f"{REPORT_MS}ms", PunctuationType.STREAM_TIME, self.report)

    def process(self, record: Record[str, int]) -> None:
        """Count and add up."""
        seen = self.totals.get(record.key, 0) + 1
        self.totals.put(record.key, seen)
        self.since.put(record.key, self.since.get(record.key, 0) + record.value)
        self.context.forward(record.replace(value=seen), child="totals")

    def report(self, timestamp: int) -> None:
        """Report each key's sum once."""
        for key, total in list(self.since.all()):
            self.since.delete(key)
            self.context.forward(Record(key, total, timestamp), child="reports")


class Alarms(sf.ContextualProcessor[str, int, str, int]):
    """Registers an alarm for each key at the next full minute of event time."""

    def init(self, context: Any) -> None:
        """Get the timer store, and the store of requested alarms."""
        super().init(context)
        self.alarms = context.state_store("alarms")
        self.asked = context.state_store("alarms-asked")

    def process(self, record: Record[str, int]) -> None:
        """Register once: other topics may have moved event time beyond a minute for which more ticks follow."""
        at = (record.timestamp // ALARM_MS + 1) * ALARM_MS
        if at > self.asked.get(record.key, 0):
            self.asked.put(record.key, at)
            self.alarms.register(at)

    def on_timer(self, timer: sf.Timer[str]) -> None:
        """Forward the alarm."""
        self.context.forward(Record(timer.key, timer.at, timer.at))


class Snooze(sf.ContextualProcessor[str, str, str, int]):
    """Registers an alarm for each word a moment from now, by the machine's clock, and reports the request."""

    def init(self, context: Any) -> None:
        """Get the timer store."""
        super().init(context)
        self.alarms = context.state_store("snooze")

    def process(self, record: Record[str, str]) -> None:
        """One alarm for all requests within ten milliseconds; each request is reported."""
        at = (self.context.system_time_ms + SNOOZE_MS) // 10 * 10
        self.alarms.register(at, domain="processing")
        self.context.forward(Record(record.key, at, record.timestamp), child="asked")

    def on_timer(self, timer: sf.Timer[str]) -> None:
        """Forward the alarm."""
        self.context.forward(Record(timer.key, timer.at, timer.at), child="rung")


def ms(duration: int) -> str:
    """A duration in the DSL's format."""
    return f"{duration}ms"


def topology(name: str) -> sf.Topology:
    """All parts, with topics `<name>-<topic>`."""
    builder = sf.StreamsBuilder()
    _words(builder, name)
    _ticks(builder, name)
    _readings(builder, name)
    _tables(builder, name)
    _bank(builder, name)
    _alarms(builder, name)
    return builder.build()


def _words(builder: sf.StreamsBuilder, name: str) -> None:
    words = builder.stream(f"{name}-lines", key=bytes, value=str).flat_map_values(sf.value.str.split())
    words.group_by(sf.value, key=str, value=str).count(store="words").to_stream().to(
        f"{name}-words", key=str, value=int
    )
    letters = sf.DLQ(f"{name}-letters")
    lines = builder.stream(f"{name}-lines", key=bytes, value=str)
    lines.foreach(lambda _key, line: refuse(line.split()[0], BAD_LINE), on_error=letters)
    moved = words.select_key(sf.value).repartition(key=str, value=str, name="moved")
    moved.foreach(lambda word, _: refuse(word, BAD_WORD), on_error=letters)


def refuse(word: str, bad: str) -> None:
    """Raise for a word that goes to the dead letter topic."""
    if word == bad:
        raise ValueError(word)


def _ticks(builder: sf.StreamsBuilder, name: str) -> None:
    """One partition in order of time: nothing is late, whatever the lanes do."""
    ticks = builder.stream(f"{name}-ticks", key=str, value=dict)
    numbers = ticks.map_values(lambda tick: int(tick["v"])).group_by_key(key=str, value=int)
    (
        numbers.windowed_by(sf.TimeWindows(ms(WINDOW_MS), grace=ms(GRACE_MS)))
        .reduce(lambda one, two: one + two, store="sums")
        .suppress(sf.Suppressed.until_window_closes(), name="sums-final")
        .to_stream()
        .to(f"{name}-sums")
    )
    (
        numbers.windowed_by(sf.TimeWindows(ms(CLOSED_MS), advance=ms(ADVANCE_MS), grace="0ms"))
        .emit_strategy(sf.EmitStrategy.on_window_close())
        .count(store=sf.Materialized("closed", retention="1d"))
        .to_stream()
        .to(f"{name}-closed")
    )
    (
        numbers.windowed_by(sf.SessionWindows(ms(GAP_MS), grace="1m"))
        .count(store="sessions")
        .to_stream()
        .to(f"{name}-sessions")
    )
    left = ticks.filter(sf.value["side"] == "l").map_values(sf.value["id"].cast("str"))
    right = ticks.filter(sf.value["side"] == "r").map_values(sf.value["id"].cast("str"))
    windows = sf.JoinWindows(ms(PAIR_MS), grace=ms(PAIR_GRACE_MS))
    left.outer_join(
        right, lambda one, two: f"{one}|{two}", windows, joined=sf.StreamJoined(str, str, str, name="pairs")
    ).to(f"{name}-pairs", key=str, value=str)
    for store in ("totals", "since"):
        builder.add_state_store(Stores.persistent_key_value(store, key=str, value=int))
    counted = ticks.map_values(lambda tick: int(tick["v"])).process(Totals, stores=["totals", "since"])
    counted.to(f"{name}-totals", key=str, value=int, name="totals")
    counted.to(f"{name}-reports", key=str, value=int, name="reports")


def _readings(builder: sf.StreamsBuilder, name: str) -> None:
    """Three partitions, some records late, some null: results depend on the order, so both sides are written."""
    counts = (
        builder.stream(f"{name}-readings", key=str, value=int)
        .group_by_key()
        .windowed_by(sf.TimeWindows(ms(WINDOW_MS), grace=ms(LATE_GRACE_MS)))
        .count(store="readings")
    )
    counts.to_stream().to(f"{name}-updates")
    counts.suppress(sf.Suppressed.until_window_closes(), name="readings-final").to_stream().to(f"{name}-finals")


def _tables(builder: sf.StreamsBuilder, name: str) -> None:
    users = builder.table(f"{name}-users", key=str, value=dict, store="users")
    clicks = builder.stream(f"{name}-clicks", key=str, value=str)
    views = builder.stream(f"{name}-views", key=str, value=str)
    clicks.left_join(users, lambda click, user: f"{click}|{user['version'] if user else None}").to(
        f"{name}-visits", key=str, value=str
    )
    clicks.outer_join(
        views,
        lambda one, two: f"{one}|{two}",
        sf.JoinWindows(ms(MEET_MS), grace=ms(MEET_GRACE_MS)),
        joined=sf.StreamJoined(str, str, str, name="meetings"),
    ).to(f"{name}-meetings", key=str, value=str)
    clicks.to(lambda _key, value, _context: f"{name}-{'odd' if int(value) % 2 else 'even'}", key=str, value=str)
    by_city = users.group_by(lambda _key, user: (user["city"], user["amount"]), key=str, value=int)
    by_city.count(store="people").to_stream().to(f"{name}-people", key=str, value=int)
    by_city.aggregate(
        lambda: 0, lambda _key, v, agg: agg + v, lambda _key, v, agg: agg - v, store="cities", value=int
    ).to_stream().to(f"{name}-cities", key=str, value=int)
    orders = builder.table(f"{name}-orders", key=str, value=dict, store="orders")
    products = builder.table(f"{name}-products", key=str, value=str, store="products")
    named = orders.left_join(
        products,
        lambda order, product: f"{order['amount']}|{product}",
        foreign_key=lambda order: order["product"],
        store=sf.Materialized("named", value=str),
        name="named",
    )
    named.to_stream().to(f"{name}-named", key=str, value=str)


def _bank(builder: sf.StreamsBuilder, name: str) -> None:
    """Transfers between accounts in other lanes; balances go to one partition, so that a reader sees every cut."""
    (
        builder.stream(f"{name}-transfers", key=str, value=dict)
        .flat_map(lambda _key, t: [(t["from"], -t["amount"]), (t["to"], t["amount"])])
        .group_by_key(key=str, value=int)
        .reduce(lambda one, two: one + two, store="accounts")
        .to_stream()
        .to(f"{name}-balances", key=str, value=int)
    )


def _alarms(builder: sf.StreamsBuilder, name: str) -> None:
    for store in ("alarms", "snooze"):
        builder.add_state_store(Stores.timers(store, key=str))
    ticks = builder.stream(f"{name}-ticks", key=str, value=dict).map_values(lambda tick: int(tick["v"]))
    builder.add_state_store(Stores.persistent_key_value("alarms-asked", key=str, value=int))
    ticks.process(Alarms, stores=["alarms", "alarms-asked"]).to(f"{name}-alarms", key=str, value=int)
    words = builder.stream(f"{name}-lines", key=bytes, value=str).map_values(lambda line: line.split()[0])
    snoozing = (
        words.select_key(sf.value).repartition(key=str, value=str, name="first").process(Snooze, stores=["snooze"])
    )
    for topic in ("asked", "rung"):
        snoozing.to(f"{name}-{topic}", key=str, value=int, name=topic)
    builder.scheduled("beat", every=ms(BEAT_MS), catch_up="all", max_catch_up=100_000).to(
        f"{name}-beats", key=str, value=int
    )


def main() -> int:
    """Run the application and report its progress."""
    parser = argparse.ArgumentParser()
    for argument in ("address", "name", "state", "lanes", "guarantee"):
        parser.add_argument(argument)
    parser.add_argument("--follow", action="store_true")
    parser.add_argument("--client", default="native")
    given = parser.parse_args()
    config = {
        "application.id": given.name,
        "bootstrap.servers": given.address,
        "state.dir": given.state,
        "lanes.count": int(given.lanes),
        "processing.guarantee": given.guarantee,
        "statestore.cache.max.bytes": 0,
        "metadata.max.age.ms": 300,
        "emit.interval.ms.kstreams.windowed.aggregation": 0,
        "emit.interval.ms.kstreams.outer.join.spurious.results.fix": 0,
        "kafka.client": given.client,
    }
    if given.client == "librdkafka":
        config |= {"producer.linger.ms": 1, "consumer.fetch.wait.max.ms": 50}
    app = sf.StoatFlow(topology(given.name), config)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    app.start()
    try:
        while not app.wait(0.02) and not stop.is_set():
            lag: int | None = None
            if str(app.state) == "RUNNING":
                with contextlib.suppress(sf.StoatFlowError):
                    lag = app.lag()
            sys.stdout.write(
                json.dumps(
                    {
                        "state": str(app.state),
                        "lag": lag,
                        "committed": (numbers := app.metrics())["records_committed"],
                        "restarts": numbers["restarts"],
                    }
                )
                + "\n"
            )
            sys.stdout.flush()
            if lag == 0 and not given.follow:
                break
    finally:
        app.close()
    if app.error is not None:
        raise app.error
    return 0


if __name__ == "__main__":
    sys.exit(main())
