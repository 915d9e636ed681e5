"""Sends the answers of a worker, and commits the positions behind them.

Takes requests when they start and answers when they are ready, both in the event loop; passes answers to the client,
and commits the positions of those that are acknowledged. An answer that can't be sent is replaced by an error. Owns the
queue of answers to be sent. Never blocks the event loop: a commit may take as long as the broker is unavailable.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, NamedTuple

from stoatflow.offload import ATTEMPT, CORRELATION, ERROR

if TYPE_CHECKING:
    from stoatflow._runtime.bridge import WorkerClient

_COMMIT_S = 0.5
_MOST_UNSENT = 1_000
_LONGEST_ERROR = 4_096
_log = logging.getLogger("stoatflow")


class Request(NamedTuple):
    """One request record."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Answer(NamedTuple):
    """The answer to a request: a value, or an error."""

    request: Request
    value: bytes | None
    error: str | None = None

    def record(self) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
        """Return key, value and headers. A long error is cut, since headers are not meant for data."""
        headers = [(name, value) for name, value in self.request.headers if name in (CORRELATION, ATTEMPT)]
        if self.error is not None:
            text = self.error.encode(errors="replace")
            cut = text[:_LONGEST_ERROR].decode(errors="ignore").encode() + b" ..."
            headers.append((ERROR, text if len(text) <= _LONGEST_ERROR else cut))
        return self.request.key, self.value, headers


class Delivery:
    """Sends and commits in turn, in a thread of its own."""

    def __init__(self, client: WorkerClient) -> None:
        """Start nothing: `run` does the work."""
        self._client = client
        self._positions = _Positions()
        self._waiting: list[Answer] = []
        self._news = asyncio.Event()
        self._ending = False
        self._unsent = 0
        self.answered = 0
        """Number of requests whose answers were queued."""

    @property
    def room(self) -> int:
        """Return how many more answers may be queued: while the broker is unavailable, no more requests start."""
        return _MOST_UNSENT - self._unsent

    def begin(self, request: Request) -> None:
        """Keep positions at or below this request until `put` or `skip`."""
        self._positions.begin(request.partition, request.offset)

    def skip(self, request: Request) -> None:
        """Let positions pass this request: it gets no answer."""
        self._positions.end(request.partition, request.offset)

    def put(self, answer: Answer) -> None:
        """Queue an answer to be sent soon."""
        self._waiting.append(answer)
        self._unsent += 1
        self._news.set()

    def end(self) -> None:
        """Announce the last answer: `run` sends and commits what is left, and returns."""
        self._ending = True
        self._news.set()

    async def run(self) -> None:
        """Send queued answers, and commit now and then. Raises errors of the broker."""
        clock = asyncio.get_running_loop().time
        due = clock() + _COMMIT_S
        while not self._ending:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._news.wait(), max(0.0, due - clock()))
            await self._send()
            if clock() >= due:
                await self._commit()
                due = clock() + _COMMIT_S
        await self._send()
        await self._commit()

    async def _send(self) -> None:
        self._news.clear()
        batch, self._waiting = self._waiting, []
        if not batch:
            return
        await asyncio.to_thread(self._hand_over, batch)
        for answer in batch:
            self._positions.end(answer.request.partition, answer.request.offset)
        self._unsent -= len(batch)
        self.answered += len(batch)

    def _hand_over(self, batch: list[Answer]) -> None:
        errors: list[Answer] = []
        for at, why in self._client.answer([answer.record() for answer in batch]):
            _log.warning("an answer can't be sent, so an error goes out in its place: %s", why)
            errors.append(Answer(batch[at].request, None, f"SerdeError: the answer can't be sent: {why}"))
        for at, why in self._client.answer([answer.record() for answer in errors]) if errors else ():
            request = errors[at].request
            _log.error("request %d@%d has no answer, not even an error: %s", request.partition, request.offset, why)

    async def _commit(self) -> None:
        if changed := self._positions.changed():
            await asyncio.to_thread(self._client.commit, changed)


class _Positions:
    """Committable positions per partition: the first request without an answer, or the one behind the last."""

    def __init__(self) -> None:
        self._open: dict[int, dict[int, None]] = {}
        self._next: dict[int, int] = {}
        self._told: dict[int, int] = {}

    def begin(self, partition: int, offset: int) -> None:
        self._open.setdefault(partition, {})[offset] = None
        self._next[partition] = offset + 1

    def end(self, partition: int, offset: int) -> None:
        del self._open[partition][offset]

    def changed(self) -> list[tuple[int, int]]:
        """Return the positions that have changed since the last call."""
        now = {partition: next(iter(self._open[partition]), behind) for partition, behind in self._next.items()}
        moved = [(partition, at) for partition, at in now.items() if self._told.get(partition) != at]
        self._told = now
        return moved
