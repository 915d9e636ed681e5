"""Cost of point queries over HTTP: `python benches/scaling/http_queries.py`.

Reads a topic with and without concurrent queries, alternating in one run: 16 connections request 2,000 keys a second
together, from a separate process. Prints records per second of both, and the latency of answers, from when each request
was due. On a machine with few cores the clients' CPU time is part of the cost, so it is printed too.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import resource
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import stoatflow as sf
from stoatflow import EmbeddedBroker, StoatFlow

KEYS = 100_000
ANSWER_S = 60.0


def topology() -> sf.Topology:
    """Sum of amounts by customer."""
    builder = sf.StreamsBuilder()
    orders = builder.stream("orders", key=str, value=int).group_by_key()
    orders.aggregate(sf.sum(sf.value), store=sf.Materialized("revenue", key=str, value=int))
    return builder.build()


def fill(broker: EmbeddedBroker, count: int) -> None:
    """Write the input."""
    broker.create_topic("orders", 4)
    chance = random.Random(1)  # noqa: S311
    value = (1).to_bytes(8, "big")
    keys = (f"customer-{chance.randrange(KEYS)}".encode() for _ in range(count))
    broker.produce_many("orders", ((None, key, value, 1_700_000_000_000) for key in keys))


def measure(broker: EmbeddedBroker, number: int, count: int, rate: int) -> dict[str, Any]:
    """Read all input, with `rate` queries a second."""
    with tempfile.TemporaryDirectory() as folder:
        config = {"application.id": f"queried-{number}", "state.dir": folder, "commit.interval.ms": 100}
        with StoatFlow(topology(), sf.Settings(config, environ={}), broker=broker) as app:
            while str(app.state) != "RUNNING":
                app.wait(0.01)
            began = time.perf_counter()
            client = None
            if rate:
                command = [sys.executable, __file__, "--client", str(app.admin_url), "--rate", str(rate)]
                client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            while app.metrics()["records_committed"] < count:
                app.wait(0.02)
            seconds = time.perf_counter() - began
            found: dict[str, Any] = {"records_per_s": round(count / seconds), "seconds": round(seconds, 2)}
            if client is not None:
                output, _ = client.communicate("")
                found["queries"] = json.loads(output)
            return found


@dataclass
class Connection:
    """A connection, and its request."""

    socket: socket.socket
    due: float
    answer: bytearray = field(default_factory=bytearray)
    size: int = 0


def ask(url: str, rate: int, connections: int) -> dict[str, Any]:
    """Send queries until standard input ends."""
    to, late, codes = urlsplit(url), list[float](), dict[int, int]()
    chance, ready, over = random.Random(2), selectors.DefaultSelector(), False  # noqa: S311
    began = time.perf_counter()
    by_socket: dict[int, Connection] = {}
    for number in range(connections):
        made = socket.create_connection((str(to.hostname), int(to.port or 80)))
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        by_socket[made.fileno()] = Connection(made, began + number / rate)
        ready.register(made, selectors.EVENT_READ)
    ready.register(sys.stdin, selectors.EVENT_READ)
    idle = [(each.due, number) for number, each in by_socket.items()]
    heapq.heapify(idle)
    while not over or len(idle) < connections:
        while idle and idle[0][0] <= time.perf_counter() and not over:
            _, number = heapq.heappop(idle)
            path = f"/stores/revenue/customer-{chance.randrange(KEYS)}"
            by_socket[number].socket.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        pause = max(0.0, idle[0][0] - time.perf_counter()) if idle and not over else ANSWER_S
        for key, _ in ready.select(pause):
            if key.fileobj is sys.stdin:
                over = True
                ready.unregister(sys.stdin)
                continue
            one = by_socket[key.fd]
            received = one.socket.recv(1 << 16)
            if not received:
                raise ConnectionError("the port closed a connection")
            one.answer += received
            head = one.answer.find(b"\r\n\r\n")
            if not one.size and head >= 0:
                length = one.answer[:head].lower().split(b"content-length: ")[1].split(b"\r\n")[0]
                one.size = head + 4 + int(length)
            if one.size and len(one.answer) >= one.size:
                late.append(time.perf_counter() - one.due)
                code = int(one.answer[9:12])
                codes[code] = codes.get(code, 0) + 1
                one.answer, one.size = bytearray(), 0
                one.due += connections / rate
                heapq.heappush(idle, (one.due, key.fd))
    seconds = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_SELF)
    cuts = statistics.quantiles(late, n=1000)
    return {
        "per_s": round(len(late) / seconds),
        "codes": codes,
        "p50_ms": round(cuts[499] * 1e3, 2),
        "p99_ms": round(cuts[989] * 1e3, 2),
        "max_ms": round(max(late) * 1e3, 2),
        "client_cpu_share": round((used.ru_utime + used.ru_stime) / seconds, 2),
    }


def main() -> None:
    """Measure, print JSON lines and a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--rate", type=int, default=2_000)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--client", metavar="URL", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.client is not None:
        print(json.dumps(ask(given.client, given.rate, given.connections)))
        return
    rows: dict[bool, list[int]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(folder) as broker:
        fill(broker, given.records)
        for number in range(2 * given.rounds):
            asked = bool(number % 2)
            found = measure(broker, number, given.records, given.rate if asked else 0)
            rows[asked].append(found["records_per_s"])
            print(json.dumps({"queries": asked, **found}), flush=True)
    without, beside = statistics.median(rows[False]), statistics.median(rows[True])
    print(f"without {without:,.0f} records/s, beside queries {beside:,.0f}: {1 - beside / without:+.1%}")


if __name__ == "__main__":
    main()
