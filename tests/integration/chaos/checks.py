"""Compares what a reader of committed records finds with what is expected.

Takes rows of topics, returns assertions that say what is lost, what is duplicated and what nobody wrote. Keys of
windows are decoded by hand, not by the engine's serdes.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import TypeVar

from topics import KafkaTopics, Row
from transactions import Transaction, committed_on

from chaos import alarms, bank, expected
from chaos import application as app
from chaos.inputs import END, Inputs
from chaos.inputs import read_long as long

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


def text(data: bytes) -> str:
    """UTF-8."""
    return data.decode()


def windowed(data: bytes) -> tuple[str, int]:
    """Key and start."""
    return data[:-8].decode(), long(data[-8:])


def stored_window(data: bytes) -> tuple[str, int]:
    """Key and start, as in the changelog of a window store: followed by a four-byte sequence number."""
    assert data[-4:] == b"\0\0\0\0"
    return windowed(data[:-4])


def session(data: bytes) -> tuple[str, int, int]:
    """Key, start and end; the end comes first."""
    return data[:-16].decode(), long(data[-8:]), long(data[-16:-8])


class Found:
    """The topics of one application."""

    def __init__(self, kafka: KafkaTopics, name: str) -> None:
        self._kafka, self._name = kafka, name
        self._read: dict[str, list[Row]] = {}
        self._transactions: dict[str, list[Transaction]] = {}

    def rows(self, topic: str) -> list[Row]:
        """All committed rows, read once."""
        if topic not in self._read:
            self._read[topic] = self._kafka.read(f"{self._name}-{topic}")
        return self._read[topic]

    def transactions(self, topic: str) -> list[Transaction]:
        """The committed transactions of a topic with one partition, read once."""
        if topic not in self._transactions:
            self._transactions[topic] = committed_on(self._kafka.address, f"{self._name}-{topic}")
        return self._transactions[topic]

    def lists(self, topic: str, key: Callable[[bytes], K], value: Callable[[bytes], V]) -> dict[K, list[V | None]]:
        """All values of each key, in order."""
        found: dict[K, list[V | None]] = defaultdict(list)
        home: dict[K, int] = {}
        for row in self.rows(topic):
            assert row.key is not None
            name = key(row.key)
            assert home.setdefault(name, row.partition) == row.partition, f"{topic}: {name} is in two partitions"
            found[name].append(None if row.value is None else value(row.value))
        return dict(found)

    def table(self, topic: str, key: Callable[[bytes], K], value: Callable[[bytes], V]) -> dict[K, V]:
        """The last value of each key."""
        lists = self.lists(topic, key, value)
        return {name: values[-1] for name, values in lists.items() if values[-1] is not None}

    def pairs(self, topic: str) -> Counter[tuple[str, str]]:
        """Keys and values as text, with their number of occurrences."""
        return Counter((text(row.key or b""), text(row.value or b"")) for row in self.rows(topic))


def same(what: str, found: Mapping[K, V], wanted: Mapping[K, V]) -> list[str]:
    """Compares two tables."""
    wrong = [key for key in found.keys() | wanted.keys() if found.get(key) != wanted.get(key)]
    reported = [f"{key}: {found.get(key)} instead of {wanted.get(key)}" for key in sorted(wrong, key=repr)[:8]]
    return [f"{what}: {len(wrong)} of {len(wanted)} are wrong: {'; '.join(reported)}"] if wrong else []


def same_counts(what: str, found: Counter[K], wanted: Counter[K]) -> list[str]:
    """Compares two multisets: what is lost, what occurs too often."""
    lost, more = wanted - found, found - wanted
    if not lost and not more:
        return []
    lost_keys, more_keys = sorted(lost, key=repr)[:8], sorted(more, key=repr)[:8]
    return [f"{what}: {lost.total()} of {wanted.total()} lost: {lost_keys}; {more.total()} too many: {more_keys}"]


def steps(what: str, lists: Mapping[K, list[int | None]], wanted: Mapping[K, int]) -> list[str]:
    """Each key counts 1, 2, 3... up to the expected value: every update once."""
    wrong = [
        f"{key}: {lists.get(key, [])[-6:]} ({len(lists.get(key, []))} updates), wanted 1..{wanted.get(key, 0)}"
        for key in sorted(lists.keys() | wanted.keys(), key=repr)
        if lists.get(key, []) != list(range(1, wanted.get(key, 0) + 1))
    ]
    return [f"{what}: {len(wrong)} of {len(wanted)} are wrong: {'; '.join(wrong[:5])}"] if wrong else []


def once(what: str, lists: Mapping[K, list[V | None]], wanted: Mapping[K, V]) -> list[str]:
    """Each key has one value, the expected one."""
    doubled = {key: values for key, values in lists.items() if len(values) > 1}
    reported = [f"{what}: {len(doubled)} windows more than once: {list(doubled.items())[:5]}"] if doubled else []
    return reported + same(what, {key: values[-1] for key, values in lists.items()}, wanted)


def exact(found: Found, given: Inputs) -> list[str]:
    """Everything that must hold under exactly_once_v2; returns the violations."""
    return [
        *steps("words", found.lists("words", text, long), expected.words(given)),
        *same("changelog of words", found.table("words-changelog", text, long), expected.words(given)),
        *same_counts("dead letters", letters(found), expected.letters(given)),
        *_ticks(found, given),
        *_processor(found, given),
        *_readings(found),
        *_joins(found, given),
        *_tables(found, given),
        *bank.wrong(found.rows("balances"), found.transactions("balances"), given),
        *_alarms(found, given),
        *same(
            "changelog of accounts", found.table("accounts-changelog", text, long), found.table("balances", text, long)
        ),
    ]


def _alarms(found: Found, given: Inputs) -> list[str]:
    asked = set(alarms.reported(found.rows("asked")))
    snoozing = alarms.pending(found.rows("snooze-changelog"))
    return [
        *alarms.wrong(
            "alarms by event time", alarms.reported(found.rows("alarms")), alarms.asked_by_ticks(given), set()
        ),
        *alarms.wrong("alarms by the clock", alarms.reported(found.rows("rung")), asked, snoozing),
        *alarms.gaps([long(row.value or b"") for row in found.rows("beats")], app.BEAT_MS),
    ]


def at_least(found: Found, given: Inputs) -> list[str]:
    """What must hold under at_least_once: nothing is lost, and tables without sums are right."""
    sums = expected.ended(expected.sums(given), app.WINDOW_MS + app.GRACE_MS, given.end)
    closed = expected.ended(expected.closed(given), app.CLOSED_MS, given.end)
    clicks = Counter((key, click) for key, _, click in expected.texts(given, "clicks"))
    return [
        *no_less("words", found.table("words", text, long), expected.words(given)),
        *no_less("dead letters", letters(found), expected.letters(given)),
        *no_less("suppressed sums", found.table("sums", windowed, long), sums),
        *no_less("counts on window close", found.table("closed", windowed, long), closed),
        *no_less("sessions", found.table("sessions", session, long), expected.sessions(given)),
        *no_less("outer join of ticks", found.pairs("pairs"), expected.pairs(given)),
        *no_less("outer join of clicks and views", found.pairs("meetings"), expected.meetings(given)),
        *no_less("topics by function", found.pairs("even") + found.pairs("odd"), clicks),
        *same("changelog of users", found.table("users-changelog", text, json.loads), expected.table(given, "users")),
        *same("join by foreign key", found.table("named", text, text), expected.named(given)),
    ]


def letters(found: Found) -> Counter[str]:
    """The lines in dead letters."""
    return Counter(text(row.value or b"") for row in found.rows("letters"))


def no_less(what: str, found: Mapping[K, int], wanted: Mapping[K, int]) -> list[str]:
    """Every key is there, with at least the expected value."""
    less = {key: (found.get(key, 0), value) for key, value in wanted.items() if found.get(key, 0) < value}
    return [f"{what}: {len(less)} of {len(wanted)} lost (found, wanted): {list(less.items())[:8]}"] if less else []


def _ticks(found: Found, given: Inputs) -> list[str]:
    sums, closed = expected.sums(given), expected.closed(given)
    final = expected.ended(sums, app.WINDOW_MS + app.GRACE_MS, given.end)
    sessions = expected.sessions(given)
    return [
        *once("suppressed sums", found.lists("sums", windowed, long), final),
        *same("changelog of sums", found.table("sums-changelog", stored_window, long), sums),
        *once(
            "counts on window close",
            found.lists("closed", windowed, long),
            expected.ended(closed, app.CLOSED_MS, given.end),
        ),
        *same("changelog of counts on window close", found.table("closed-changelog", stored_window, long), closed),
        *same("sessions", found.table("sessions", session, long), sessions),
        *same("changelog of sessions", found.table("sessions-changelog", session, long), sessions),
        *same_counts("outer join of ticks", found.pairs("pairs"), expected.pairs(given)),
    ]


def _processor(found: Found, given: Inputs) -> list[str]:
    seen, total = Counter[str](), Counter[str]()
    for key, _, tick in expected.ticks(given):
        seen[key] += 1
        total[key] += tick["v"]
    reported = Counter(found.table("since-changelog", text, long))
    for key, values in found.lists("reports", text, long).items():
        reported[key] += sum(value or 0 for value in values)
    return [
        *steps("totals of the processor", found.lists("totals", text, long), seen),
        *same("changelog of the totals", found.table("totals-changelog", text, long), seen),
        *same("reports by schedule, with what is not reported yet", reported, total),
    ]


def _readings(found: Found) -> list[str]:
    updates = found.lists("updates", windowed, long)
    counts = {window: len(values) for window, values in updates.items()}
    final = {window: count for window, count in counts.items() if window[0] != END}
    return [
        *steps("updates of windows with late records", updates, counts),
        *once("results of windows with late records", found.lists("finals", windowed, long), final),
    ]


def _joins(found: Found, given: Inputs) -> list[str]:
    clicks = Counter((key, click) for key, _, click in expected.texts(given, "clicks"))
    visits = found.pairs("visits")
    left = Counter[tuple[str, str]]()
    for (key, visit), times in visits.items():
        left[key, visit.split("|")[0]] += times
    wrong = same_counts("clicks that looked at users", left, clicks)
    # A click sees the current table: versions of a user only increase, whatever the order between topics.
    for key, values in found.lists("visits", text, text).items():
        versions = [int(v) for value in values if value and (v := value.split("|")[1]) != "None"]
        if versions != sorted(versions):
            wrong.append(f"clicks of {key} saw older versions after newer ones: {versions}")
    last = expected.visits(given)
    seen = {text(row.value or b"").split("|")[0]: text(row.value or b"") for row in found.rows("visits")}
    wrong += same("clicks behind the last user", {click: seen.get(click, "") for click in last}, last)
    met, alone = found.pairs("meetings"), expected.alone_once_more(given)
    # As in Kafka Streams, a record that arrives after its window (grace doesn't count) is emitted without a
    # partner immediately, though one may still arrive; how far one partition is ahead of another is
    # undefined.
    wrong += same_counts("outer join of clicks and views", met - (met & alone), expected.meetings(given))
    for topic, rest in (("even", 0), ("odd", 1)):
        some = Counter({entry: times for entry, times in clicks.items() if int(entry[1]) % 2 == rest})
        wrong += same_counts(f"topic by function, {topic}", found.pairs(topic), some)
    return wrong


def _tables(found: Found, given: Inputs) -> list[str]:
    people, amounts = expected.cities(given)
    wrong = [
        *same("changelog of users", found.table("users-changelog", text, json.loads), expected.table(given, "users")),
        *same("join by foreign key", found.table("named", text, text), expected.named(given)),
        *same("changelog of the join", found.table("named-changelog", text, text), expected.named(given)),
        *same("people of cities", found.table("people", text, long), people),
        *same("changelog of people", found.table("people-changelog", text, long), people),
        *same("sums of cities", found.table("cities", text, long), amounts),
        *same("changelog of cities", found.table("cities-changelog", text, long), amounts),
    ]
    jumps = Counter[tuple[str, int]]()
    for city, counts in found.lists("people", text, long).items():
        jumps.update((city, (after or 0) - (before or 0)) for before, after in zip([0, *counts], counts, strict=False))
    wrong += same_counts("people who come and go", jumps, expected.moves(given))
    return wrong


def describe(wrong: Iterable[str]) -> str:
    """All violations, one per line."""
    return "\n  ".join(["", *wrong])
