"""Figures that a measured process reports about itself at its end.

Reads /proc and the system's counters; prints CPU seconds, peak memory, as a line of JSON. Imports only the standard
library, as it runs inside the measured processes.
"""

from __future__ import annotations

import json
import resource
from pathlib import Path


def cpu_seconds() -> float:
    """User and system time of this process, from its start."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def peak_rss_kb() -> int:
    """VmHWM: unlike ru_maxrss it excludes the process that started this one."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise RuntimeError("/proc/self/status has no VmHWM: run the benchmark on Linux")


def say(engine: str, records: int, started: float, seconds: float, guarantee: str) -> None:
    """Print the figures and the guarantee after a crash. `started` is of the monotonic clock, which processes share."""
    report = {
        "engine": engine,
        "records": records,
        "started": round(started, 3),
        "seconds": round(seconds, 3),
        "guarantee": guarantee,
        "cpu_seconds": round(cpu_seconds(), 3),
        "peak_rss_kb": peak_rss_kb(),
    }
    print(json.dumps(report), flush=True)
