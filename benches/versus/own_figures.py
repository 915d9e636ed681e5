"""What a measured process says of itself at its end.

Takes: /proc and the system's own counts. Gives: CPU seconds, peak memory, a line of JSON.
Owns: nothing. Never: imports more than the standard library: it runs inside the measured processes.
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
    """VmHWM: unlike ru_maxrss it does not remember the process that started this one."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1])
    raise RuntimeError("/proc/self/status has no VmHWM: run the benchmark on Linux")


def say(engine: str, records: int, started: float, seconds: float, guarantee: str) -> None:
    """Prints them, and what holds after a crash. `started` is of the monotonic clock, which all processes share."""
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
