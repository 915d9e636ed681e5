"""An application that uses everything on the dashboard, and can be made to fail in many ways.

Takes: a folder.
Gives: an application on embedded topics, and its input.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from topics import KafkaTopics

import stoatflow as sf

TOKEN = "a-token-of-the-tests"  # noqa: S105
APPLICATION = "watched"
ON_KAFKA = "watched-on-kafka"
MAX_PARKED = 10
TOPICS = ("orders", "quiet", "work", "requests", "answers", "out", "bad")
HOUR_MS = 3_600_000


def parse(text: str) -> str:
    if text == "unreadable":
        raise ValueError(text)
    return text


def price(text: str) -> str:
    if text == "unpriced":
        raise ValueError(text)
    return text


async def look_up(text: str) -> str:
    if text == "unknown":
        raise ConnectionError(text)
    return text


def topology() -> sf.Topology:
    """Every operator that has its own metrics."""
    builder = sf.StreamsBuilder()
    exact = sf.Watermark.bounded("1s")
    orders = builder.stream("orders", key=str, value=str, watermark=exact, late="drop")
    parsed = orders.map_values(parse, on_error=sf.log_and_continue(), name="parse")
    priced = parsed.map_values(price, on_error=sf.DLQ("bad"), name="price")
    known = priced.map_values(look_up, on_error=sf.log_and_continue(), name="look-up")
    known.group_by_key().count(store="counts").to_stream().to("out", key=str, value=int)
    builder.stream("quiet", key=str, value=str, watermark=exact).to("out")
    builder.stream("work", key=str, value=str, watermark=sf.Watermark.none()).offload(
        requests="requests",
        responses="answers",
        response_value=str,
        timeout=None,
        max_parked=MAX_PARKED,
        name="score",
    ).to("out")
    return builder.build()


@contextmanager
def watched(folder: Path) -> Iterator[tuple[sf.StoatFlow, sf.EmbeddedBroker]]:
    """Runs the application, with a token."""
    config = {
        "application.id": APPLICATION,
        "state.dir": str(folder / "state"),
        "admin.token": TOKEN,
        "time.semantics": "watermark",
        "lanes.count": 2,
    }
    with sf.EmbeddedBroker() as broker:
        for topic in TOPICS:
            broker.create_topic(topic, 1)
        app = sf.StoatFlow(topology(), config, broker=broker)
        app.health_check("prices")(lambda: True)
        with app:
            app.wait_until("RUNNING", timeout="90s")
            yield app, broker


@contextmanager
def on_kafka(folder: Path, bootstrap: str) -> Iterator[sf.StoatFlow]:
    """Runs an application without trouble on a real broker, for the metrics of its clients."""
    kafka = KafkaTopics(bootstrap)
    for topic in ("in", "out"):
        kafka.create(f"{ON_KAFKA}-{topic}")
    builder = sf.StreamsBuilder()
    builder.stream(f"{ON_KAFKA}-in", key=str, value=str).to(f"{ON_KAFKA}-out")
    config = {
        "application.id": ON_KAFKA,
        "bootstrap.servers": bootstrap,
        "state.dir": str(folder / "on-kafka"),
        "admin.token": TOKEN,
    }
    kafka.write(f"{ON_KAFKA}-in", ["x"], key="k")
    # For a while the topics are not known, and a coordinator is not found: that was an error in an answer.
    with sf.StoatFlow(builder.build(), config) as app:
        app.wait_until("RUNNING", timeout="90s")
        yield app


@contextmanager
def troubled(broker: sf.EmbeddedBroker) -> Iterator[None]:
    """Writes orders meanwhile: good ones, late ones, and some that fail in each way. One partition is idle."""
    now = int(time.time() * 1000)
    broker.produce_many("quiet", [(0, b"q", b"once", now - HOUR_MS)])
    broker.produce_many("work", [(0, b"w%d" % n, b"task", now) for n in range(MAX_PARKED)])
    over = threading.Event()

    def orders() -> None:
        while not over.wait(0.05):
            at = int(time.time() * 1000)
            kinds = [b"tea", b"unreadable", b"unpriced", b"unknown"]
            batch = [(0, b"k", kind, at) for kind in kinds]
            broker.produce_many("orders", [*batch, (0, b"k", b"tea", at - 2 * HOUR_MS)])

    writer = threading.Thread(target=orders)
    writer.start()
    try:
        yield
    finally:
        over.set()
        writer.join(30)
