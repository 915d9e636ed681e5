"""CPU cost of a Python function per JSON record: with views, and with dicts (`decode="dict"`).

Takes the number of records. Prints a table, and JSON with --json. Each row runs in a process of its own, on an embedded
broker in a temporary folder, with one lane. `call` is the engine's own measurement: passing the argument and running
the function (`stoatflow_function_seconds_total`). `record` is the CPU time of the process minus that of the same
topology without a function: the call, and writing its result. The best of several runs counts.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import stoatflow as sf

RUNS = 3


def order(number: int) -> dict[str, Any]:
    """A record of about 1 KB: 20 members, some nested."""
    lines = [{"sku": f"A-{number}-{n}", "count": n, "price": 9.99 + n, "tags": ["new", "sale"]} for n in range(7)]
    return {
        "id": number, "customer": {"id": number % 1000, "name": "Ann Example", "city": "Lisbon"},
        "amount": number * 0.01, "lines": lines, "currency": "EUR",
        "note": "please ring twice, then leave it with the neighbours", "paid": True,
        "channel": "web", "coupon": None, **{f"attribute_{n}": f"value {n}" for n in range(11)},
    }  # fmt: skip


JOBS: dict[str, Callable[[Any], Any]] = {
    "v": lambda v: v,
    "v['amount'] > 5": lambda v: v["amount"] > 5,
    "v['customer']['city'] == 'x'": lambda v: v["customer"]["city"] == "x",
    "v | {'total': 1}": lambda v: v | {"total": 1},
    "{**v, 'total': 1}": lambda v: {**v, "total": 1},
    "all of it": lambda v: v.to_dict() if hasattr(v, "to_dict") else v,
}


def measure(job: str | None, decode: str, records: int) -> tuple[float, float]:
    """Return the engine's seconds in the function, and CPU seconds of the process."""
    builder = sf.StreamsBuilder()
    json_serde = sf.Serdes.json(decode=decode) if decode != "default" else sf.Serdes.json()  # type: ignore[arg-type]
    stream = builder.stream("in", key=bytes, value=json_serde)
    if job is not None:
        stream = stream.map_values(JOBS[job])
    stream.to("out", key=bytes, value=sf.Serdes.json())
    with tempfile.TemporaryDirectory() as folder, sf.EmbeddedBroker() as broker:
        broker.create_topic("in", 1)
        broker.create_topic("out", 1)
        texts = [json.dumps(order(number), separators=(",", ":")).encode() for number in range(1000)]
        broker.produce_many("in", ((0, b"k", texts[n % 1000], n) for n in range(records)))
        app = sf.StoatFlow(
            builder.build(), {"application.id": "lazy", "state.dir": folder, "lanes.count": 1}, broker=broker
        )
        before = time.process_time()
        with app:
            while app.metrics()["records_committed"] < records:
                time.sleep(0.02)
            cpu = time.process_time() - before
            functions = app.metrics().get("functions") or [{"seconds": 0.0}]
            return functions[0]["seconds"] if job else 0.0, cpu


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=60_000)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", nargs=2, metavar=("JOB", "DECODE"), help=argparse.SUPPRESS)
    parser.add_argument("--decode", nargs="*", default=["lazy", "dict"])
    given = parser.parse_args()
    if given.one:
        job = None if given.one[0] == "-" else given.one[0]
        print(json.dumps(measure(job, given.one[1], given.records)))
        return

    def best(job: str, decode: str) -> tuple[float, float]:
        command = [sys.executable, __file__, "--records", str(given.records), "--one", job, decode]
        runs = [json.loads(subprocess.run(command, check=True, capture_output=True).stdout) for _ in range(RUNS)]
        return tuple(min(run[at] for run in runs) / given.records * 1e6 for at in (0, 1))  # type: ignore[return-value]

    rows = []
    for decode in given.decode:
        without = best("-", decode)[1]
        for job in JOBS:
            call, record = best(job, decode)
            rows.append({"function": job, "decode": decode, "call_us": call, "record_us": record - without})
    if given.json:
        print(json.dumps(rows))
        return
    print(f"{'function':32}{'decode':9}{'call, us':>10}{'record, us':>12}")
    for row in rows:
        print(f"{row['function']:32}{row['decode']:9}{row['call_us']:10.2f}{row['record_us']:12.2f}")


if __name__ == "__main__":
    main()
