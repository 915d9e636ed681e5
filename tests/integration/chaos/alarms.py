"""Timers and a scheduled source: each alarm that was asked for rings once, each tick comes once.

Takes rows of topics; gives what is wrong. Alarms by event time are known from the input alone: a tick asks for one at
the next full `ALARM_MS` of its key. Alarms by the machine's clock are told when they are asked for, in the transaction
that registers them, so that they are either both there or not; what is still pending stands in the changelog. The
scheduled source may never skip a tick, whoever was killed when.
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
    """Alarms by event time that the end has passed."""
    found = {(row.key or "", alarm_after(row.timestamp)) for row in inputs.of("ticks")}
    return {alarm for alarm in found if alarm[1] <= inputs.end}


def alarm_after(at: int) -> int:
    """The next full one."""
    return (at // app.ALARM_MS + 1) * app.ALARM_MS


def told(rows: Iterable[Row]) -> Counter[Alarm]:
    """Keys and times, with how often they are there."""
    return Counter(((row.key or b"").decode(), read_long(row.value or b"")) for row in rows)


def pending(rows: Iterable[Row]) -> set[Alarm]:
    """What the changelog of timers folds to: a domain, a time whose sign is flipped, the key."""
    last = {row.key or b"": row.value for row in rows}
    alarms = (key for key, value in last.items() if value is not None)
    return {(key[9:].decode(), int.from_bytes(key[1:9], "big") - 2**63) for key in alarms}


def wrong(what: str, rung: Counter[Alarm], asked: set[Alarm], still: set[Alarm]) -> list[str]:
    """Alarms that never rang, rang twice, rang for nobody, or rang although they are still pending."""
    lost = asked - still - rung.keys()
    more = {alarm: times for alarm, times in rung.items() if times > 1 or alarm not in asked or alarm in still}
    found = []
    if lost:
        found.append(f"{what}: {len(lost)} of {len(asked)} never rang: {sorted(lost)[:8]}")
    if more:
        found.append(f"{what}: {len(more)} rang twice, for nobody, or too early: {sorted(more.items())[:8]}")
    return found


def gaps(times: Sequence[int], every: int) -> list[str]:
    """A tick that is missing or there twice."""
    pairs = [(one, two) for one, two in pairwise(times) if two - one != every]
    found = [f"ticks: {len(pairs)} gaps among {len(times)}: {pairs[:8]}"] if pairs else []
    return found if times else ["ticks: there are none"]
