"""An application with an `offload`, and the function of its worker, each as its own process.

`python offloading.py ADDRESS NAME STATE LANES`: reads `NAME-in`, sends requests to `NAME-asked`, reads answers from
`NAME-answered`, writes `NAME-out`. Prints the address of its admin port once it runs. `offloading.py:shout` is for
`stoatflow worker`; a call takes SHOUT_S seconds at most.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys

import stoatflow as sf

SHOUT_S = float(os.environ.get("SHOUT_S", "0.03"))


async def shout(value: str) -> str:
    """Answer late, and not in the order of the requests; one call in twenty fails."""
    await asyncio.sleep(random.random() * SHOUT_S)
    if random.random() < 0.05:
        raise RuntimeError("hoarse")
    return value.upper()


def heard(value: str, answer: str) -> str:
    """Return the original value, if the answer belongs to it."""
    assert answer == value.upper(), f"{answer} answers {value}"
    return value


def topology(name: str) -> sf.Topology:
    """One request per record, whose original value is the result."""
    builder = sf.StreamsBuilder()
    builder.stream(f"{name}-in", key=str, value=str).offload(
        f"{name}-asked",
        f"{name}-answered",
        joiner=heard,
        response_value=str,
        timeout="3s",
        retry=sf.Backoff(attempts=100, first="20ms", most="200ms"),
        max_parked=500,
        name="shout",
    ).to(f"{name}-out", key=str, value=str)
    return builder.build()


def main(address: str, name: str, state: str, lanes: str) -> None:
    """Run until a signal."""
    config = {
        "application.id": name,
        "bootstrap.servers": address,
        "state.dir": state,
        "lanes.count": int(lanes),
        "admin.listen": "127.0.0.1:0",
    }
    app = sf.StoatFlow(topology(name), config)
    app.add_state_listener(lambda new, old: print(new, app.admin_url, flush=True))  # noqa: T201
    app.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
