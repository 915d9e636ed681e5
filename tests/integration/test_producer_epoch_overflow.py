"""A producer's epochs run out: each transaction uses one of 32,767, in some minutes at a commit every 7 ms.

The broker then assigns another producer id to the transactional id. Here the epochs are used up beforehand, so that
both ids roll over during the work, with kills around it.
"""

from __future__ import annotations

import contextlib
import random
import signal
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from broker.kafka_broker import KafkaBroker
from counting import by_hand, check_every_update, lines, make, table, until_consumed
from processes import Process
from topics import KafkaTopics

LAST = 32_766
LEFT = 15
"""Epochs that are left to the application."""
ROUNDS = 6
CONCURRENT_TRANSACTIONS, INIT_PRODUCER_ID = 51, 22


APP = """
import sys
from pathlib import Path
from counting import make

make(sys.argv[1], sys.argv[2], Path(sys.argv[3])).run()
"""


class Opener:
    """Opens a transactional id again and again, each time with the next epoch."""

    def __init__(self, bootstrap: str, id_: str) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), 10)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        text = id_.encode()
        body = bytes([len(text) + 1]) + text + struct.pack(">iqhb", 60_000, -1, -1, 0)
        self._request = struct.pack(">hhihb", INIT_PRODUCER_ID, 4, 0, -1, 0) + body

    def open(self) -> tuple[int, int]:
        """The producer id and the epoch."""
        while True:
            self._socket.sendall(struct.pack(">i", len(self._request)) + self._request)
            (size,) = struct.unpack(">i", self._read(4))
            _, _, _, code, producer, epoch = struct.unpack_from(">ibihqh", self._read(size))
            if code == CONCURRENT_TRANSACTIONS:
                time.sleep(0.01)
                continue
            assert code == 0, code
            return producer, epoch

    def close(self) -> None:
        self._socket.close()

    def _read(self, size: int) -> bytes:
        read = b""
        while len(read) < size:
            part = self._socket.recv(size - len(read))
            assert part, "the broker closed the connection"
            read += part
        return read


def use_up(bootstrap: str, id_: str) -> int:
    """Leave a few epochs; returns the producer id."""
    with contextlib.closing(Opener(bootstrap, id_)) as opener:
        while True:
            producer, epoch = opener.open()
            if epoch >= LAST - LEFT:
                return producer


def owner(bootstrap: str, id_: str) -> int:
    """The current producer id of a transactional id."""
    with contextlib.closing(Opener(bootstrap, id_)) as opener:
        return opener.open()[0]


@pytest.mark.long
def test_both_ids_roll_over_under_load_and_kills(name: str, tmp_path: Path) -> None:
    with KafkaBroker() as broker:
        kafka, ids = KafkaTopics(broker.bootstrap), (name, f"{name}~2")
        for topic in ("in", "out"):
            kafka.create(f"{name}-{topic}", 2)
        script = tmp_path / "app.py"
        script.write_text(APP, "utf-8")
        app = [script, kafka.address, name, tmp_path / "state"]
        with make(kafka.address, name, tmp_path / "state") as first:  # the ids are there
            until_consumed(first)
        with ThreadPoolExecutor() as threads:
            before = list(threads.map(lambda id_: use_up(broker.bootstrap, id_), ids))
        rng = random.Random(5)
        given: list[str] = []

        def is_done() -> bool:
            return table(kafka.read(f"{name}-out")) == by_hand(given)

        for round_ in range(ROUNDS):
            with Process(app) as child:
                for part in range(20):
                    more = lines(round_ * 100 + part, 12)
                    given += more
                    kafka.write(f"{name}-in", more)
                if round_ < ROUNDS - 1:
                    time.sleep(rng.uniform(0.05, 0.4))
                    child.signal(signal.SIGKILL)
                else:
                    child.until(is_done, "all is counted")
                    child.signal(signal.SIGTERM)
                    assert child.wait() == 0
        check_every_update(kafka.read(f"{name}-out"), given)
        after = [owner(broker.bootstrap, id_) for id_ in ids]
        assert all(then != now for then, now in zip(before, after, strict=True)), (before, after)
