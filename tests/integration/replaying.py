"""`stoatflow dlq` as a process that dies at an instant: `python replaying.py before|after N dlq replay ...`.

The N-th commit kills the process with SIGKILL: before it is asked for, when all records of its transaction are on the
broker, or after the broker has said yes, when nobody has heard of it yet. Everything else is as it is.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from stoatflow._runtime import bridge
from stoatflow.cli import main
from stoatflow.dlq import topic


class _Dying:
    """A writer, or the client that opens it."""

    def __init__(self, inner: Any, when: str, number: int) -> None:
        self._inner, self._when, self._left = inner, when, number

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def writer(self, of: str) -> Any:
        return _Dying(self._inner.writer(of), self._when, self._left)

    def commit(self) -> bool:
        self._left -= 1
        if self._left == 0 and self._when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        committed: bool = self._inner.commit()
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return committed


if __name__ == "__main__":
    moment, count, *command = sys.argv[1:]
    # It is asked for by `stoatflow.cli.dlq` when it runs.
    topic.connect = lambda settings: _Dying(bridge.TopicsClient(settings.pairs()), moment, int(count))  # type: ignore[assignment,return-value]
    sys.exit(main(command))
