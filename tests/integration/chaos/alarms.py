"""Checks timers and a scheduled source: each requested alarm fires once, each tick appears once.

Takes rows of topics; returns what is wrong. Alarms by event time follow from the input alone: a tick requests one
at the next full `ALARM_MS` of its key. Alarms by the machine's clock are reported when they are requested, in the
transaction that registers them, so that both are there or neither; pending ones are in the changelog. The scheduled
source may never skip a tick, whenever the application was killed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from topics import Row

from chaos import application as app
from chaos.inputs import Inputs, read_long

Alarm = tuple[str, int]
"""Key and time."""


def asked_by_ticks(inputs: Inputs) -> set[Alarm]:
    """Alarms by event time that are due before the end."""
    found = {(row.key or "", alarm_after(row.timestamp)) for row in inputs.of("ticks")}
    return {alarm for alarm in found if alarm[1] <= inputs.end}


def alarm_after(at: int) -> int:
    """The next full `ALARM_MS`."""
    return (at // app.ALARM_MS + 1) * app.ALARM_MS


def reported(rows: Iterable[Row]) -> Counter[Alarm]:
    """Keys and times, with their number of occurrences."""
    return Counter(((row.key or b"").decode(), read_long(row.value or b"")) for row in rows)


def pending(rows: Iterable[Row]) -> set[Alarm]:
    """Pending timers in the changelog: a domain, a time with inverted sign, the key."""
    last = {row.key or b"": row.value for row in rows}
    alarms = (key for key, value in last.items() if value is not None)
    return {(key[9:].decode(), int.from_bytes(key[1:9], "big") - 2**63) for key in alarms}


def wrong(what: str, rung: Counter[Alarm], asked: set[Alarm], still: set[Alarm]) -> list[str]:
    """Alarms that never fired, fired twice, were not requested, or fired although they are still pending."""
    lost = asked - still - rung.keys()
    more = {alarm: times for alarm, times in rung.items() if times > 1 or alarm not in asked or alarm in still}
    found = []
    if lost:
        found.append(f"{what}: {len(lost)} of {len(asked)} never rang: {sorted(lost)[:8]}")
    if more:
        found.append(f"{what}: {len(more)} rang twice, for nobody, or too early: {sorted(more.items())[:8]}")
    return found


def gaps(times: Sequence[int], every: int) -> list[str]:
    """Ticks that are missing or duplicated."""
    pairs = [(one, two) for one, two in pairwise(times) if two - one != every]
    found = [f"ticks: {len(pairs)} gaps among {len(times)}: {pairs[:8]}"] if pairs else []
    return found if times else ["ticks: there are none"]
