"""An application with a large table, for the benchmark of failovers.

Prints one line of JSON when it is RUNNING. On each line of standard input it waits until it has caught up, compares its
table with the rows that the benchmark wrote, and prints the result as one line of JSON. Measures only this process.
"""

from __future__ import annotations

import argparse
import json
import sys

import own_figures
from large_rows import key_of, row_of, shuffled
from started import start

import stoatflow as sf

STORE = "rows"
# Compared value by value; the rest is counted.
SAMPLE = 5_000


def topology(source: str) -> sf.Topology:
    """The last row of each key."""
    builder = sf.StreamsBuilder()
    builder.stream(source, key=str, value=str).to_table(store=STORE)
    return builder.build()


def differences(app: sf.StoatFlow, keys: int, fed: int) -> list[str]:
    """What is wrong in the table: the first `fed` keys of the shuffled order have version 1, all others version 0."""
    app.wait_until(caught_up=True, timeout=300)
    wrong = []
    rows = app.store(STORE)
    if (found := rows.count()) != keys:
        wrong.append(f"{found} rows instead of {keys}")
    for place in [*range(min(fed, SAMPLE)), *range(fed, keys, max(1, (keys - fed) // SAMPLE))]:
        number = shuffled(place, keys)
        if rows.get(key_of(number)) != row_of(number, 1 if place < fed else 0):
            wrong.append(f"the row of {key_of(number)}")
    return wrong


def main() -> int:
    """Start, report when it runs, answer checks, go on."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("bootstrap", "application-id", "input", "state-dir"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--keys", type=int, required=True)
    options = parser.parse_args()
    config = {
        "bootstrap.servers": options.bootstrap,
        "application.id": options.application_id,
        "state.dir": options.state_dir,
    }
    app = sf.StoatFlow(topology(options.input), config)
    entered = start(app)
    report = {
        "restore_seconds": round(entered["RUNNING"] - entered["RESTORING"], 3),
        "cpu_seconds": round(own_figures.cpu_seconds(), 2),
        "peak_rss_mb": round(own_figures.peak_rss_kb() / 1024),
    }
    print(json.dumps(report), flush=True)
    for line in sys.stdin:
        print(json.dumps(differences(app, options.keys, int(line))[:5]), flush=True)
    app.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
