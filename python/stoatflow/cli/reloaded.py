"""The child of `stoatflow run --reload`: runs the command, and reports to its parent which files it has loaded.

Takes a descriptor to write to, and the command line's arguments as JSON. Ends as `stoatflow run` does, or when its
parent has ended.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import sysconfig
import threading
from pathlib import Path

STOPS = "stops"
"""Written instead of a file name: the child has received a signal."""
_STEP_S = 0.2


def main(descriptor: int, values: dict[str, object]) -> int:
    """Run the command."""
    # The parent blocks these signals to wait for them, and a child inherits the parent's mask.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGCHLD})
    os.set_inheritable(descriptor, False)
    # Cached bytecode is matched by seconds and size: an edited file may have both of its previous version.
    sys.dont_write_bytecode = True
    from stoatflow.cli import call, run

    reporter = _Reporter(descriptor, os.getppid())
    threading.Thread(target=reporter.run, name="stoatflow-reload", daemon=True).start()
    try:
        return call(argparse.Namespace(**values, run=run.run))
    finally:
        reporter.report()


class _Reporter:
    def __init__(self, descriptor: int, parent: int) -> None:
        self._descriptor, self._parent = descriptor, parent
        self._told: set[str] = set()
        self._lock = threading.Lock()

    def run(self) -> None:
        """Report newly loaded files, until the process ends."""
        pause = threading.Event()
        while not pause.wait(_STEP_S):
            self.report()
            if os.getppid() != self._parent:
                os.kill(os.getpid(), signal.SIGTERM)
                return

    def report(self) -> None:
        """Report newly loaded files."""
        from stoatflow._runtime import process_exit

        with self._lock:
            now = {STOPS} if process_exit.stop_requested() else set()
            now |= loaded_files()
            new = "".join(f"{each}\n" for each in sorted(now - self._told))
            self._told |= now
            try:
                os.write(self._descriptor, new.encode("utf-8", "surrogateescape"))
            except OSError:
                return  # the parent has ended


def loaded_files() -> set[str]:
    """List the files of loaded modules that are neither Python's, nor StoatFlow's, nor installed."""
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return {os.path.abspath(file) for file in files if file and file.endswith(".py") and is_of_user(file)}


def is_of_user(file: str) -> bool:
    """Whether the file is the user's own."""
    path = Path(os.path.abspath(file))
    if {"site-packages", "dist-packages"} & set(path.parts):
        return False
    paths = sysconfig.get_paths()
    ours = Path(__file__).resolve().parents[1]
    return not any(path.is_relative_to(folder) for folder in (paths["stdlib"], paths["platstdlib"], ours))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), json.loads(sys.argv[2])))
