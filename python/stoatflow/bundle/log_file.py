"""The end of a log file.

Takes a path, or `-` for standard input; returns its last lines. Reads no more of a file than it returns.
"""

from __future__ import annotations

import os
import stat
import sys
from collections import deque

from stoatflow.bundle.part import KEEP_MOST

INPUT = "-"


def last_lines(path: str, lines: int) -> tuple[str, str]:
    """Return the last lines, and a note about what is missing; raise `OSError`."""
    text, whole = _of_input(lines) if path == INPUT else _of_file(path)
    found = text.splitlines(keepends=True)
    kept = found[-lines:]
    size, first = 0, len(kept)
    while first and (size := size + len(kept[first - 1].encode("utf-8", "replace"))) <= KEEP_MOST:
        first -= 1
    kept = kept[first:]
    cut = not whole or len(kept) < len(found)
    return "".join(kept), f"the last {len(kept)} lines" if cut else ""


def _of_input(lines: int) -> tuple[str, bool]:
    if sys.stdin.isatty():
        raise OSError("standard input is a terminal; write it as in: journalctl -u APP | stoatflow bundle --log -")
    read = 0
    kept: deque[str] = deque(maxlen=lines)
    for line in sys.stdin:
        read += 1
        kept.append(line)
    return "".join(kept), read <= lines


def _of_file(path: str) -> tuple[str, bool]:
    # O_NONBLOCK: don't wait for a pipe that nobody writes to.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("it is not a file; --log - reads standard input")
        begin = max(0, status.st_size - KEEP_MOST)
        file.seek(begin)
        data = file.read(KEEP_MOST)
    if begin:
        # The first line is incomplete.
        data = data.partition(b"\n")[2]
    return data.decode("utf-8", "replace"), begin == 0
