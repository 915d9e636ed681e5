"""Checks the source topics on the broker for open transactions that block reading.

Takes a topology and settings, returns findings. A `read_committed` consumer can't read past the first record of an open
transaction (the last stable offset). A transaction of a few seconds is normal, so only those that are still open after
a while are reported.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from stoatflow._runtime import bridge
from stoatflow.doctor.finding import Finding

if TYPE_CHECKING:
    from typing import Any

    from stoatflow.settings import Settings
    from stoatflow.topology import Topology

AGAIN_AFTER_S = 5.0


def open_transactions(topology: Topology, settings: Settings) -> list[Finding]:
    """Query the broker, and once more after a while if there are any."""
    before = _ask(topology, settings)
    if not before:
        return []
    time.sleep(AGAIN_AFTER_S)
    known = {_which(row) for row in before}
    return [_finding(row) for row in _ask(topology, settings) if _which(row) in known]


def _ask(topology: Topology, settings: Settings) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(bridge.open_transactions(topology.plan, settings.pairs()))
    return rows


def _which(row: dict[str, Any]) -> tuple[object, ...]:
    return row["topic"], row["partition"], row["producer_id"], row["start_offset"]


def _finding(row: dict[str, Any]) -> Finding:
    silent = max(0, round(time.time() - row["last_ms"] / 1000))
    return Finding.of_surroundings(
        "open transaction",
        f"partition {row['partition']} is held back: producer {row['producer_id']} (epoch "
        f"{row['producer_epoch']}) has had a transaction open since offset {row['start_offset']}, and wrote last "
        f"{silent} s ago; {row['records']} offsets from there on are not read",
        f"have its application commit, or end it: {row['command']}",
        op="source",
        node=row["topic"],
    )
