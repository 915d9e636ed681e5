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

import stoatflow as sf

STEP_S = 0.005


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
    entered: dict[str, float] = {}
    app.add_state_listener(lambda new, _: entered.setdefault(str(new), time.monotonic()))
    start = time.monotonic()
    app.start()
    while "RUNNING" not in entered:
        if app.wait(timeout=STEP_S):  # raises the error that the engine failed with
            raise RuntimeError("StoatFlow stopped by itself: see its log above")
    report = {
        "seconds": round(entered["RUNNING"] - start, 3),
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
