"""A real single-node Apache Kafka broker (KRaft), on loopback, with its own data folder.

Takes: Java 17, and Maven the first time (jars go to the cache, see maven_jars.py).
Gives: `KafkaBroker`, a context manager, and a command: `python kafka_broker.py --print-bootstrap`.
Owns: one broker process, and ends it by its pid, also when the program that started it is killed.
Never: needs a package besides the standard library, touches another broker, calls itself ready before the
broker has answered and registered.
"""

from __future__ import annotations

import argparse
import os
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, NoReturn

if __package__ in {None, ""}:  # run as a script: the package is the folder above
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from broker import wire
from broker.broker_config import HOST, Ports, free_ports, second_listener, server_properties, write_config
from broker.java_home import BrokerError, find_java
from broker.jvm import BrokerProcess, cluster_id, format_storage, quote_log
from broker.maven_jars import kafka_jars

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11 only

__all__ = ["BrokerError", "KafkaBroker"]


class KafkaBroker:
    """`with KafkaBroker() as broker: connect(broker.bootstrap)`.

    `data` is kept if it is given; a temporary folder is removed at the end. `settings` are added to
    server.properties. `java_options` are those of its JVM, by default small and quick to start, because several run
    side by side in tests. `proxied` is the port of a proxy: the broker has a second listener behind it, which
    advertises that port. `classes` is a folder of additional classes, for settings that name one. `version` is a
    version on Maven Central; by default that of the other tests.
    """

    def __init__(
        self,
        data: Path | str | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        java_options: Sequence[str] = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        start_timeout: float = 90.0,
        proxied: int | None = None,
        classes: Path | None = None,
        version: str | None = None,
    ) -> None:
        self._given = Path(data).resolve() if data is not None else None
        self._settings = dict(settings or {})
        self._java_options = tuple(java_options)
        self._classes, self._version = classes, version
        self._start_timeout = start_timeout
        self._proxied = proxied
        self.behind_proxy = 0
        """The port of the second listener."""
        self._ports: Ports | None = None
        self._folder: Path | None = None
        self._process: BrokerProcess | None = None

    # -- properties

    @property
    def bootstrap(self) -> str:
        """`127.0.0.1:port`; the same after a restart."""
        return f"{HOST}:{self._port()}"

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.exit_code is None

    @property
    def folder(self) -> Path:
        """The data folder: Kafka's files, its configuration, and `broker.log`."""
        if self._folder is None:
            raise BrokerError("The broker has no data folder yet: call start() first.")
        return self._folder

    @property
    def log_file(self) -> Path:
        """The log of everything that the broker printed, over all its restarts."""
        return self.folder / "broker.log"

    # -- life cycle

    def start(self) -> Self:
        """Starts the broker and returns when it responds; otherwise raises BrokerError with the end of its log."""
        if self.is_running:
            raise BrokerError(f"The broker already runs as process {self.pid}.")
        java, jars = find_java(), kafka_jars(self._version)
        if self._folder is None:
            self._folder = self._given or Path(tempfile.mkdtemp(prefix="stoatflow-kafka-"))
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._ports is None:
            self._ports = free_ports()
            if self._proxied is not None:
                self.behind_proxy = free_ports().broker
                self._settings |= second_listener(self._ports, self.behind_proxy, self._proxied)
        config = server_properties(self._ports, self._folder, self._settings)
        server, logger = write_config(self._folder, config)
        path = f"{jars}/*" if self._classes is None else f"{jars}/*{os.pathsep}{self._classes}"
        class_path = [str(java), *self._java_options, f"-Dlog4j2.configurationFile={logger}", "-cp", path]
        if not (self._folder / "kafka-logs" / "meta.properties").is_file():
            format_storage(class_path, server, cluster_id())
        self._process = BrokerProcess(class_path, server, self.log_file)
        try:
            self._wait_until_it_answers()
        except BaseException:
            self._end(signal.SIGKILL, 10.0)
            raise
        return self

    def stop(self) -> None:
        """Stops the broker cleanly (SIGTERM, after 30 seconds SIGKILL); the data stays until the context ends."""
        self._end(signal.SIGTERM, 30.0)

    def kill(self) -> None:
        """Ends the broker with SIGKILL, as a crash would."""
        self._end(signal.SIGKILL, 10.0)

    def send(self, number: signal.Signals) -> None:
        """Sends the broker a signal, such as SIGSTOP and SIGCONT: then it is there but doesn't respond."""
        self._running().send(number)

    def restart(self) -> Self:
        """Starts the broker again on the same data and port; stops it first if it runs."""
        self.stop()
        return self.start()

    def close(self) -> None:
        """Stops the broker, and removes its data if the folder was temporary."""
        self.stop()
        if self._given is None and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- operations

    def create_topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None, *, timeout: float = 30.0
    ) -> None:
        """Creates a topic and returns when every partition has a leader."""
        error, words = wire.create_topic(HOST, self._port(), name, partitions, configs or {}, timeout)
        if error == wire.TOPIC_ALREADY_EXISTS:
            raise BrokerError(f"Topic {name!r} exists already: give the test a topic name of its own.")
        if error != 0:
            raise BrokerError(f"Kafka refused to create topic {name!r} (error {error}): {words}")
        self.wait_for_leaders(name, partitions, timeout=timeout)

    def wait_for_leaders(self, name: str, partitions: int, *, timeout: float = 30.0) -> None:
        """Returns when all partitions of a topic can be written to."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            topic = wire.metadata(HOST, self._port(), [name]).topics.get(name)
            if topic and topic.error == 0 and len(topic.leaders) == partitions and min(topic.leaders.values()) >= 0:
                return
            time.sleep(0.05)
        raise BrokerError(f"Topic {name!r} has no leader for all of its {partitions} partitions. {self._quote_log()}")

    def topics(self) -> dict[str, int]:
        """The topics of the broker and the number of their partitions."""
        return {name: len(topic.leaders) for name, topic in wire.metadata(HOST, self._port()).topics.items()}

    # -- internals

    def _port(self) -> int:
        if self._ports is None:
            raise BrokerError("The broker has no address yet: call start() first.")
        return self._ports.broker

    def _running(self) -> BrokerProcess:
        if self._process is None:
            raise BrokerError("The broker is not running: call start() or restart() first.")
        return self._process

    def _wait_until_it_answers(self) -> None:
        deadline = time.monotonic() + self._start_timeout
        last = "no connection yet"
        while time.monotonic() < deadline:
            if not self.is_running:
                code = self._process.exit_code if self._process else None
                raise BrokerError(f"The Kafka broker ended with {code} while starting. {self._quote_log()}")
            try:
                wire.api_versions(HOST, self._port(), timeout=2.0)
                # A broker responds before it is registered; topics can't be created until it is listed.
                if self.bootstrap in wire.metadata(HOST, self._port(), [], timeout=2.0).brokers.values():
                    return
                last = "it answers but is not registered"
            except OSError as error:
                last = str(error)
            time.sleep(0.1)
        raise BrokerError(
            f"The Kafka broker did not answer at {self.bootstrap} within {self._start_timeout:.0f} s ({last}). "
            f"{self._quote_log()}"
        )

    def _quote_log(self) -> str:
        return quote_log(self.log_file)

    def _end(self, how: signal.Signals, patience: float) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.end(how, patience)


def _serve(data: str | None, settings: dict[str, str]) -> None:
    """Prints the address and waits until stdin closes or a signal arrives."""

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        del frame
        sys.exit(0 if number == signal.SIGTERM else 130)

    arrived: list[int] = []
    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    with KafkaBroker(data, settings=settings) as broker:
        # An exception within `is_running` could leave a lock of `subprocess` taken, which the end needs.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda number, _: arrived.append(number))
        print(broker.bootstrap, flush=True)
        while broker.is_running:
            if arrived:
                sys.exit(0 if arrived[0] == signal.SIGTERM else 130)
            ready, _, _ = select.select([sys.stdin], [], [], 0.1)
            if ready and not os.read(sys.stdin.fileno(), 4096):
                return
        raise BrokerError(f"The broker ended by itself. {broker._quote_log()}")


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Run a real Apache Kafka broker on a free loopback port.")
    parser.add_argument(
        "--print-bootstrap", action="store_true",
        help="start, print host:port on stdout, run until stdin closes or SIGTERM (in the background, give it a "
        "stdin that stays open: `sleep infinity | python kafka_broker.py --print-bootstrap &`)",
    )  # fmt: skip
    parser.add_argument("--fetch", action="store_true", help="only fill the cache with the broker's jars")
    parser.add_argument("--data", help="a data folder to keep; without it a temporary one is used and removed")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a broker setting")
    options = parser.parse_args(arguments)
    if not options.print_bootstrap and not options.fetch:
        parser.error("say --print-bootstrap (run a broker) or --fetch (only download it)")
    wrong = [entry for entry in options.set if "=" not in entry]
    if wrong:
        parser.error(f"--set wants KEY=VALUE, not {wrong[0]!r}")
    try:
        if options.fetch:
            find_java()
            print(kafka_jars())
        else:
            _serve(options.data, dict(entry.split("=", 1) for entry in options.set))
    except BrokerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
