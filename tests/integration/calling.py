"""An application whose function waits for something else, in its own process.

`python calling.py ADDRESS NAME STATE KIND LANES SECONDS [GUARANTEE]`: reads `NAME-in`, calls a function that takes
this long, writes `NAME-out`. KIND is `blocking` (the lane sleeps) or `async`. Prints the address of its admin port
once it runs.
"""

from __future__ import annotations

import asyncio
import sys
import time

import stoatflow as sf

CONCURRENCY = 2_000


def topology(name: str, kind: str, seconds: float) -> sf.Topology:
    """One call per record, which returns the value unchanged."""

    def blocking(value: str) -> str:
        time.sleep(seconds)
        return value

    @sf.awaiting(concurrency=CONCURRENCY)
    async def waiting(value: str) -> str:
        await asyncio.sleep(seconds)
        return value

    function = waiting if kind == "async" else blocking
    builder = sf.StreamsBuilder()
    calls = builder.stream(f"{name}-in", key=str, value=str).map_values(function, name="calls")
    calls.to(f"{name}-out", key=str, value=str)
    return builder.build()


def main(
    address: str, name: str, state: str, kind: str, lanes: str, seconds: str, guarantee: str = "exactly_once_v2"
) -> None:
    """Run until a signal."""
    config = {
        "application.id": name,
        "bootstrap.servers": address,
        "state.dir": state,
        "lanes.count": int(lanes),
        "processing.guarantee": guarantee,
        "admin.listen": "127.0.0.1:0",
    }
    app = sf.StoatFlow(topology(name, kind, float(seconds)), config)
    app.add_state_listener(lambda new, old: print(new, app.admin_url, flush=True))  # noqa: T201
    app.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
