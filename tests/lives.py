"""Lives of an application, each in a process of its own, which a failpoint or a signal may kill.

Takes the arguments of Python and failpoints; returns exit code and standard error. Commits often, so that most kills
hit a commit.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import stoatflow


def start(*arguments: str | Path, failpoints: str = "") -> subprocess.Popen[str]:
    """Start a life: Python with these arguments."""
    environ = os.environ | {
        "STOATFLOW_FAILPOINTS": failpoints,
        "STOATFLOW_IN_FLIGHT_MAX_BYTES": "64KiB",
        "STOATFLOW_COMMIT_MIN_INTERVAL_MS": "1",
        "PYTHONPATH": os.pathsep.join([str(Path(stoatflow.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]),
    }
    command = [sys.executable, *map(str, arguments)]
    return subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def ended(life: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for the end: exit code and standard error."""
    try:
        _, errors = life.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        life.kill()
        life.communicate()
        raise
    return life.returncode, errors


def run(*arguments: str | Path, failpoints: str = "") -> tuple[int, str]:
    """One life, until it ends or is killed."""
    return ended(start(*arguments, failpoints=failpoints))


def kill_at(place: str) -> str:
    """Return the failpoints that kill it at a place."""
    if place == "commit.during-apply":
        # It dies during the apply, or directly after it, since the next steps are delayed.
        return f"{place}=kill:150,commit.after-apply=sleep:20000"
    return f"{place}=kill"
