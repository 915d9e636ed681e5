"""Facts about this machine: versions, limits, the application's process, and the disk under its state.

Takes answers of the admin port; returns plain data. Inspects the process and its state only if it is the one that
answered: same host, same process id, same threads.
"""

from __future__ import annotations

import os
import platform
import resource
import socket
import sys
import time
from collections.abc import Iterable, Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

_PROC = Path("/proc")
_WALK_S = 5.0
_STATUS = ("VmPeak", "VmSize", "VmHWM", "VmRSS", "VmSwap", "Threads", "FDSize")
# Besides StoatFlow's own: variables that change how Python, its memory and its clock behave.
_MATTER = ("TZ", "LANG", "LC_ALL", "LD_PRELOAD", "VIRTUAL_ENV", "SSL_CERT_FILE", "SSL_CERT_DIR")
_PREFIXES = ("STOATFLOW_", "PYTHON", "MALLOC_")
_CGROUP = ("memory.max", "memory.current", "memory.events", "cpu.max", "cpu.stat", "pids.max")


def versions() -> dict[str, Any]:
    """Return the versions of the Python that runs this command, and of its packages."""
    packages = {each.metadata["Name"]: each.version for each in distributions() if each.metadata["Name"]}
    return {
        "python": sys.version,
        "implementation": platform.python_implementation(),
        "executable": sys.executable,
        "packages": dict(sorted(packages.items(), key=lambda pair: pair[0].lower())),
    }


def system() -> dict[str, Any]:
    """Return platform, processors, memory and load of this machine."""
    found: dict[str, Any] = {
        "platform": platform.platform(),
        "machine": platform.machine(),
        "host": socket.gethostname(),
        "cpus": os.cpu_count(),
        "time": time.time(),
    }
    if hasattr(os, "getloadavg"):
        found["load"] = os.getloadavg()
    memory = _text(_PROC / "meminfo")
    wanted = ("MemTotal", "MemAvailable", "SwapTotal", "SwapFree")
    found["memory"] = {name: value.strip() for name, value in _pairs(memory) if name in wanted}
    cgroup = {name: _text(Path("/sys/fs/cgroup") / name).strip() for name in _CGROUP}
    found["cgroup"] = {name: value for name, value in cgroup.items() if value}
    return found


def is_here(info: Any, threads: Any) -> bool:
    """Whether the process that answered runs on this machine."""
    if not isinstance(info, dict) or info.get("host") != socket.gethostname() or not isinstance(info.get("pid"), int):
        return False
    threads_of_port = {str(each.get("id")) for each in (threads or {}).get("threads", ())}
    try:
        seen = set(os.listdir(_PROC / str(info["pid"]) / "task"))
    except OSError:
        return False
    # Some threads may have ended meanwhile. In another container the thread ids differ.
    return len(threads_of_port & seen) * 2 > len(threads_of_port)


def process(pid: int) -> dict[str, Any]:
    """Return limits, memory, open files and command line of a process of this machine."""
    place = _PROC / str(pid)
    arguments = _text(place / "cmdline").split("\0")
    try:
        files: int | None = len(os.listdir(place / "fd"))
    except OSError:
        files = None
    return {
        "pid": pid,
        "command": [word for word in arguments if word],
        "folder": _link(place / "cwd"),
        "executable": _link(place / "exe"),
        "open_files": files,
        "status": {name: value.strip() for name, value in _pairs(_text(place / "status")) if name in _STATUS},
        "limits": _limits(_text(place / "limits")),
    }


def own_limits() -> dict[str, Any]:
    """Return the limits of this command (`ulimit`)."""
    names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
    limits = {name.removeprefix("RLIMIT_").lower(): resource.getrlimit(getattr(resource, name)) for name in names}
    shown = {name: [_limit(each) for each in pair] for name, pair in limits.items()}
    return {name: {"soft": soft, "hard": hard} for name, (soft, hard) in shown.items()}


def variables(pid: int) -> list[tuple[str, str]]:
    """Return the environment that a process was started with; raise `OSError` if it is another user's process."""
    read = (_PROC / str(pid) / "environ").read_bytes().decode("utf-8", "replace")
    return [(name, value) for name, equals, value in (pair.partition("=") for pair in read.split("\0")) if equals]


def that_matter(environment: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Choose the variables that affect how the application runs."""
    return {name: value for name, value in sorted(environment) if name.startswith(_PREFIXES) or name in _MATTER}


def state(folder: Path) -> dict[str, Any]:
    """Return the disk usage under the state, and the content of its folder, by entries."""
    import shutil

    disk = shutil.disk_usage(folder)
    deadline = time.monotonic() + _WALK_S
    entries: dict[str, Any] = {}
    for entry in sorted(folder.iterdir()):
        size, files, whole = _size(entry, deadline)
        entries[entry.name] = {"bytes": size, "files": files} | ({} if whole else {"whole": False})
    return {
        "folder": str(folder),
        "disk": {"total_bytes": disk.total, "used_bytes": disk.used, "free_bytes": disk.free},
        "bytes": sum(each["bytes"] for each in entries.values()),
        "entries": entries,
    }


def state_folder(config: Any, application: str, pid: int) -> Path | None:
    """Return the folder of the application's state; `None` if unknown."""
    try:
        folder = str(config["settings"]["state.dir"]["value"])
    except (KeyError, TypeError):
        return None
    started_in = _link(_PROC / str(pid) / "cwd") or "/"
    return Path(started_in) / folder / application


def last_report(folder: Path) -> Path | None:
    """Return the newest `stalled-<ms>.txt`, which the watchdog wrote when it ended the application."""
    found = sorted(folder.glob("stalled-*.txt"), key=lambda path: path.stat().st_mtime)
    return found[-1] if found else None


def _size(path: Path, deadline: float) -> tuple[int, int, bool]:
    """Return bytes and files below a path; False if the time limit was reached first."""
    size = files = 0
    for each in _files(path):
        if time.monotonic() > deadline:
            return size, files, False
        try:
            size += each.lstat().st_blocks * 512
        except OSError:
            continue  # RocksDB has deleted it meanwhile
        files += 1
    return size, files, True


def _files(path: Path) -> Iterator[Path]:
    if path.is_symlink() or not path.is_dir():
        yield path
        return
    for folder, _, names in os.walk(path):
        yield from (Path(folder) / name for name in names)


def _limits(text: str) -> dict[str, Any]:
    """Read `/proc/PID/limits`: columns of fixed width."""
    rows = text.splitlines()[1:]
    return {row[:26].strip(): {"soft": row[26:47].strip(), "hard": row[47:68].strip()} for row in rows if row[:26]}


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            yield name.strip(), value


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""


def _link(path: Path) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None
