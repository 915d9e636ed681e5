"""Finding Java and Maven on this machine.

Takes: `JAVA_HOME`, `PATH`, `XDG_CACHE_HOME`.
Gives: paths of `java`, `javac`, `mvn`, and the cache folder of the project.
Owns: the sentences that tell a reader how to get what is missing.
Never: installs anything, starts a broker.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from pathlib import Path

# Kafka 4 brokers are compiled for Java 17.
MIN_JAVA = 17

_GET_JAVA = (
    "Install one: `sudo apt-get install openjdk-17-jdk-headless maven` (Debian, Ubuntu), "
    "`sudo dnf install java-17-openjdk-devel maven` (Fedora), `brew install openjdk@17 maven` (macOS), "
    "or point JAVA_HOME to an unpacked JDK. The broker alone needs only `openjdk-17-jre-headless` and `maven`."
)
_GET_MAVEN = (
    "Install it: `sudo apt-get install maven` (Debian, Ubuntu), `sudo dnf install maven` (Fedora), "
    "`brew install maven` (macOS). It is needed once; the jars stay in the cache."
)


class BrokerError(RuntimeError):
    """The harness could not do its work; the message says what to do next."""


def cache_dir() -> Path:
    """The folder outside the clone that keeps downloads and builds."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "stoatflow"


def parse_java_major(version_text: str) -> int | None:
    """The major version in the output of `java -version` (`1.8.0` is 8), or None if there is none."""
    found = re.search(r'version "(\d+)(?:\.(\d+))?', version_text)
    if found is None:
        return None
    major = int(found.group(1))
    return int(found.group(2) or 0) if major == 1 else major


def _tool(name: str) -> Path | None:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / name).is_file():
        return Path(home) / "bin" / name
    found = shutil.which(name)
    return Path(found) if found else None


def find_java() -> Path:
    """The `java` of JAVA_HOME or PATH, at least version 17."""
    java = _tool("java")
    if java is None:
        raise BrokerError(f"Java {MIN_JAVA} or newer is needed to run Apache Kafka and was not found. {_GET_JAVA}")
    _check_version(java)
    return java


@functools.cache  # asking for the version starts a JVM
def _check_version(java: Path) -> None:
    answer = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False)
    major = parse_java_major(answer.stderr + answer.stdout)
    if answer.returncode != 0 or major is None:
        raise BrokerError(f"{java} does not run: {(answer.stderr or answer.stdout).strip()!r}. {_GET_JAVA}")
    if major < MIN_JAVA:
        raise BrokerError(f"{java} is Java {major}; Apache Kafka 4 needs {MIN_JAVA} or newer. {_GET_JAVA}")


def find_javac() -> Path:
    """The compiler of a JDK, for tests that run Kafka Streams or Kafka's own clients."""
    find_java()
    javac = _tool("javac")
    if javac is None:
        raise BrokerError(f"A JDK (with `javac`) is needed: there is Java source to compile. {_GET_JAVA}")
    return javac


def find_maven() -> Path:
    """The `mvn` command."""
    mvn = shutil.which("mvn")
    if mvn is None:
        raise BrokerError(f"Apache Maven (`mvn`) is needed to fetch Apache Kafka and was not found. {_GET_MAVEN}")
    return Path(mvn)
