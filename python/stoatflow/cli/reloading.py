"""`stoatflow run --reload`: runs an application in a child process, and restarts it when its files change.

Takes the command line's arguments, returns the exit code of the last run. Watches the files that the child has loaded,
the settings file, and after a failure all of the application's folder: the file to fix may not have been loaded. Never
loads the application itself.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from pathlib import Path
from typing import TypeAlias

from stoatflow.cli.loading import split
from stoatflow.cli.reloaded import STOPS, is_of_user
from stoatflow.errors import ConfigError

_POLL_S = 0.5
_STEP_S = 0.1
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
# A child in the same terminal or process group has received the signal already, and reports it within this
# time.
_SIGNAL_DELAY_S = 1.0
_FILES = 5000
Stamp: TypeAlias = "tuple[int, int] | None"


def run(given: argparse.Namespace) -> int:
    """Run until a signal stops it."""
    _refuse_a_service()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_SIGNALS, signal.SIGCHLD})
    try:
        return _Reloading(given).run()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _refuse_a_service() -> None:
    """Refuse to run where stderr is the journal: in a service of systemd."""
    try:
        status = os.fstat(2)
    except OSError:
        return
    if os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}":
        raise ConfigError(
            "--reload is for development, and this is a service of systemd: it would run files that are half saved",
            next_step="leave --reload out",
        )


class Watched:
    """Watched files, with their size and time when they were loaded."""

    def __init__(self, files: Iterable[str]) -> None:
        """Watch these files from the beginning of a run."""
        self._stamps: dict[str, Stamp] = {file: stamp(file) for file in files}
        self._began = time.time_ns()

    def begin(self) -> None:
        """Note the current state of all files: a run begins, and loads them."""
        self._began = time.time_ns()
        self._stamps = {file: stamp(file) for file in self._stamps}

    def add(self, files: Iterable[str]) -> None:
        """Watch these too. A file changed after the run began counts as changed: it may have been loaded before."""
        now = time.time_ns()
        for file in files:
            if file not in self._stamps:
                found = stamp(file)
                is_newer = found is not None and self._began < found[0] <= now
                self._stamps[file] = None if is_newer else found

    def with_files(self, files: Iterable[str]) -> Watched:
        """Return a copy that watches these files too."""
        more = Watched(())
        more._began, more._stamps = self._began, dict(self._stamps)
        more.add(files)
        return more

    def changed(self) -> list[str]:
        """List the changed files; a missing one doesn't count, since it may be about to be replaced."""
        now = {file: stamp(file) for file in self._stamps}
        return [file for file, found in now.items() if found is not None and found != self._stamps[file]]


def stamp(file: str) -> Stamp:
    """Return time and size of a file, which a change alters; `None` if there is no file."""
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


class _Reloading:
    def __init__(self, given: argparse.Namespace) -> None:
        file, _ = split(given.app)
        is_file = os.path.isfile(file) or file.endswith(".py")
        named = [os.path.abspath(each) for each in (file if is_file else None, given.config) if each]
        self._folder = os.path.dirname(os.path.abspath(file)) if is_file else os.getcwd()
        self._values = {**vars(given), "reload": False}
        del self._values["run"]
        self._watched = Watched(named)

    def run(self) -> int:
        """Run, and run again after each change; return the last exit code."""
        while True:
            self._watched.begin()
            with _Child(self._values) as child:
                end, code = self._until_it_ends(child)
            if end is _End.ASKED or (end is _End.BY_ITSELF and code == 0):
                return code
            if end is _End.BY_ITSELF:
                _print(f"it ended with exit code {code}; it starts again when a file changes, Ctrl-C ends")
                # The file to fix may not have been loaded.
                if not self._changes(self._watched.with_files(python_files(self._folder))):
                    return code

    def _until_it_ends(self, child: _Child) -> tuple[_End, int]:
        """Return why the run has ended, and its exit code."""
        end = _End.BY_ITSELF
        while child.process.poll() is None:
            number = _signal(_POLL_S if end is _End.BY_ITSELF else _STEP_S)
            self._watched.add(child.files())
            if number is not None:
                child.forward_signal(number, again=end is _End.ASKED)
                end = _End.ASKED
            child.forward_held_signal()
            if end is _End.BY_ITSELF and (changed := self._watched.changed()):
                _print(f"{_names(changed)} changed: stopping, to start again")
                end = _End.CHANGED
                child.process.send_signal(signal.SIGTERM)
        self._watched.add(child.files())
        return end, child.code()

    def _changes(self, watched: Watched) -> bool:
        """Wait for a change; return False if a signal to stop arrives first."""
        while not (changed := watched.changed()):
            if _signal(_POLL_S) is not None:
                return False
        _print(f"{_names(changed)} changed: starting again")
        return True


class _End(Enum):
    """Why a run has ended."""

    BY_ITSELF = auto()
    CHANGED = auto()
    ASKED = auto()


class _Child:
    """The process that runs the application."""

    def __init__(self, values: dict[str, object]) -> None:
        self._reads, writes = os.pipe()
        os.set_blocking(self._reads, False)
        command = [sys.executable, "-m", "stoatflow.cli.reloaded", str(writes), json.dumps(values)]
        try:
            self.process = subprocess.Popen(command, pass_fds=[writes])  # noqa: S603  # this very command
        finally:
            os.close(writes)
        self._text = b""
        self._stops = False
        self._held: tuple[int, float] | None = None

    def __enter__(self) -> _Child:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave no process behind."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._reads)

    def files(self) -> list[str]:
        """Return the files that the child has loaded since the last call."""
        try:
            while part := os.read(self._reads, 65_536):
                self._text += part
        except BlockingIOError:
            pass
        *lines, self._text = self._text.split(b"\n")
        names = [os.fsdecode(line) for line in lines]
        self._stops = self._stops or STOPS in names
        return [each for each in names if each != STOPS]

    def forward_signal(self, number: int, *, again: bool) -> None:
        """Forward a signal to the child: the first one only if the child doesn't receive it by itself."""
        if again:
            self.process.send_signal(number)
        else:
            self._held = (number, time.monotonic())

    def forward_held_signal(self) -> None:
        """Forward a signal that the child has not received itself: two signals would abort it."""
        if self._held is not None and (self._stops or time.monotonic() - self._held[1] > _SIGNAL_DELAY_S):
            if not self._stops:
                self.process.send_signal(self._held[0])
            self._held = None

    def code(self) -> int:
        """Return the child's exit code, as a shell does."""
        code = self.process.wait()
        return code if code >= 0 else 128 - code


def _signal(seconds: float) -> int | None:
    """Wait for a signal to stop, or for the end of the child."""
    found = signal.sigtimedwait({*_SIGNALS, signal.SIGCHLD}, seconds)
    return None if found is None or found.si_signo == signal.SIGCHLD else found.si_signo


def python_files(folder: str) -> Iterator[str]:
    """List the Python files of a folder and its subfolders, at most `_FILES`."""
    left = _FILES
    for place, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith((".", "__pycache__", "node_modules"))]
        for name in names:
            path = os.path.join(place, name)
            if name.endswith(".py") and is_of_user(path):
                yield path
                left -= 1
                if left == 0:
                    return


def _names(files: list[str]) -> str:
    here = Path.cwd()
    paths = [Path(file) for file in files]
    return ", ".join(str(path.relative_to(here) if path.is_relative_to(here) else path) for path in paths)


def _print(text: str) -> None:
    print(f"stoatflow: {text}", file=sys.stderr, flush=True)
