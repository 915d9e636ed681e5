"""A Kafka broker in a process of its own, for the fixture `kafka_broker`.

Takes a version; needs Java 17, and Maven the first time. Owns the process and its folder, and ends both, also when the
test run is killed.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from pathlib import Path
from types import TracebackType

from stoatflow.errors import BrokerUnavailableError, ConfigError
from stoatflow.prove import maven
from stoatflow.prove.java import find_java

DEFAULT_VERSION = "4.1.1"
_INSTEAD = "name a broker that runs: --stoatflow-bootstrap HOST:PORT"
_PATIENCE = 90.0
_OLDEST_JAVA = 17
_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_LOG4J = """status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %m (%c{1})%n%throwable
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
"""
# Ends the broker and removes its folder if the test run dies without a farewell line in the pipe.
_GUARD = 'read -r line && exit 0; kill -9 "$1"; rm -rf -- "$2"'


class LocalKafka:
    """`with LocalKafka() as broker: connect(broker.bootstrap)`."""

    def __init__(self, version: str = DEFAULT_VERSION) -> None:
        """Take the version of the broker."""
        if not maven.is_version(version):
            raise ConfigError(
                f"--stoatflow-kafka {version} is no version", next_step=f"write one such as {DEFAULT_VERSION}"
            )
        self._version = version
        self.bootstrap: str = ""

    def __enter__(self) -> LocalKafka:
        """Start the broker; return when it accepts requests."""
        java = find_java("the broker of the fixture kafka_broker", _OLDEST_JAVA, compiler=False)
        jars = _jars(self._version)
        self._folder = Path(tempfile.mkdtemp(prefix="stoatflow-kafka-"))
        try:
            self._start(java, jars)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        return self

    def _start(self, java: str, jars: Path) -> None:
        port, controller = _free_ports()
        self.bootstrap = f"127.0.0.1:{port}"
        server, logger = self._folder / "server.properties", self._folder / "log4j2.properties"
        server.write_text(_properties(port, controller, self._folder), "utf-8")
        logger.write_text(_LOG4J, "utf-8")
        command = [java, *_OPTIONS, f"-Dlog4j2.configurationFile={logger}", "-cp", f"{jars}{os.sep}*"]
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        tool = ["kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(server)]
        done = subprocess.run([*command, *tool], capture_output=True, text=True, check=False)  # noqa: S603  # the user's Java
        if done.returncode != 0:
            raise ConfigError(
                f"Kafka {self._version} could not format its storage: {(done.stdout + done.stderr).strip()[-500:]}",
                next_step=_INSTEAD,
            )
        self._log = self._folder / "broker.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603  # the user's Java
                [*command, "kafka.Kafka", str(server)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self._guard = subprocess.Popen(  # noqa: S603  # our own lines
            ["/bin/sh", "-c", _GUARD, "guard", str(self._process.pid), str(self._folder)],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            self._wait()
        except BaseException:
            self._end(signal.SIGKILL)
            raise

    def _wait(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline and self._process.poll() is None:
            if re.search(r"Kafka Server started", self._log.read_text("utf-8", "replace")):
                return
            time.sleep(0.1)
        end = "\n".join(f"  {line[:300]}" for line in self._log.read_text("utf-8", "replace").splitlines()[-10:])
        code = self._process.poll()
        how = f"did not start within {_PATIENCE:.0f} s" if code is None else f"ended with {code} while starting"
        raise BrokerUnavailableError(
            f"Kafka {self._version} {how}; its last log lines:\n{end}\n",
            next_step=f"see the first ERROR above, or {_INSTEAD}",
        )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the broker, remove its folder."""
        self._end(signal.SIGTERM)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        self._process.send_signal(how)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        pipe = self._guard.stdin
        if pipe is not None:
            # A guard that was killed reads nothing.
            with contextlib.suppress(BrokenPipeError):
                pipe.write(b"done\n")
                pipe.close()
        self._guard.wait()


def _jars(version: str) -> Path:
    log4j = (f"org.apache.logging.log4j:{name}:2.24.3" for name in ("log4j-core", "log4j-slf4j-impl"))
    return maven.fetched(
        maven.cache() / "testing" / f"kafka-{version}",
        f"Kafka {version}",
        (f"org.apache.kafka:kafka_2.13:{version}", *log4j),
        _INSTEAD,
    )


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        return one.getsockname()[1], other.getsockname()[1]


def _properties(port: int, controller: int, folder: Path) -> str:
    """Return the settings of one node that is broker and controller."""
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(folder / "logs"),
        # One node holds one replica of everything.
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        # The default is 50 partitions each, which costs seconds at the start.
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        # A topic that nobody created is a mistake in a test.
        "auto.create.topics.enable": "false",
        # Tests write records with timestamps near 0, which a retention would delete.
        "log.retention.ms": "-1",
        # The default requests 128 MB of the heap.
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())
