"""An application on a real Kafka broker for the tests of the console, and its input.

Takes a broker's topics, returns a running application that gets records until the context ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Producer
from topics import KafkaTopics

import stoatflow as sf
from concurrency import until
from console.chromium import Page

EVIL = "<img src=x onerror=alert(1)>"
PICTURES = os.environ.get("STOATFLOW_TEST_PICTURES")
"""A folder for screenshots of the views."""


def price(order: dict[str, int]) -> dict[str, int]:
    if order["n"] % 50 == 0:
        raise ValueError(f"no price for '{order['n']}'")
    return {**order, "price": 2 * order["n"]}


def topology() -> sf.Topology:
    builder = sf.StreamsBuilder()
    orders = builder.stream("orders", key=str, value=dict, name="orders")
    priced = orders.map_values(price, name="price", on_error=sf.DLQ("bad"))
    priced.group_by_key().count(store="orders-by-customer")
    priced.group_by_key().windowed_by(sf.TimeWindows("1m", grace="10s")).count(store="per-minute")
    priced.to_table(store=sf.Materialized("last-order", value=dict))
    priced.to("out", value=dict)
    return builder.build()


@contextlib.contextmanager
def fed(kafka: KafkaTopics) -> Iterator[None]:
    """Five hundred orders per second while it is open."""
    over = threading.Event()

    def feed() -> None:
        producer = Producer({"bootstrap.servers": kafka.address, "linger.ms": 5, "log_level": 0})
        number = 0
        while not over.wait(0.1):
            for _ in range(50):
                number += 1
                key = EVIL if number % 211 == 0 else f"customer-{number % 300:03}"
                value = json.dumps({"n": number, "note": EVIL})
                producer.produce("orders", value.encode(), key=key.encode(), timestamp=int(time.time() * 1000))
            producer.flush(10)

    feeding = threading.Thread(target=feed)
    feeding.start()
    try:
        yield
    finally:
        over.set()
        feeding.join()


@contextlib.contextmanager
def running(
    topology: sf.Topology, name: str, kafka: KafkaTopics, folder: Path, **settings: object
) -> Iterator[sf.StoatFlow]:
    """An application on the broker."""
    given = {"application.id": name, "bootstrap.servers": kafka.address, "state.dir": str(folder / name)}
    given |= {key.replace("_", "."): str(value) for key, value in settings.items()}
    with sf.StoatFlow(topology, sf.Settings(given, environ={})) as app:
        app.wait_until("RUNNING")
        yield app


@contextlib.contextmanager
def shop(kafka: KafkaTopics, folder: Path) -> Iterator[sf.StoatFlow]:
    """The shop, with constant input."""
    for topic, partitions in (("orders", 4), ("out", 2), ("bad", 1)):
        kafka.create(topic, partitions)
    with running(topology(), "shop", kafka, folder) as app, fed(kafka):
        until(lambda: app.metrics()["records_committed"] > 1_000)
        yield app


def show(page: Page, app: sf.StoatFlow, view: str) -> None:
    """Open a view, and wait until it is there."""
    page.open(f"{app.admin_url}#{view}")
    page.until("document.querySelector('#badge')?.textContent === 'RUNNING'")
    if PICTURES:
        time.sleep(2.5)
        page.picture(Path(PICTURES) / f"{view.partition('/')[0]}.png")


def picture(page: Page, name: str) -> None:
    """Save a screenshot, if they are wanted."""
    if PICTURES:
        time.sleep(1.5)
        page.picture(Path(PICTURES) / f"{name}.png")
