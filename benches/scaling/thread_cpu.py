"""CPU time of this process's threads, by role.

Takes /proc/self/task, returns seconds by role. The role follows from the thread's name, of which Linux keeps 15
characters. An unknown thread is `other`, and so is the CPU time of ended threads.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

# Serial parts (intake, commit), lanes, and the rest, which is little.
INTAKE, COMMIT, LANES, STORES, CALLER, OTHER = ROLES = ("intake", "commit", "lanes", "stores", "caller", "other")
_STARTS = {
    "stoatflow-intak": INTAKE,  # reads, and dispatches to lanes
    "stoatflow-commi": COMMIT,  # writes outputs and changelogs, commits, applies to the stores
    "stoatflow-lane-": LANES,  # lanes that call Python
    "stoatflow-worke": LANES,  # lanes that don't call Python
    "rocksdb": STORES,  # flushes and compactions
}
_TICKS = os.sysconf("SC_CLK_TCK")


def role_of(name: str) -> str:
    """Return the role of a thread other than the process's first one."""
    return next((role for start, role in _STARTS.items() if name.startswith(start)), OTHER)


def cpu_by_role(tasks: Path = Path("/proc/self/task"), first: int | None = None) -> dict[str, float]:
    """CPU seconds so far of the living threads. The `first` thread is the waiting one: the benchmark itself."""
    first = os.getpid() if first is None else first
    found = dict.fromkeys(ROLES, 0.0)
    for task in tasks.iterdir():
        try:
            name, seconds = (task / "comm").read_text().rstrip("\n"), _seconds(task)
        except OSError:  # it has ended meanwhile
            continue
        found[CALLER if task.name == str(first) else role_of(name)] += seconds
    return found


def _seconds(task: Path) -> float:
    """By the scheduler's counter, in nanoseconds; by clock ticks if the system has none."""
    try:
        return int((task / "schedstat").read_text().split()[0]) / 1e9
    except (OSError, IndexError):
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


def spent(before: Mapping[str, float], after: Mapping[str, float], whole: float) -> dict[str, float]:
    """Return the increase by role; CPU time beyond the living threads is `other`: that of ended threads."""
    used = {role: max(after[role] - before[role], 0.0) for role in ROLES}
    used[OTHER] += max(whole - sum(used.values()), 0.0)
    return used
