"""The configuration files of the test broker.

Takes: ports and a data folder.
Gives: `server.properties` and `log4j2.properties` for one node that is broker and controller.
Owns: the reasons for each setting that differs from Kafka's own.
Never: starts anything.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"

_LOG4J = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %p %m (%c{1})%n%throwable
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
"""


@dataclass(frozen=True)
class Ports:
    """The ports of the node's two listeners."""

    broker: int
    controller: int


def free_ports() -> Ports:
    """Picks ports for a node."""
    broker, controller = free_port_numbers(2)
    return Ports(broker, controller)


def free_port_numbers(count: int) -> list[int]:
    """Free loopback ports below the range from which the system picks ports for outgoing connections.

    A port in that range could be taken by any client while the broker is down between kill and restart. Until this
    process ends, no other process gets the same ports: brokers that start side by side bind theirs seconds later.
    """
    found: list[int] = []
    for _ in range(500):
        port = random.randint(15_000, 32_000)
        if not _reserve(port):
            continue
        with socket.socket() as probe:
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"no {count} free ports between 15000 and 32000 on 127.0.0.1: close some servers and try again")


_reserved: set[int] = set()


def _reserve(port: int) -> bool:
    """Reserve a port for this process, by a lock that is released when it ends."""
    if port in _reserved:
        return False
    folder = Path(tempfile.gettempdir()) / f"stoatflow-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    lock = os.open(folder / str(port), os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return False
    _reserved.add(port)
    return True


def second_listener(ports: Ports, listen: int, advertised: int) -> dict[str, str]:
    """Settings of a second listener for clients, which advertises another port: that of a proxy."""
    own = f"PLAINTEXT://{HOST}:{ports.broker}"
    return {
        "listeners": f"{own},CONTROLLER://{HOST}:{ports.controller},PROXIED://{HOST}:{listen}",
        "advertised.listeners": f"{own},PROXIED://{HOST}:{advertised}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PROXIED:PLAINTEXT",
    }


def server_properties(ports: Ports, data: Path, overrides: Mapping[str, str]) -> dict[str, str]:
    """Kafka's settings, `overrides` last."""
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{ports.controller}",
        "listeners": f"PLAINTEXT://{HOST}:{ports.broker},CONTROLLER://{HOST}:{ports.controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{ports.broker}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        "log.dirs": str(data / "kafka-logs"),
        # One node holds one replica of everything.
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
        # The default is 50 partitions each, which costs seconds at start-up and many file handles.
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "group.initial.rebalance.delay.ms": "0",
        # After a kill the controller rejects the node until its old session has expired: 9 seconds by
        # default.
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        # A topic that nobody created is a mistake in the test, and "missing source topic" must be testable.
        "auto.create.topics.enable": "false",
        # Tests write records with timestamps near 0: with a retention they would be deleted minutes later.
        "log.retention.ms": "-1",
        # The default requests 128 MB of a 512 MB heap.
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
        "log.cleaner.threads": "1",
        "num.network.threads": "2",
        "num.io.threads": "2",
        "background.threads": "2",
        "num.recovery.threads.per.data.dir": "1",
    }
    return {**settings, **overrides}


def write_config(folder: Path, settings: Mapping[str, str]) -> tuple[Path, Path]:
    """Writes both files into `folder`; returns the paths of server.properties and log4j2.properties."""
    server, logger = folder / "server.properties", folder / "log4j2.properties"
    server.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    logger.write_text(_LOG4J)
    return server, logger
