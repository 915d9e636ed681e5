"""What the measurement ran on, and what else ran meanwhile.

Takes: /proc. Gives: a description of the machine, the CPU seconds of a process, of the whole machine.
Owns: nothing. Never: guesses: what cannot be read is reported as missing.
"""

from __future__ import annotations

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

import confluent_kafka

_TICKS = os.sysconf("SC_CLK_TCK")


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
    """The machine in a few facts, without names or paths."""
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


def machine_cpu() -> float:
    """CPU seconds of all processes since the machine started, without idling and waiting."""
    fields = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:]]
    user, nice, system, _, _, irq, softirq = fields[:7]
    return (user + nice + system + irq + softirq) / _TICKS
