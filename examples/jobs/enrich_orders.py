"""Add the customer's rating from a slow web service to orders: async calls, retries, a replacement value.

Hundreds of calls may run at a time; orders of a customer stay in order, and nothing is lost or written twice if the
process is killed. `python examples/jobs/enrich_orders.py` also starts such a service.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

import stoatflow as sf

SERVICE = {"address": ""}


@sf.awaiting(
    concurrency=50,
    timeout="5s",
    retry=sf.Backoff(attempts=3, first="10ms"),
    on_error=lambda order, error: {**order, "rating": None},
)
async def with_rating(order: dict[str, Any]) -> dict[str, Any]:
    """Call the service. An async HTTP client, such as httpx, needs no threads for that."""

    def ask() -> int:
        url = f"{SERVICE['address']}/{order['customer']}"
        with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310  # our own service
            return int(answer.read())

    return {**order, "rating": await asyncio.to_thread(ask)}


def build() -> sf.Topology:
    """Orders in, orders with a rating out."""
    builder = sf.StreamsBuilder()
    orders = builder.stream("orders", key=str, value=dict)
    orders.map_values(with_rating, name="rating").to("rated-orders", key=str, value=dict)
    return builder.build()


topology = build()


class Ratings(BaseHTTPRequestHandler):
    """The service: it is slow, and at first refuses one customer."""

    asked: ClassVar = Counter[str]()

    def do_GET(self) -> None:
        """Answer with the length of the name, or refuse."""
        customer = self.path.strip("/")
        self.asked[customer] += 1
        time.sleep(0.05)
        refused = customer == "nobody" or (customer == "bob" and self.asked[customer] == 1)
        self.send_response(503 if refused else 200)
        self.end_headers()
        self.wfile.write(b"" if refused else str(len(customer)).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name in the base class
        """Log nothing."""


def main() -> None:
    """Three customers: one is unknown to the service, and one is refused by its first call."""
    service = ThreadingHTTPServer(("127.0.0.1", 0), Ratings)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    SERVICE["address"] = f"http://127.0.0.1:{service.server_port}"
    with tempfile.TemporaryDirectory() as folder, sf.EmbeddedBroker(f"{folder}/broker") as broker:
        for topic in ("orders", "rated-orders"):
            broker.create_topic(topic)
        for number, customer in enumerate(["ann", "bob", "nobody", "ann"]):
            order = {"customer": customer, "number": number}
            broker.produce("orders", customer.encode(), json.dumps(order).encode())
        config = {"application.id": "enrich-orders", "state.dir": f"{folder}/state", "admin.listen": "off"}
        with sf.StoatFlow(topology, config, broker=broker) as app:
            # A call may still be running when its order is read and committed.
            while len(list(broker.read("rated-orders"))) < 4:
                app.wait(0.05)
        orders = sorted(
            (json.loads(row.value or b"") for row in broker.read("rated-orders")), key=lambda o: o["number"]
        )
    service.shutdown()
    for order in orders:
        print(order)


if __name__ == "__main__":
    main()
