"""CPU time of processes and all their descendants, from /proc.

Takes process ids. Returns seconds, including those of descendants that have ended and were waited for.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def tree_cpu(roots: Iterable[int]) -> float:
    """CPU seconds of these processes and their descendants."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            fields = stat.read_text().rpartition(")")[2].split()
            pid = int(stat.parent.name)
            children.setdefault(int(fields[1]), []).append(pid)
            # Its own in user and kernel mode, and those of its children that were waited for.
            ticks[pid] = sum(map(int, fields[11:15]))
    found = list(dict.fromkeys(roots))
    for parent in found:
        found += [pid for pid in children.get(parent, []) if pid not in found]
    return sum(ticks.get(pid, 0) for pid in found) / _TICKS
