"""The real Kafka Streams on a real broker, for cases in the vectors' form: several applications in their own JVM.

Takes: the steps of topologies, a broker's address; `conformance/oracle`, a JDK, Maven.
Gives: applications that can be waited for, and their final stores.
Owns: that JVM and the folder of its state.
Never: reads or writes a case's topics.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from types import TracebackType
from typing import IO, Any

from broker.java_home import find_java

from conformance.kafka_streams import KafkaStreamsError, OracleEndedError, class_path

MAIN_CLASS = "stoatflow.oracle.OnBroker"
Row = dict[str, Any]


class KafkaStreams:
    """One JVM for many applications."""

    def __enter__(self) -> KafkaStreams:
        found = class_path()
        self._folder = tempfile.TemporaryDirectory(prefix="stoatflow-streams-")
        options = ["-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        self._java = subprocess.Popen(
            [str(find_java()), *options, "-cp", found, MAIN_CLASS, self._folder.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            # Ctrl-C in the terminal goes to the tests, which then close its applications.
            start_new_session=True,
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # It ends when its input closes.
        self._pipe(self._java.stdin).close()
        try:
            self._java.wait(timeout=40)
        except subprocess.TimeoutExpired:
            self._java.kill()
            self._java.wait()
        self._pipe(self._java.stdout).close()
        self._folder.cleanup()

    def ask(self, what: str, application: str, **more: object) -> list[Row]:
        """Return the lines of the answer; raise `KafkaStreamsError` if it is an error."""
        try:
            asked = {"do": what, "application_id": application} | more
            print(json.dumps(asked), file=self._pipe(self._java.stdin), flush=True)
        except BrokenPipeError:
            raise self._ended() from None
        rows: list[Row] = []
        for line in self._pipe(self._java.stdout):
            found: Row = json.loads(line)
            if "done" in found:
                return rows
            if "error" in found:
                error = found["error"]
                causes = [f"{error['class']}: {error['message']}", *error["causes"]]
                raise KafkaStreamsError("\n caused by ".join(causes))
            rows.append(found)
        raise self._ended()

    def _ended(self) -> OracleEndedError:
        return OracleEndedError(f"the JVM of Kafka Streams ended with {self._java.wait()}; what it said is above")

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        if pipe is None:
            raise RuntimeError("The JVM was started without pipes; this is a mistake in streams.py.")
        return pipe


class StreamsApplication:
    """One application; it starts immediately, beside others."""

    def __init__(
        self, jvm: KafkaStreams, application: str, bootstrap: str, steps: list[Row], settings: Mapping[str, Any]
    ) -> None:
        self._jvm, self._application = jvm, application
        jvm.ask("start", application, bootstrap_servers=bootstrap, topology=steps, settings=dict(settings))

    def __enter__(self) -> StreamsApplication:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._jvm.ask("close", self._application)

    def await_running(self) -> None:
        """Wait until it has its tasks."""
        self._jvm.ask("await_running", self._application)

    def await_all(self) -> None:
        """Wait until it has processed and committed all that its source and repartition topics hold."""
        self._jvm.ask("await_all", self._application)

    def rows(self, stores: Mapping[str, Row]) -> list[Row]:
        """Return the contents of its stores, in all partitions and in no order."""
        return self._jvm.ask("read", self._application, stores=dict(stores))
