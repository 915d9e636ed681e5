"""Checks what this machine offers an application: file handles, and a place for its local state.

Takes a topology and settings, returns findings, and `None` for what is fine. Creates no directory and takes no lock.
Not for the application's own process: there, closing a file would release the process's locks on that file.
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import shutil
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from stoatflow.doctor.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stoatflow.settings import Settings
    from stoatflow.topology import Topology

# RocksDB keeps up to 512 files open for all stores together; sockets, and files that functions open, come
# on top.
FILES_WITH_STORES = 1024
FILES = 256
# The same as in the doctor of a running application.
_FREE_SHARE = 0.1
_MOUNTS = Path("/proc/self/mountinfo")
_IN_MEMORY = ("tmpfs", "ramfs")
_FAR_AWAY = ("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs", "lustre", "fuse.sshfs", "fuse.s3fs")
# struct flock: names and types of its fields.
_IS_MAC = sys.platform == "darwin"
_FLOCK = (
    ("start", "length", "process", "type", "whence") if _IS_MAC else ("type", "whence", "start", "length", "process")
)
_LAYOUT = "qqihh" if _IS_MAC else "hhqqi"


def open_files(topology: Topology, settings: Settings) -> Iterator[Finding | None]:
    """Check that there are enough file handles."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    on_disk = keeps_state_on_disk(topology, settings)
    needed = FILES_WITH_STORES if on_disk else FILES
    if limit == resource.RLIM_INFINITY or limit >= needed:
        yield None
        return
    whose = "stores on disk take up to 512 of them, connections and functions the others" if on_disk else "too few"
    yield Finding.of_surroundings(
        "open files",
        f"a process may open {limit} files here, and the application needs {needed}: {whose}",
        "raise the limit: LimitNOFILE=65536 in the systemd unit, --ulimit nofile=65536 with Docker, "
        "ulimit -n 65536 in a shell",
    )


def keeps_state_on_disk(topology: Topology, settings: Settings) -> bool:
    """Whether the topology has a store that RocksDB keeps."""
    stores = json.loads(topology.plan.physical_json)["stores"]
    return settings.get("default.dsl.store") != "in_memory" and any(not store["in_memory"] for store in stores)


def state_directory(folder: Path) -> Iterator[Finding | None]:
    """Check that local state can be written below `state.dir`, that there is space, and that it survives restarts."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        why = "this user may not write there" if there.is_dir() else f"{there} is a file"
        yield Finding.of_surroundings(
            "state directory", f"{folder} can't be made: {why}", "set state.dir to a directory that it may write"
        )
        return
    yield None
    yield from _room(folder, there)
    kind = file_system(there.resolve(), _MOUNTS.read_text() if _MOUNTS.exists() else "")
    if kind in _IN_MEMORY:
        yield Finding.of_surroundings(
            "state directory",
            f"{folder} is in memory ({kind}): it takes memory, and after a reboot all state is restored from the "
            "changelogs; what is in stores without one is lost",
            "set state.dir to a directory on a disk",
        )
    if kind in _FAR_AWAY:
        yield Finding.of_surroundings(
            "state directory",
            f"{folder} is on another machine ({kind}): each read and commit waits for the network, and its locks may "
            "not keep two instances apart",
            "set state.dir to a directory on a local disk, or on a volume that only this machine mounts",
        )


def _room(folder: Path, there: Path) -> Iterator[Finding]:
    usage = shutil.disk_usage(there)
    if usage.total and usage.free < usage.total * _FREE_SHARE:
        yield Finding.of_surroundings(
            "disk",
            f"the disk under {folder} has {usage.free / usage.total:.0%} left, {usage.free >> 20} MiB: when it is "
            "full, the application ends",
            "make room, or set state.dir to a directory on a larger disk",
        )


def file_system(place: Path, mounts: str) -> str:
    """Return the type of a path's file system, from the text of `mountinfo`; empty if unknown."""
    found = (0, "")
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        at = Path(left.split()[4].encode("latin-1").decode("unicode_escape"))
        # Of two mounts at one place the later one hides the other.
        if place.is_relative_to(at) and len(at.parts) >= found[0]:
            found = (len(at.parts), right.split()[0])
    return found[1]


def instance(folder: Path) -> Iterator[Finding | None]:
    """Check that no other process has the local state open."""
    lock = folder / "rocksdb" / "LOCK"
    try:
        holder = _holder(lock)
    except (FileNotFoundError, NotADirectoryError):
        yield None
        return
    except OSError as error:
        yield Finding.of_surroundings(
            "state directory", f"{lock} can't be opened: {error.strerror}", "give its files to the application's user"
        )
        return
    if holder is None:
        yield None
    else:
        who = f"process {holder}" if holder > 0 else "a process of another container"
        yield Finding.of_surroundings(
            "instance",
            f"{who} has the state in {folder} open: an instance of this application runs, and ends when another one "
            "is started",
            "stop it before you start another one; for another application, set another application.id",
        )


def _holder(lock: Path) -> int | None:
    """Return the pid of the process that holds the lock: `None` if none does, 0 if it is in another pid namespace."""
    asked = dict.fromkeys(_FLOCK, 0) | {"type": fcntl.F_WRLCK, "whence": os.SEEK_SET}
    with lock.open("rb") as file:
        answer = fcntl.fcntl(file, fcntl.F_GETLK, struct.pack(_LAYOUT, *asked.values()))
    found = dict(zip(_FLOCK, struct.unpack(_LAYOUT, answer), strict=True))
    return None if found["type"] == fcntl.F_UNLCK else found["process"]
