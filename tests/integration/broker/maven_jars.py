"""Running Maven with its downloads kept outside the clone, and showing progress.

Takes: a folder with a `pom.xml`, and what it is for.
Gives: a folder of jars that is complete, or an error that quotes Maven.
Owns: the stamp that says "complete for exactly these inputs", and the lock between processes.
Never: leaves a half-filled folder behind under the final name, touches ~/.m2 (a half-filled ~/.m2 makes
Spark's resolver, which reads it, say "download failed").
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO
from xml.etree import ElementTree

from broker.java_home import BrokerError, cache_dir, find_javac, find_maven

_STAMP = ".complete"
_DOWNLOADED = re.compile(r"Downloaded from \S+: \S*/(\S+) \(([\d.]+) (k|M)?B")
_POM = "{http://maven.apache.org/POM/4.0.0}"


def pom_property(pom: Path, name: str) -> str:
    """A property of a pom: versions are written there and nowhere else."""
    value = ElementTree.parse(pom).getroot().findtext(f"{_POM}properties/{_POM}{name}")
    if not value:
        raise BrokerError(f"{pom} has no property <{name}>. Add it: the harness reads the version from there.")
    return value


def fingerprint(files: Sequence[Path]) -> str:
    """A digest of the inputs of a build, so that a changed pom or source triggers a new build."""
    digest = hashlib.sha256()
    for file in sorted(files):
        digest.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


class _Progress:
    """Counts Maven's downloads: one updating line on a terminal, otherwise a line every few seconds."""

    def __init__(self, what: str, out: TextIO) -> None:
        self._what, self._out = what, out
        self._files, self._kb, self._last = 0, 0.0, time.monotonic()

    def line(self, text: str) -> None:
        found = _DOWNLOADED.search(text)
        if found is None:
            return
        self._files += 1
        self._kb += float(found.group(2)) * {"k": 1.0, "M": 1024.0, None: 1 / 1024}[found.group(3)]
        now = time.monotonic()
        if self._out.isatty() or now - self._last > 3:
            self._last = now
            self._say(f"{self._files} files, {self._kb / 1024:.1f} MB, {found.group(1)}")

    def start(self) -> None:
        self._say("asking Maven (the first time downloads it, later it is in the cache)", end="\n")

    def done(self) -> None:
        self._say(f"ready ({self._files} files, {self._kb / 1024:.1f} MB downloaded)", end="\n")

    def _say(self, text: str, end: str = "") -> None:
        tty = self._out.isatty()
        self._out.write(f"\r\033[K{self._what}: {text}{end}" if tty else f"{self._what}: {text}\n")
        self._out.flush()


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def run_maven(pom: Path, arguments: Sequence[str], what: str) -> None:
    """Runs Maven in batch mode with the project's own local repository."""
    command = [
        str(find_maven()), "-B", "-f", str(pom), f"-Dmaven.repo.local={cache_dir() / 'maven'}", *arguments,
    ]  # fmt: skip
    progress, tail = _Progress(what, sys.stderr), deque[str](maxlen=25)
    progress.start()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as maven:
        if maven.stdout is None:
            raise BrokerError("Maven was started without a pipe; this is a mistake in maven_jars.py.")
        for line in maven.stdout:
            if line.startswith(("[ERROR]", "[FATAL]", "Exception", "[INFO] BUILD")):
                tail.append(line.rstrip())
            progress.line(line)
    if maven.returncode != 0:
        quoted = "\n".join(f"    {line}" for line in tail)
        raise BrokerError(
            f"{what}: Maven ended with {maven.returncode}:\n{quoted}\n"
            "Check that Maven Central is reachable (behind a proxy: ~/.m2/settings.xml), "
            f"then run the same command again. To start from nothing, remove {cache_dir() / 'maven'}."
        )
    progress.done()


def complete_folder(folder: Path, inputs: Sequence[Path], fill: Callable[[Path], None]) -> Path:
    """`folder` filled by `fill`, unless it was already filled from the same inputs; safe between processes.

    `fill` works in a temporary folder beside it that is renamed at the end, so a folder with the final name is
    complete.
    """
    wanted = fingerprint(inputs)

    def ready() -> bool:
        stamp = folder / _STAMP
        return stamp.is_file() and stamp.read_text().strip() == wanted

    if ready():
        return folder
    with _locked(folder.parent):
        if ready():
            return folder
        partial = folder.parent / f"{folder.name}.partial-{os.getpid()}"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            fill(partial)
            (partial / _STAMP).write_text(wanted + "\n")
            if folder.exists():
                shutil.rmtree(folder)
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder


def built_project(project: Path, folder: Path, what: str, properties: Sequence[str] = ()) -> str:
    """The class path of a Maven project with its jar in `target` of `stoatflow.out`; built if needed.

    One folder has one choice of `properties`: they are not part of what a build is recognized by.
    """
    sources = [project / "pom.xml", *project.rglob("*.java")]

    def fill(partial: Path) -> None:
        find_javac()
        goals = ["package", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        places = [f"-Dstoatflow.out={partial}", f"-DoutputDirectory={partial / 'libs'}"]
        run_maven(project / "pom.xml", [*goals, *places, *properties], what)

    built = complete_folder(folder, sources, fill)
    return f"{built / 'target' / '*'}:{built / 'libs' / '*'}"


_BROKER_POM = Path(__file__).resolve().parent / "pom.xml"


def kafka_version() -> str:
    """The version that tests run on: STOATFLOW_TEST_KAFKA_VERSION, or the one in pom.xml."""
    return os.environ.get("STOATFLOW_TEST_KAFKA_VERSION") or pom_property(_BROKER_POM, "kafka.version")


def kafka_jars(version: str | None = None) -> Path:
    """The jars of a broker of this version, or of `kafka_version`."""
    wanted = version or kafka_version()

    def fill(partial: Path) -> None:
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={partial}"]
        run_maven(_BROKER_POM, [*goal, f"-Dkafka.version={wanted}"], f"Apache Kafka {wanted} broker")

    return complete_folder(cache_dir() / f"kafka-{wanted}" / "libs", [_BROKER_POM], fill)
