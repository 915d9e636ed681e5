"""W5: small JSON; number of records and total per user and session, out of order as in W3.

Takes a load, returns its records and the resulting sessions. Defines the gap that ends a session. No record is too late
for its session: then the result would depend on the speed of reading.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from workloads import out_of_order
from workloads.reading import Cell, Form, canonical, in_session, json_object, keyed, members, session
from workloads.workload import Input, Load, Output, Row, Workload

# Each user has a record every 5 s on average, so a session has about seven records, and late ones connect
# two.
GAP_MS = 10_000
GRACE_MS = 30_000


def clicks(load: Load) -> Iterator[tuple[str, int, int]]:
    """User, seconds spent, time."""
    return out_of_order.amounts(load, "sessions")


def rows(load: Load) -> Iterator[Row]:
    """Keyed by user."""
    return out_of_order.rows(clicks(load), "spent")


def wanted(load: Load) -> Mapping[str, Cell]:
    """The sessions: records of a user that are at most the gap apart."""
    by_user = defaultdict[str, list[tuple[int, int]]](list)
    for user, spent, time in clicks(load):
        by_user[user].append((time, spent))
    found: dict[str, Cell] = {}
    for user, records in by_user.items():
        for start, end, amounts in sessions_of(records, GAP_MS):
            found[session(user, start, end)] = canonical({"n": len(amounts), "spent": sum(amounts)})
    return found


def sessions_of(records: list[tuple[int, int]], gap_ms: int) -> Iterator[tuple[int, int, list[int]]]:
    """First time, last time and amounts of each session of one key."""
    begun: list[tuple[int, int]] = []
    for time, amount in sorted(records):
        if begun and time - begun[-1][0] > gap_ms:
            yield begun[0][0], begun[-1][0], [of for _, of in begun]
            begun = []
        begun.append((time, amount))
    if begun:
        yield begun[0][0], begun[-1][0], [of for _, of in begun]


def read_from_quix(key: bytes, value: bytes | None) -> tuple[str, Cell]:
    """Parse a row of Quix Streams: the key, and in the result the session, which ends 1 ms after the last record."""
    found = members(value)
    start, end = found.pop("start", None), found.pop("end", None)
    if not isinstance(start, int) or not isinstance(end, int):
        raise Form(f"not a session but {(value or b'')[:80]!r}")
    return session(key.decode(), start, end - 1), canonical(found)


def whole_sessions(rows: Mapping[str, Cell]) -> Mapping[str, Cell]:
    """Remove sessions that have grown into others: Quix Streams does not delete them."""
    by_user = defaultdict[str, list[tuple[int, int, str]]](list)
    for row in rows:
        user, _, bounds = row.rpartition("@")
        start, _, end = bounds.partition("-")
        by_user[user].append((int(start), -int(end), row))
    whole: dict[str, Cell] = {}
    for found in by_user.values():
        latest = -1
        for _, before_end, row in sorted(found):
            if -before_end > latest:
                latest = -before_end
                whole[row] = rows[row]
    return whole


WORKLOAD = Workload(
    name="w5",
    title="count and sum per user and session",
    inputs=(Input("clicks", rows),),
    # A session that grows is another row: its old one is deleted.
    outputs=(
        Output(
            "sessions",
            keyed(in_session, json_object),
            updates=True,
            forms={"quix": read_from_quix},
            settle={"quix": whole_sessions},
        ),
    ),
    wanted=wanted,
    flavours=("native", "lambda", "arrow"),
)
