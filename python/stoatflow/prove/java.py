"""Finds Java, and a class path on which a topology runs with Kafka Streams' test utilities.

Takes jars, folders and class paths of the user; returns the parts of the command. Checks what is missing before Java is
started, and says how to get it. With a version it fetches Kafka Streams with Maven, once, into the cache.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from stoatflow.errors import ConfigError
from stoatflow.prove import maven

OLDEST_JAVA = 11
_STREAMS = "org/apache/kafka/streams/Topology.class"
_DRIVER = "org/apache/kafka/streams/TopologyTestDriver.class"
_VERSION = re.compile(r"kafka-streams-(\d+\.\d+\.\d+[\w.-]*?)\.jar")
_VERSION_FILE = "kafka/kafka-streams-version.properties"
_BOOT = ("BOOT-INF/classes/", "BOOT-INF/lib/")
_GET_JAVA = (
    "install a JDK (Debian, Ubuntu: apt-get install openjdk-17-jdk-headless; Fedora: dnf install "
    "java-17-openjdk-devel; macOS: brew install openjdk@17), or set JAVA_HOME to one"
)


def find_java(what: str = "the Java topology", oldest: int = OLDEST_JAVA, *, compiler: bool = True) -> str:
    """Return the `java` of JAVA_HOME or PATH, with a compiler if it must run a source file; raise `ConfigError`.

    `what` is the subject of the message.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None or not os.access(java, os.X_OK):
        where = f"JAVA_HOME={home} has no bin/java" if home else "no java is on the PATH"
        raise ConfigError(f"{what} needs Java, and {where}", next_step=_GET_JAVA)
    output = _output_of([java, "-version"])
    found = re.search(r'version "(?:1\.)?(\d+)', output)
    if found is None or int(found[1]) < oldest:
        raise ConfigError(f"{java} is no Java {oldest} or newer: {output.strip()[:200]!r}", next_step=_GET_JAVA)
    if compiler and "jdk.compiler" not in _output_of([java, "--list-modules"]):
        raise ConfigError(f"{java} has no compiler: it is a runtime only, a JDK is needed", next_step=_GET_JAVA)
    return java


def compiled(java: str, source: Path, path: ClassPath) -> Path | None:
    """Return a folder with the classes of a source file, compiled once for this Java and Kafka Streams.

    `None` if that fails, such as without a writable cache: Java can run the source too, with a slower start.
    """
    text = "\0".join([_output_of([java, "-version"]), path.version() or str(path), source.read_text("utf-8")])
    folder = cache() / f"{source.stem}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    if folder.is_dir():
        return folder
    javac = Path(java).with_name("javac")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as parent:
            partial = Path(parent) / "classes"
            options = ["-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC", "-nowarn", "-proc:none", "-cp", str(path)]
            command = [str(javac), *options, "-d", str(partial), str(source)]
            done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603  # beside the java of the user
            if done.returncode == 0:
                partial.rename(folder)
    except OSError:
        # javac is missing, the cache is not writable, or another process was faster.
        pass
    return folder if folder.is_dir() else None


