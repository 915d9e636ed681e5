"""Resources: opened on the event loop before the first record, closed after the last, shared by all functions."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver


class Client:
    """Records whether it is open, and on which thread it was opened."""

    def __init__(self, log: list[str], name: str = "client") -> None:
        self.log, self.name = log, name

    async def __aenter__(self) -> Client:
        self.log.append(f"open {self.name} {threading.current_thread().name}")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.log.append(f"close {self.name}")

    async def get(self, value: str) -> str:
        await asyncio.sleep(0)
        return f"{self.name}:{value}"


def test_resources_are_opened_before_and_closed_after() -> None:
    log: list[str] = []
    builder = sf.StreamsBuilder()
    client = builder.resource(lambda: Client(log))

    @builder.resource
    async def pool() -> AsyncIterator[str]:
        log.append("open pool")
        yield "pool"
        log.append("close pool")

    @builder.resource
    def lock() -> Iterator[int]:
        log.append("open lock")
        yield 7
        log.append("close lock")

    @builder.resource
    async def token() -> str:
        return "token"

    @builder.resource
    @contextlib.contextmanager
    def model() -> Iterator[str]:
        yield "model"

    async def fetch(value: str) -> str:
        return await client.value.get(f"{value}-{pool.value}-{lock.value}-{token.value}-{model.value}")

    builder.stream("in", key=str, value=str).map_values(fetch, name="fetched").to("out", key=str, value=str)
    topology = builder.build()
    for _ in range(2):  # a topology may run again
        log.clear()
        with pytest.raises(RuntimeError, match="not open"):
            _ = client.value
        with TopologyTestDriver(topology) as driver:
            assert log == ["open client stoatflow-event-loop", "open pool", "open lock"]
            driver.input("in", str, str).pipe("k", "v")
            assert driver.output("out", str, str).read_values_to_list() == ["client:v-pool-7-token-model"]
        assert log[3:] == ["close lock", "close pool", "close client"]


def test_plain_functions_share_resources_too() -> None:
    builder = sf.StreamsBuilder()
    table = builder.resource(lambda: contextlib.nullcontext({"v": "looked up"}))
    builder.stream("in", key=str, value=str).map_values(lambda v: table.value[v]).to("out", key=str, value=str)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, str).pipe("k", "v")
        assert driver.output("out", str, str).read_values_to_list() == ["looked up"]


def test_a_resource_that_can_not_be_opened_keeps_the_application_from_starting() -> None:
    log: list[str] = []
    builder = sf.StreamsBuilder()
    builder.resource(lambda: Client(log))

    @builder.resource
    async def broken() -> str:
        raise ConnectionError("no database")

    builder.stream("in", key=str, value=str).to("out")
    topology = builder.build()
    with pytest.raises(ConnectionError, match="no database"):
        TopologyTestDriver(topology)
    assert log == ["open client stoatflow-event-loop", "close client"]
    loop = topology.event_loop
    assert loop is not None
    assert not [t for t in threading.enumerate() if t.name == "stoatflow-event-loop"]
    with pytest.raises(sf.TopologyError, match="resource needs a function"):
        builder.resource(3)  # type: ignore[call-overload]
