"""An `offload` in the test driver, and the worker's side in the test's hands.

Takes the arguments of `offload`. Returns the requests that were sent, and the results; sends answers.
"""

from __future__ import annotations

from typing import Any

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver


class OffloadHarness:
    """A driver with an offload named `score`, and the worker's side in the test's hands."""

    def __init__(self, *, lanes: int = 1, sink: Any = str, **how: Any) -> None:
        """`how` is that of `offload`."""
        how.setdefault("joiner", lambda value, answer: f"{value}={answer}")
        builder = sf.StreamsBuilder()
        stream = builder.stream("in", key=str, value=str)
        stream.offload("asked", "answered", response_value=str, name="score", **how).to("out", key=str, value=sink)
        self.driver = TopologyTestDriver(builder.build(), lanes=lanes)
        self.records = self.driver.input("in", str, str)
        self.answers = self.driver.input("answered", str, str)
        self._asked = self.driver.output("asked", str, str)
        self._out = self.driver.output("out", str, sink)

    def __enter__(self) -> OffloadHarness:
        """Running already."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.driver.close()

    def asked(self) -> list[tuple[str, str, dict[str, str]]]:
        """Requests that went out since the last call: key, value, headers."""
        return [
            (str(r.key), str(r.value), {name: (value or b"").decode() for name, value in r.headers})
            for r in self._asked.read_all()
        ]

    def out(self) -> list[tuple[Any, Any]]:
        """Results since the last call."""
        return self._out.read_key_values_to_list()

    def answer(self, request: tuple[str, str, dict[str, str]], value: str | None, **more: str) -> None:
        """Answer a request; `error=` makes it one."""
        own = {f"stoatflow-{name}": text for name, text in more.items()}
        self.answers.pipe(request[0], value, headers={**request[2], **own})


def upper(harness: OffloadHarness, *requests: tuple[str, str, dict[str, str]]) -> None:
    """Answer as a worker would that gives capitals."""
    for request in requests:
        harness.answer(request, request[1].upper())
