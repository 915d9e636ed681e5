"""The real Kafka Streams, for cases in the vectors' form: its TopologyTestDriver in its own JVM.

Takes: cases; `oracle/`, a JDK, Maven; `STOATFLOW_TEST_KAFKA_STREAMS_VERSION`, by default the version of the pom.
Gives: the driver's results for a case, in the vectors' form; the names of Kafka Streams' public methods; bytes of its
    serializers.
Owns: that JVM and the folder of its stores, and `oracle/` in the cache outside the clone, rebuilt when the pom or a
    source changes.
Never: writes into the clone, keeps anything from one case to the next.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO, Any

# Finding Java and running Maven is part of the tests that need a broker, which are no package.
sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "integration")]

from broker.java_home import cache_dir, find_java  # noqa: E402
from broker.maven_jars import built_project, pom_property  # noqa: E402

MAIN_CLASS = "stoatflow.oracle.Oracle"
# The parts of a vector that the driver needs. Of the lookups it needs only the questions.
_ASKED = ("config", "topics", "topology", "inputs", "versioned_lookups")
# RocksDB syncs every store it opens: in memory a case takes an eighth of its time on a disk.
_IN_MEMORY = Path("/dev/shm")  # noqa: S108  # the folder made there has a random name
# The JVM starts and stops stores all the time, and computes little: few threads, and no long compilations.
_QUICK = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_PROJECT = Path(__file__).resolve().parent / "oracle"

RECORDED = pom_property(_PROJECT / "pom.xml", "kafka.version")
"""The version that the vectors were recorded with."""
VERSION = os.environ.get("STOATFLOW_TEST_KAFKA_STREAMS_VERSION") or RECORDED
"""The version that runs."""


class KafkaStreamsError(Exception):
    """Kafka Streams raised it, while building the topology or processing a record."""


class OracleEndedError(RuntimeError):
    """The JVM has ended."""


def class_path(version: str = VERSION) -> str:
    """Build if needed; return the class path."""
    folder = cache_dir() / "oracle" / ("build" if version == RECORDED else f"build-{version}")
    return built_project(
        _PROJECT, folder, f"oracle of the conformance tests, Kafka Streams {version}", [f"-Dkafka.version={version}"]
    )


def asked(program: str, *arguments: str, version: str = VERSION) -> Any:
    """Run a program of the oracle that answers once, in JSON."""
    command = [str(find_java()), *_QUICK, "-cp", class_path(version), f"stoatflow.oracle.{program}", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, encoding="utf-8", check=True)
    return json.loads(done.stdout)


class Oracle:
    """One JVM for many cases."""

    def __enter__(self) -> Oracle:
        found = class_path()
        where = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
        self._folder = tempfile.TemporaryDirectory(prefix="stoatflow-oracle-", dir=where)
        self._java = subprocess.Popen(
            [str(find_java()), *_QUICK, "-cp", found, MAIN_CLASS, self._folder.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # It ends when its input closes.
        self._pipe(self._java.stdin).close()
        try:
            self._java.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._java.kill()
            self._java.wait()
        self._pipe(self._java.stdout).close()
        self._folder.cleanup()

    def replay(self, case: dict[str, Any]) -> dict[str, Any]:
        """Return the results: `outputs`, `stores`, `store_timestamps`, `versioned_lookups`.

        Also `internal_topics` and `describe`. Versioned stores are looked up as the case asks, or for each key and
        each timestamp of its inputs.
        """
        line = json.dumps({name: case[name] for name in _ASKED if name in case})
        try:
            print(line, file=self._pipe(self._java.stdin), flush=True)
            answer = self._pipe(self._java.stdout).readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise OracleEndedError(f"the JVM of the oracle ended with {self._java.wait()}; what it said is above")
        found: dict[str, Any] = json.loads(answer)
        if "error" in found:
            error = found["error"]
            raise KafkaStreamsError("\n caused by ".join([f"{error['class']}: {error['message']}", *error["causes"]]))
        return found

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        if pipe is None:
            raise RuntimeError("The JVM was started without pipes; this is a mistake in kafka_streams.py.")
        return pipe
