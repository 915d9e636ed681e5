"""Serve state from your own web application, with FastAPI: `python examples/serve_state.py`.

Needs fastapi and uvicorn. The application runs in the background of the server; `app.store` reads its committed state,
so no second database is needed. Reads are fast enough for the event loop; waiting for records just written (`at_least`)
is not, and runs outside of it. Without your own server, the admin port has `/stores`.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import urllib.request
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI, HTTPException

import stoatflow as sf
from stoatflow import EmbeddedBroker, StoatFlow

ORDERS = [("ann", 30), ("bob", 20), ("ann", 12), ("cyd", 7)]


def build() -> sf.Topology:
    """Orders in, revenue by customer."""
    builder = sf.StreamsBuilder()
    orders = builder.stream("orders", key=str, value=int).group_by_key()
    orders.aggregate(sf.sum(sf.value), store=sf.Materialized("revenue", key=str, value=int))
    return builder.build()


topology = build()


def api(orders: StoatFlow) -> FastAPI:
    """Routes that read the stores of an application, which starts and ends with the server."""

    @asynccontextmanager
    async def running(_: FastAPI) -> AsyncGenerator[None, None]:
        async with orders:
            yield

    web = FastAPI(lifespan=running)

    @web.get("/revenue/{customer}")
    async def revenue(customer: str, offset: int = 0) -> dict[str, Any]:
        # The answer includes records before this offset.
        async with orders.snapshot(at_least={("orders", 0): offset}) as at:
            total = at.store("revenue").get(customer)
        if total is None:
            raise HTTPException(404, f"{customer} has ordered nothing")
        return {"customer": customer, "revenue": total, "epoch": at.epoch}

    @web.get("/top")
    async def top(most: int = 2) -> list[tuple[str, int]]:
        rows = list(orders.store("revenue").all())
        return sorted(rows, key=lambda row: -row[1])[:most]

    return web


async def main() -> None:
    """Serve, ask, stop."""
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(f"{folder}/broker") as broker:
        broker.create_topic("orders", 1)
        config = {"application.id": "orders", "state.dir": f"{folder}/state", "admin.listen": "off"}
        orders = StoatFlow(topology, config, broker=broker)
        server = uvicorn.Server(uvicorn.Config(api(orders), port=0, log_level="warning"))
        serving = asyncio.create_task(server.serve())
        while not server.started or str(orders.state) != "RUNNING":  # noqa: ASYNC110
            await asyncio.sleep(0.05)  # neither has an event for it
        port = server.servers[0].sockets[0].getsockname()[1]

        for customer, amount in ORDERS:
            broker.produce("orders", customer.encode(), amount.to_bytes(8, "big"))
        for path in (f"revenue/ann?offset={len(ORDERS)}", "top", "top?most=1"):
            answer = await asyncio.to_thread(get, f"http://127.0.0.1:{port}/{path}")
            if isinstance(answer, dict):
                del answer["epoch"]
            print(json.dumps(answer))
        server.should_exit = True
        await serving


def get(url: str) -> Any:
    """Request JSON."""
    with urllib.request.urlopen(url, timeout=30) as answer:  # noqa: S310  # our own server
        return json.load(answer)


if __name__ == "__main__":
    asyncio.run(main())
