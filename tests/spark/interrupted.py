"""A batch with its own session, which is still running when it gets SIGINT: `interrupted.py BROKER`."""

from __future__ import annotations

import sys
import time

import stoatflow as sf


def slow(value: str) -> str:
    """Take longer than the test waits."""
    time.sleep(300)
    return value


def main() -> None:
    """Run until it is interrupted, and print how it ended."""
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).map_values(slow).to("out", key=str, value=str)
    settings = {"application.id": "slow", "bootstrap.servers": f"embedded:{sys.argv[1]}"}
    app = sf.StoatFlow(builder.build(), settings, engine="spark", batch=True)
    app.add_state_listener(lambda new, _: print(new, flush=True))  # noqa: T201
    app.run()


if __name__ == "__main__":
    main()
