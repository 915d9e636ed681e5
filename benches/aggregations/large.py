"""CPU cost per record of keys with large aggregates, by their size.

Takes the number of records, prints a table. Like `aggregations.py`, but with few keys, and without writing results: it
measures how an aggregation handles its state. If the time grows with the state, hot keys get slower.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from aggregations import JSON, cpu_seconds, settle

import stoatflow as sf

KEYS = 4
ITEM = sf.value["item"]
JOBS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "count": ("a count (nothing is held)", sf.agg(n=sf.count()), {}),
    "texts": ("a set of texts", sf.collect_set(ITEM["name"]), {}),
    "objects": ("a set of objects", sf.collect_set(ITEM), {}),
    "distinct": ("about how many, 2^14 registers", sf.approx_distinct(ITEM["name"], precision=14), {}),
    "lenient": ("a set of texts, with on_error=", sf.collect_set(ITEM["name"]), {"on_error": sf.log_and_continue()}),
}


def fill(broker: sf.EmbeddedBroker, count: int, held: int) -> None:
    """Write records with `held` different values per key."""
    records = []
    for n in range(count):
        which = n // KEYS * 7919 % held
        value = {"item": {"name": f"item-{which}", "colour": "blue", "size": which % 7}}
        records.append((n % KEYS, f"key-{n % KEYS}".encode(), json.dumps(value).encode(), n))
    broker.produce_many("in", records)


def run(job: str, folder: Path, count: int, held: int) -> float:
    """Run a job; return microseconds of CPU per record once the aggregates are full."""
    broker = sf.EmbeddedBroker(folder / "broker")
    broker.create_topic("in", KEYS)
    builder = sf.StreamsBuilder()
    _, aggregation, more = JOBS[job]
    builder.stream("in", key=str, value=JSON).group_by_key().aggregate(aggregation, store="s", **more)
    config = {"application.id": job, "state.dir": str(folder / "state")}
    app = sf.StoatFlow(builder.build(), config, broker=broker)
    app.start()
    fill(broker, KEYS * held, held)
    settle(app)
    cpu = cpu_seconds()
    fill(broker, count, held)
    settle(app)
    spent = cpu_seconds() - cpu
    app.close()
    broker.close()
    return spent / count * 1e6


def child(job: str, count: int, held: int) -> float:
    """Run a job in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        options = ["--job", job, "--folder", folder, "--records", str(count), "--held", str(held)]
        ended = subprocess.run([sys.executable, __file__, *options], capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise RuntimeError(f"the job '{job}' failed:\n{ended.stderr}")
    return float(ended.stdout.splitlines()[-1])


def main() -> None:
    """Run all jobs and print what they cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3, help="the least of so many counts")
    parser.add_argument("--job", choices=JOBS, help="only this one")
    parser.add_argument("--held", type=int, nargs="+", default=[100, 1000], help="different values of each key")
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder:
        print(run(options.job, Path(options.folder), options.records, options.held[0]))
        return
    for job in [options.job] if options.job else JOBS:
        for held in options.held:
            cost = min(child(job, options.records, held) for _ in range(options.rounds))
            print(f"{JOBS[job][0]}: {cost:.1f} us of CPU per record, {held} held")


if __name__ == "__main__":
    main()
