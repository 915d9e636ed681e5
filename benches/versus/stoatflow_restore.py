"""The StoatFlow side of the restore benchmark: a count per key, as in kstreams/.../Restore.java.

Takes the same arguments. Prints one line of JSON when it is RUNNING, then goes on until it is killed. Measures only
this process.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import own_figures
from started import start

import stoatflow as sf


def topology(source: str, sink: str) -> sf.Topology:
    """A count per key."""
    builder = sf.StreamsBuilder()
    stream = builder.stream(source, key=str, value=str)
    stream.group_by_key(key=str, value=str).count(store="counts").to_stream().to(sink, key=str, value=int)
    return builder.build()


def main() -> int:
    """Start, report when it runs, go on."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "application-id", "input", "output", "state-dir"):
        parser.add_argument(f"--{name}", required=True)
    options = parser.parse_args()
    config = {
        "bootstrap.servers": options.bootstrap,
        "application.id": options.application_id,
        "state.dir": options.state_dir,
    }
    app = sf.StoatFlow(topology(options.input, options.output), config)
    began = time.monotonic()
    entered = start(app)
    report = {
        "seconds": round(entered["RUNNING"] - began, 3),
        "restore_seconds": round(entered["RUNNING"] - entered["RESTORING"], 3),
        "restored": None,
        "cpu_seconds": round(own_figures.cpu_seconds(), 3),
        "peak_rss_kb": own_figures.peak_rss_kb(),
    }
    print(json.dumps(report), flush=True)
    app.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
