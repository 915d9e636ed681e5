"""The real Kafka Streams, for cases in the vectors' form: its TopologyTestDriver in a JVM of its own.

Takes: cases; `oracle/`, a JDK, Maven. Gives: what the driver makes of a case, in the vectors' form.
Owns: that JVM and the folder of its stores, and `oracle/` in the cache outside the clone, rebuilt when the pom or a
source changes. Never: writes into the clone, keeps anything from one case to the next.
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

# The tests that need a broker have what finds Java and runs Maven; they are no package.
sys.path[:0] = [str(Path(__file__).resolve().parents[1] / "integration")]

from broker.java_home import cache_dir, find_java  # noqa: E402
from broker.maven_jars import built_project  # noqa: E402

MAIN_CLASS = "stoatflow.oracle.Oracle"
# What the driver needs of a vector. Of the lookups it takes the questions only: what is to be looked up.
_ASKED = ("config", "topics", "topology", "inputs", "versioned_lookups")
# RocksDB syncs every store it opens: in memory a case takes an eighth of the time that it takes on a disk.
_IN_MEMORY = Path("/dev/shm")  # noqa: S108  # the folder made there has a random name
_PROJECT = Path(__file__).resolve().parent / "oracle"


class KafkaStreamsError(Exception):
    """Kafka Streams raised it: when the topology was built, or while a record was processed."""


class OracleEndedError(RuntimeError):
    """The JVM is gone."""


def class_path() -> str:
    """Build if needed; give what comes after `java -cp`."""
    return built_project(_PROJECT, cache_dir() / "oracle" / "build", "oracle of the conformance tests")


class Oracle:
    """One JVM for many cases."""

    def __enter__(self) -> Oracle:
        found = class_path()
        where = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
        self._folder = tempfile.TemporaryDirectory(prefix="stoatflow-oracle-", dir=where)
        # The JVM starts and stops stores all the time, and computes little: few threads, and none
        # that compile long.
        options = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        self._java = subprocess.Popen(
            [str(find_java()), *options, "-cp", found, MAIN_CLASS, self._folder.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # It ends with its input.
        self._pipe(self._java.stdin).close()
        try:
            self._java.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._java.kill()
            self._java.wait()
        self._pipe(self._java.stdout).close()
        self._folder.cleanup()

    def replay(self, case: dict[str, Any]) -> dict[str, Any]:
        """Give what came out: `outputs`, `stores`, `store_timestamps`, `versioned_lookups`.

        And `internal_topics`, and `describe`. Versioned stores are looked up as the case asks, or for each key and each
        time of its inputs.
        """
        asked = json.dumps({name: case[name] for name in _ASKED if name in case})
        try:
            print(asked, file=self._pipe(self._java.stdin), flush=True)
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
