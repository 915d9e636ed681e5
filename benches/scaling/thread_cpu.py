"""Which threads of this process have used how much CPU, by what they are for.

Takes: /proc/self/task. Gives: seconds by role. Owns: which thread has which role, told by its name, of which Linux
keeps 15 letters. Never: guesses: a thread that is not known is `other`, and so is what ended threads have used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

# What only one thread does; what lanes do; and the rest, which is little.
INTAKE, COMMIT, LANES, STORES, CALLER, OTHER = ROLES = ("intake", "commit", "lanes", "stores", "caller", "other")
_STARTS = {
    "stoatflow-intak": INTAKE,  # reads, and hands out to lanes
    "stoatflow-commi": COMMIT,  # writes outputs and changelogs, commits, applies to the stores
    "stoatflow-lane-": LANES,  # lanes that call Python
    "stoatflow-worke": LANES,  # where lanes run that do not
    "rocksdb": STORES,  # flushes and merges of files
}
_TICKS = os.sysconf("SC_CLK_TCK")


def role_of(name: str) -> str:
    """Of a thread that is not the first one of the process."""
    return next((role for start, role in _STARTS.items() if name.startswith(start)), OTHER)


def cpu_by_role(tasks: Path = Path("/proc/self/task"), first: int | None = None) -> dict[str, float]:
    """CPU seconds so far of the threads that live. The `first` thread is the one that waits: the benchmark itself."""
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
    """By the scheduler's own count, in nanoseconds; where the system has none, by its ticks."""
    try:
        return int((task / "schedstat").read_text().split()[0]) / 1e9
    except (OSError, IndexError):
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


def spent(before: Mapping[str, float], after: Mapping[str, float], whole: float) -> dict[str, float]:
    """By role; what the process has used beyond its threads is `other`: of threads that have ended meanwhile."""
    used = {role: max(after[role] - before[role], 0.0) for role in ROLES}
    used[OTHER] += max(whole - sum(used.values()), 0.0)
    return used
