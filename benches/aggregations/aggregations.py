"""CPU cost per record of native aggregations and joins, and of the same with Python functions.

Takes the number of records, prints a table. Each job runs in a process of its own on an embedded broker in a temporary
folder; each record writes a result to a topic. The cost of writing and passing on records unchanged is measured too,
and subtracted. Times are CPU time of the process, which other work on the machine affects little; only ratios are
meaningful.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import stoatflow as sf

JSON = sf.Serdes.json()
AMOUNT = sf.value["amount"]
USERS = 1_000


def add(key: str, value: Any, agg: Any) -> Any:  # noqa: ARG001
    """Sum."""
    return agg + value["amount"]


def stats(key: str, value: Any, agg: Any) -> Any:  # noqa: ARG001
    """Several aggregations at once."""
    total, n = agg["total"] + value["amount"], agg["n"] + 1
    return {"n": n, "total": total, "mean": total / n}


def windowed(builder: sf.StreamsBuilder) -> Any:
    """Group records by user and minute."""
    return builder.stream("in", key=str, value=JSON).group_by_key().windowed_by(sf.TimeWindows("1m", grace="1h"))


def given(table: Any) -> None:
    """Write each result."""
    table.to_stream().to("out", value=JSON)


def base(builder: sf.StreamsBuilder) -> None:
    """Pass each record on."""
    builder.stream("in", key=str, value=JSON).to("out")


def sum_native(builder: sf.StreamsBuilder) -> None:
    """Sum per user and minute."""
    given(windowed(builder).aggregate(sf.sum(AMOUNT), store="s"))


def sum_function(builder: sf.StreamsBuilder) -> None:
    """Sum per user and minute."""
    given(windowed(builder).aggregate(lambda: 0, add, store="s", value=JSON))


def several_native(builder: sf.StreamsBuilder) -> None:
    """Count, sum and mean per user and minute."""
    given(windowed(builder).aggregate(sf.agg(n=sf.count(), total=sf.sum(AMOUNT), mean=sf.avg(AMOUNT)), store="s"))


def several_function(builder: sf.StreamsBuilder) -> None:
    """Count, sum and mean per user and minute."""
    given(windowed(builder).aggregate(lambda: {"n": 0, "total": 0}, stats, store="s", value=JSON))


def join(builder: sf.StreamsBuilder, joiner: Any) -> None:
    """A stream with a table."""
    users = builder.table("users", key=str, value=JSON, store="users")
    builder.stream("in", key=str, value=JSON).join(users, joiner).to("out", value=JSON)


def join_native(builder: sf.StreamsBuilder) -> None:
    """A stream with a table of users."""
    join(builder, sf.obj(amount=sf.left["amount"], name=sf.right["name"]))


def join_function(builder: sf.StreamsBuilder) -> None:
    """A stream with a table of users."""
    join(builder, lambda left, right: {"amount": left["amount"], "name": right["name"]})


def prepare(broker: sf.EmbeddedBroker) -> None:
    """Create the topics, and the table of users."""
    for topic in ("in", "users", "out"):
        broker.create_topic(topic, 4)
    user = json.dumps({"name": "somebody", "city": "somewhere"}).encode()
    broker.produce_many("users", ((n % 4, f"user-{n}".encode(), user, 0) for n in range(USERS)))


def fill(broker: sf.EmbeddedBroker, count: int) -> None:
    """Write orders of users."""
    note = "x" * 120
    for first in range(0, count, 100_000):
        records = []
        for n in range(first, min(count, first + 100_000)):
            user = n * 7919 % USERS
            order = {"id": n, "amount": n % 97, "item": f"item-{n % 50}", "note": note}
            records.append((user % 4, f"user-{user}".encode(), json.dumps(order).encode(), 1000 + n * 3))
        broker.produce_many("in", records)


def cpu_seconds() -> float:
    """User and system time of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def settle(app: sf.StoatFlow) -> None:
    """Wait until all input is committed."""
    while str(app.state) != "RUNNING" or app.lag() > 0:
        if app.wait(timeout=0.02):
            raise RuntimeError("StoatFlow stopped by itself: see its log above")


def run(job: str, folder: Path, count: int) -> float:
    """Run a job; return microseconds of CPU per record."""
    broker = sf.EmbeddedBroker(folder / "broker")
    prepare(broker)
    builder = sf.StreamsBuilder()
    globals()[job](builder)
    # Each result is written; none is combined with the next one.
    config = {
        "application.id": job.replace("_", "-"),
        "state.dir": str(folder / "state"),
        "statestore.cache.max.bytes": 0,
    }
    app = sf.StoatFlow(builder.build(), config, broker=broker)
    app.start()
    settle(app)
    cpu = cpu_seconds()
    fill(broker, count)
    settle(app)
    spent = cpu_seconds() - cpu
    app.close()
    if (results := sum(broker.end_offsets("out").values())) < count:
        raise RuntimeError(f"{count} records gave {results} results: the figures would mean nothing")
    broker.close()
    return spent / count * 1e6


def child(job: str, count: int) -> float:
    """Run a job in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--job", job, "--folder", folder, "--records", str(count)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        raise RuntimeError(f"the job '{job}' failed:\n{ended.stderr}")
    return float(ended.stdout.splitlines()[-1])


def main() -> None:
    """Run all jobs and print what they cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3, help="the least of so many counts")
    for name in ("job", "folder"):
        parser.add_argument(f"--{name}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        print(run(options.job, Path(options.folder), options.records))
        return
    jobs = ("base", "sum_native", "sum_function", "several_native", "several_function", "join_native", "join_function")
    started = time.monotonic()
    cost = {job: min(child(job, options.records) for _ in range(options.rounds)) for job in jobs}
    print(f"writing, reading and passing on: {cost['base']:.2f} us of CPU per record")
    for pair in ("sum", "several", "join"):
        native, function = (cost[f"{pair}_{how}"] - cost["base"] for how in ("native", "function"))
        reported = (globals()[f"{pair}_native"].__doc__ or "").rstrip(".")
        print(f"{reported}: native {native:.2f} us, function {function:.2f} us, {native / function:.2f}x")
    print(f"({options.records} records, the least of {options.rounds}, {time.monotonic() - started:.0f} s)")


if __name__ == "__main__":
    main()
