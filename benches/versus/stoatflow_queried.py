"""The StoatFlow side of the benchmark of point queries: a sum per key, as in kstreams/.../Queried.java.

Takes the same arguments. Prints one line of JSON with the address of its admin port when it is RUNNING, then goes on
until it is killed.
"""

from __future__ import annotations

import argparse
import json

from started import start

import stoatflow as sf


def topology(source: str) -> sf.Topology:
    """A sum per key."""
    builder = sf.StreamsBuilder()
    orders = builder.stream(source, key=str, value=int).group_by_key(key=str, value=int)
    orders.aggregate(sf.sum(sf.value), store=sf.Materialized("revenue", key=str, value=int))
    return builder.build()


def main() -> int:
    """Start, report when it runs, go on."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "application-id", "input", "state-dir"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    config = {
        "bootstrap.servers": options.bootstrap,
        "application.id": options.application_id,
        "state.dir": options.state_dir,
    }
    app = sf.StoatFlow(topology(options.input), config)
    start(app)
    print(json.dumps({"url": app.admin_url}), flush=True)
    app.wait()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
