"""A proxy in front of a broker that damages single requests of Kafka's protocol.

Takes: the port of a broker's listener, and rules: which request (by API), what happens to it, and when.
Gives: an address to connect to. Requests that no rule matches pass unchanged.
Owns: its connections and one thread.
Never: reads a request beyond its header, unless it rejects it.

`FaultProxy` opens its port immediately, so that a broker can advertise it; `connect` sets the broker's port.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import struct
import threading
import warnings
import weakref
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from broker.broker_config import HOST
from broker.fault_answers import Api, refusal

if TYPE_CHECKING:
    from types import TracebackType

LINGER_S = 0.5
"""How long a broker has to receive a request whose client is gone."""
_HEAD = 10
"""Bytes of a request before its client id: API key, version, correlation id, length of the client id."""


@dataclass
class Rule:
    """What happens to a request, and which requests are affected."""

    api: Api | None
    """None matches every API except those of `spared`."""
    action: str
    """`disconnect before` or `disconnect after` it reaches the broker, `delay` of the answer, `black hole`, `error`,
    `late`: a disconnect, and the request reaches the broker afterwards."""
    at: int = 1
    """Only this call, counted from now on."""
    probability: float = 0.0
    """Instead of `at`: how often."""
    delay_s: float = 2.0
    code: int = 0
    """The error code of the action `error`."""
    spared: frozenset[Api] = frozenset()
    clients: frozenset[str] = frozenset()
    """The client ids whose requests are affected; empty for all."""
    met: int = field(default=0, init=False)
    struck: int = field(default=0, init=False)

    def strikes(self, api: int, client: str, dice: random.Random) -> bool:
        """Whether this call is affected."""
        if api in self.spared or (self.api is not None and api != self.api):
            return False
        if self.clients and client not in self.clients:
            return False
        self.met += 1
        strikes = dice.random() < self.probability if self.probability else self.met == self.at
        self.struck += strikes
        return strikes


class FaultProxy:
    """`with FaultProxy(seed=1) as proxy: ...`."""

    def __init__(self, seed: int = 0) -> None:
        self._dice = random.Random(seed)
        self._rules: list[Rule] = []
        self._upstream = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="fault-proxy")
        self._open: set[_Connection] = set()
        # The event loop itself holds tasks by weak references only.
        self._serving: set[asyncio.Task[None]] = set()
        # A transport that is closed while its peer doesn't read stays open until everything is written.
        self._transports: weakref.WeakSet[asyncio.WriteTransport] = weakref.WeakSet()
        self.port = 0
        self.passed: Counter[int] = Counter()
        """Requests by API."""
        self.connections = 0
        """How many connections were opened."""

    def __enter__(self) -> FaultProxy:
        """Listen."""
        self._thread.start()
        listening = asyncio.start_server(self._accept, HOST, 0, limit=1 << 26)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result(10)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close everything."""

        async def end() -> None:
            self._server.close()
            # A connection that was just accepted has no transport yet: if it were cancelled now, its socket
            # would stay open. On a busy machine a sleep may end within one turn of the loop, so turns are
            # counted.
            await _turns()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=5)
            for transport in list(self._transports):
                transport.abort()
            await _turns()

        with contextlib.suppress(Exception):
            asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        # On a starved machine asyncio leaves the socket of a connection that is being accepted to the garbage
        # collector, which would warn in whichever test runs then.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()

    @property
    def address(self) -> str:
        """The address for clients."""
        return f"{HOST}:{self.port}"

    def connect(self, port: int) -> None:
        """Set the broker's port."""
        self._upstream = port

    def inject(self, api: Api | None, action: str, **how: object) -> Rule:
        """Add a rule."""
        rule = Rule(api, action, **how)  # type: ignore[arg-type]
        self._rules.append(rule)
        return rule

    def clear(self) -> None:
        """Remove all rules."""
        self._rules.clear()

    def cut(self) -> None:
        """Close all connections; new ones are accepted."""

        async def end() -> None:
            for connection in list(self._open):
                connection.close()

        asyncio.run_coroutine_threadsafe(end(), self._loop).result(10)

    def rule_for(self, api: int, client: str) -> Rule | None:
        """The rule for a request that arrives now."""
        self.passed[api] += 1
        return next((rule for rule in list(self._rules) if rule.strikes(api, client, self._dice)), None)

    def _accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        # Added before the task runs: a task that is cancelled before that does nothing at all.
        self._transports.add(to_client.transport)
        task = self._loop.create_task(self._serve(client, to_client))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        try:
            broker, to_broker = await asyncio.open_connection(HOST, self._upstream, limit=1 << 26)
        except OSError:
            to_client.close()
            return
        except asyncio.CancelledError:
            to_client.transport.abort()
            raise
        self._transports.add(to_broker.transport)
        self.connections += 1
        connection = _Connection(self, to_client, to_broker)
        self._open.add(connection)
        tasks = [asyncio.ensure_future(connection.answers(broker)), asyncio.ensure_future(connection.requests(client))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            self._open.discard(connection)
            connection.close()


class _Connection:
    """A client's connection and the broker connection behind it. Both end when either direction does."""

    def __init__(self, proxy: FaultProxy, to_client: asyncio.StreamWriter, to_broker: asyncio.StreamWriter) -> None:
        self._proxy = proxy
        self._to_client, self._to_broker = to_client, to_broker
        # By correlation id.
        self._late: dict[int, float] = {}
        self._lost: set[int] = set()
        self._cut: set[int] = set()

    def close(self) -> None:
        """Close both connections."""
        self._to_client.close()
        self._to_broker.close()

    async def answers(self, broker: asyncio.StreamReader) -> None:
        async for frame in _frames(broker):
            (number,) = struct.unpack_from(">i", frame)
            if number in self._cut:
                return
            if number not in self._lost:
                await asyncio.sleep(self._late.pop(number, 0.0))
                await _send(self._to_client, frame)

    async def requests(self, client: asyncio.StreamReader) -> None:
        async for frame in _frames(client):
            api, _, number, length = struct.unpack_from(">hhih", frame)
            client = frame[_HEAD : _HEAD + max(length, 0)].decode()
            rule = self._proxy.rule_for(api, client)
            if rule is not None:
                if rule.action == "disconnect before":
                    return
                if rule.action == "late":
                    self._to_client.transport.abort()
                    await asyncio.sleep(rule.delay_s)
                    await _send(self._to_broker, frame)
                    await asyncio.sleep(LINGER_S)
                    return
                if rule.action == "error":
                    await _send(self._to_client, refusal(frame, rule.code))
                    continue
                self._note(rule, number)
            await _send(self._to_broker, frame)

    def _note(self, rule: Rule, number: int) -> None:
        """Pass the request on, and treat its response as the rule says."""
        if rule.action == "disconnect after":
            self._cut.add(number)
        elif rule.action == "black hole":
            self._lost.add(number)
        elif rule.action == "delay":
            self._late[number] = rule.delay_s
        else:
            raise ValueError(f"there is no fault {rule.action!r}")


async def _turns() -> None:
    """Let the loop run until accepted connections are served and aborted ones are closed."""
    for _ in range(20):
        await asyncio.sleep(0)


async def _send(writer: asyncio.StreamWriter, frame: bytes) -> None:
    writer.write(struct.pack(">i", len(frame)) + frame)
    await writer.drain()


async def _frames(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Requests or responses, one by one, until the connection ends."""
    with contextlib.suppress(asyncio.IncompleteReadError, OSError):
        while True:
            (size,) = struct.unpack(">i", await reader.readexactly(4))
            yield await reader.readexactly(size)