def _output_of(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{command[0]} does not run: {error}", next_step=_GET_JAVA) from error
    return done.stderr + done.stdout


class ClassPath:
    """The class path that the user gave, searched."""

    def __init__(self, given: Iterable[str], unpacked: Path, version: str | None = None) -> None:
        """Take `--java` (jars, folders, class paths); `unpacked` is a folder for unpacked jars of Spring Boot."""
        self._unpacked = unpacked
        self.parts = [part for one in given for part in self._parts(one)]
        if version is not None:
            self.parts += sorted(fetched(version).glob("*.jar"))

    def __str__(self) -> str:
        """Return the class path in java's form."""
        return os.pathsep.join(map(str, self.parts))

    def check(self) -> None:
        """Raise `ConfigError` if Kafka Streams or its test utilities are missing."""
        version = self.version()
        fetch = f"--kafka-streams {version or 'VERSION'}"
        if not self.has(_STREAMS):
            raise ConfigError(
                "Kafka Streams is not on the class path of --java: no jar has org.apache.kafka.streams.Topology",
                next_step="add the application's libraries with --java (a folder of jars will do, such as what "
                "`mvn dependency:copy-dependencies` or Gradle's installDist make), or its version with "
                "--kafka-streams 4.1.1, which fetches it with Maven",
            )
        if not self.has(_DRIVER):
            raise ConfigError(
                f"the class path has Kafka Streams {version or ''}".rstrip() + ", but not its test utilities",
                next_step=f"add {fetch}, which fetches them with Maven, or name the jar of "
                f"org.apache.kafka:kafka-streams-test-utils:{version or 'VERSION'} with --java too",
            )

    def version(self) -> str | None:
        """Return the version of Kafka Streams, if a jar tells it."""
        for part in self.parts:
            found = _VERSION.fullmatch(part.name)
            if found is not None:
                return found[1]
            output = _read(part, _VERSION_FILE)
            version = re.search(r"^version=(\S+)", output.decode("utf-8", "replace"), re.MULTILINE) if output else None
            if version is not None:
                return version[1]
        return None

    def has(self, name: str) -> bool:
        """Whether there is a file with this name."""
        return any((part / name).is_file() if part.is_dir() else name in _names(part) for part in self.parts)

    def classes(self, simple: str) -> list[str]:
        """Return the full names of classes with this simple name."""
        found: set[str] = set()
        for part in self.parts:
            names: Iterable[str] = _names(part)
            if part.is_dir():
                names = (str(file.relative_to(part)) for file in part.rglob(f"{simple}.class"))
            for name in names:
                if name == f"{simple}.class" or name.endswith(f"/{simple}.class"):
                    found.add(name.removesuffix(".class").replace("/", "."))
        return sorted(found)

    def _parts(self, given: str) -> Iterator[Path]:
        for text in given.split(os.pathsep):
            if text.endswith("*"):
                yield from self._jars(Path(text[:-1] or "."), text)
                continue
            path = Path(text)
            if path.is_dir():
                yield path
                yield from sorted(path.glob("*.jar"))
            elif path.is_file() and zipfile.is_zipfile(path):
                yield from self._jar(path)
            else:
                raise ConfigError(
                    f"--java {text} is no jar and no folder",
                    next_step="name the application's jar, a folder of classes or jars, or a class path of them",
                )

    def _jars(self, folder: Path, text: str) -> list[Path]:
        found = sorted(folder.glob("*.jar"))
        if not found:
            raise ConfigError(f"--java {text}: there is no jar", next_step="name a folder that has jars")
        return found

    def _jar(self, path: Path) -> Iterator[Path]:
        """Return the jar; a jar of Spring Boot, whose nested jars Java can't read, is unpacked."""
        if not any(name.startswith(_BOOT) for name in _names(path)):
            yield path
            return
        folder = self._unpacked / path.name
        with zipfile.ZipFile(path) as jar:
            jar.extractall(folder, [name for name in jar.namelist() if name.startswith(_BOOT)])
        yield folder / _BOOT[0]
        yield from sorted((folder / _BOOT[1]).glob("*.jar"))


def _names(part: Path) -> frozenset[str]:
    if part.is_dir():
        return frozenset()
    try:
        with zipfile.ZipFile(part) as jar:
            return frozenset(jar.namelist())
    except (OSError, zipfile.BadZipFile) as error:
        raise ConfigError(f"--java {part} can't be read: {error}", next_step="build or fetch the jar again") from error


def _read(part: Path, name: str) -> bytes | None:
    if part.is_dir() or name not in _names(part):
        return None
    with zipfile.ZipFile(part) as jar:
        return jar.read(name)


def cache() -> Path:
    """Return the folder that keeps fetched jars and compiled classes."""
    return maven.cache() / "prove"


def fetched(version: str) -> Path:
    """Return the folder with a version of Kafka Streams and its test utilities; Maven fills it the first time."""
    if not maven.is_version(version):
        raise ConfigError(f"--kafka-streams {version} is no version", next_step="write one such as 4.1.1")
    streams, utilities = (f"org.apache.kafka:kafka-streams{part}:{version}" for part in ("", "-test-utils"))
    return maven.fetched(
        cache() / f"kafka-streams-{version}",
        f"Kafka Streams {version}",
        (streams, utilities, "org.slf4j:slf4j-nop:1.7.36"),
        f"name the jars of {streams} and {utilities} and what they need with --java",
    )
