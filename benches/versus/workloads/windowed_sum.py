"""W3: small JSON, the sum per user in tumbling windows of a minute with 30 s of grace, mildly out of order.

Takes a load, returns its records and the expected output. Windows are open for longer than a record may be late, so no
record is too late for its window: then the result would depend on the speed of reading.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from workloads import out_of_order
from workloads.reading import Cell, Form, in_window, keyed, long, members, window
from workloads.workload import Input, Load, Output, Row, Workload

WINDOW_MS = 60_000
GRACE_MS = 30_000


def payments(load: Load) -> Iterator[tuple[str, int, int]]:
    """User, amount, time."""
    return out_of_order.amounts(load, "payments")


def rows(load: Load) -> Iterator[Row]:
    """Keyed by user."""
    return out_of_order.rows(payments(load), "amount")


def wanted(load: Load) -> Mapping[str, Cell]:
    """The sums, computed in Python."""
    sums: Counter[str] = Counter()
    for user, amount, time in payments(load):
        sums[window(user, time - time % WINDOW_MS)] += amount
    return dict(sums)


def read_from_quix(key: bytes, value: bytes | None) -> tuple[str, Cell]:
    """Parse a row of Quix Streams, which keeps the key and adds the window to the result."""
    found = members(value)
    start, total = found.get("start"), found.get("value")
    if not isinstance(start, int) or not isinstance(total, int):
        raise Form(f"not a window and a sum but {(value or b'')[:80]!r}")
    return window(key.decode(), start), total


WORKLOAD = Workload(
    name="w3",
    title="sum per user in windows of a minute",
    inputs=(Input("payments", rows),),
    outputs=(Output("sums", keyed(in_window, long), updates=True, forms={"quix": read_from_quix}),),
    wanted=wanted,
    flavours=("native", "lambda", "arrow"),
)
