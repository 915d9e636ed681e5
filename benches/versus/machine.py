"""The machine of a measurement, and its load meanwhile.

Reads /proc; returns a description of the machine, the CPU seconds of a process, and of the whole machine. Values that
cannot be read are reported as missing.
"""

from __future__ import annotations

import contextlib
import os
import platform
import statistics
import subprocess
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

import confluent_kafka

_TICKS = os.sysconf("SC_CLK_TCK")
_SAMPLE_S = 0.1
_FAMILY_S = 1.0
# Fewer samples say nothing about half a run.
_ENOUGH_SAMPLES = 3


def _first(path: str, label: str) -> str | None:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() == label:
            return value.strip()
    return None


def describe(java: Path) -> dict[str, str | int | float | None]:
    """Describe the machine, without names or paths."""
    version = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False).stderr
    memory = _first("/proc/meminfo", "MemTotal")
    return {
        "cpu": _first("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gib": round(int(memory.split()[0]) / 2**20) if memory else None,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "java": version.splitlines()[0] if version else None,
        "python": platform.python_version(),
        "confluent_kafka": metadata.version("confluent-kafka"),
        "librdkafka_of_confluent_kafka": confluent_kafka.libversion()[0],
        "load_average_at_the_end": os.getloadavg()[0],
    }


def process_cpu(pid: int) -> float:
    """CPU seconds of a running process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


class ProcessTree:
    """A process and its descendants: listed once a second, since that takes time; memory is sampled more often."""

    def __init__(self, pid: int) -> None:
        """Take no sample yet."""
        self._pid = pid
        self._found = [pid]
        self._next_family = self._next_sample = 0.0
        self.processes = 1
        self.peak_rss_kb = 0
        # Time by the monotonic clock, and their total memory.
        self.samples: list[tuple[float, int]] = []

    def look(self) -> None:
        """Sample their number and their total memory."""
        now = time.monotonic()
        if now >= self._next_family:
            self._next_family = now + _FAMILY_S
            self._found = _with_children(self._pid)
            self.processes = max(self.processes, len(self._found))
        if now >= self._next_sample:
            self._next_sample = now + _SAMPLE_S
            together = sum(map(_rss_kb, self._found))
            if together:  # none of them has ended meanwhile
                self.samples.append((now, together))
            if len(self._found) > 1:
                self.peak_rss_kb = max(self.peak_rss_kb, together)


def steady_rss_kb(samples: Sequence[tuple[float, int]], started: float, seconds: float) -> int | None:
    """The median of the samples in the second half of the work; `None` if it was too short."""
    half = [rss for at, rss in samples if started + seconds / 2 <= at <= started + seconds]
    return round(statistics.median(half)) if len(half) >= _ENOUGH_SAMPLES else None


def _with_children(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            fields = stat.read_text().rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(stat.parent.name))
    found = [pid]
    for parent in found:
        found += children.get(parent, [])
    return found


def _rss_kb(pid: int) -> int:
    found = _first(f"/proc/{pid}/status", "VmRSS")
    return int(found.split()[0]) if found else 0


def peak_rss_kb(pid: int) -> int:
    """The peak memory of a running process, as the system counts it."""
    found = _first(f"/proc/{pid}/status", "VmHWM")
    return int(found.split()[0]) if found else 0


def machine_cpu() -> float:
    """CPU seconds of all processes since the machine started, without idle and I/O wait."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    user, nice, system, _, _, irq, softirq = fields[:7]
    return (user + nice + system + irq + softirq) / _TICKS
