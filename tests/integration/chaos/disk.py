"""Faults of a state directory: it is lost, its bytes change, its disk is full.

Takes paths; breaks disks. A small disk is a tmpfs in a mount namespace of the process that uses it, so that nothing
stays mounted whatever is killed; where the machine forbids that, a limit on the size of files replaces it.
"""

from __future__ import annotations

import functools
import random
import shutil
import subprocess
from pathlib import Path

_MOUNT = 'mount -t tmpfs -o size="$1" stoatflow "$2" && shift 2 && exec "$@"'


def small(path: Path, size: int) -> tuple[str, list[object]]:
    """How to run a program with `path` as an empty disk of `size` bytes: a word for it, and a command prefix."""
    path.mkdir(parents=True, exist_ok=True)
    flags = _namespace()
    if flags is None:
        return "limit on the size of files", ["prlimit", f"--fsize={size // 8}"]
    return "tmpfs", ["unshare", flags, "sh", "-c", _MOUNT, "sh", size, path]


@functools.cache
def _namespace() -> str | None:
    """How `unshare` may mount here: as root, in its own user namespace, or not at all."""
    if shutil.which("unshare") is None:
        return None
    for flags in ("-m", "-rm"):
        tried = ["unshare", flags, "sh", "-c", "mount -t tmpfs stoatflow /mnt"]
        if subprocess.run(tried, capture_output=True, check=False).returncode == 0:
            return flags
    return None


def corrupt(path: Path, rng: random.Random) -> str | None:
    """Flip bytes in one kind of RocksDB's files; returns which, or None if there is no state to corrupt."""
    kinds = {"tables": "*.sst", "manifest": "MANIFEST-*", "write-ahead log": "*.log", "current": "CURRENT"}
    there = {kind: [p for p in path.rglob(pattern) if p.stat().st_size] for kind, pattern in kinds.items()}
    choices = [kind for kind, files in there.items() if files]
    if not choices:
        return None
    kind = rng.choice(choices)
    for file in there[kind]:
        data = bytearray(file.read_bytes())
        for _ in range(1 + len(data) // 2000):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        file.write_bytes(data)
    return kind
