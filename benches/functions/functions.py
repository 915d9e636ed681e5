"""CPU cost per record with expressions, Arrow batches and lambdas: `python benches/functions/functions.py`.

One job, filtering and enriching JSON orders, in three variants, and a topology that only passes records on. Each runs
in a process of its own on embedded topics, with the engine of the product; the CPU time of the whole process from
RUNNING to the last commit is divided by the number of records. All include the embedded broker's share: the column
`job` subtracts the cost of the bare topology.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import stoatflow as sf

WAYS = ("bare", "expression", "arrow", "lambda")


def order(number: int) -> bytes:
    """An order of about 300 bytes; every second one is paid and above 100."""
    return json.dumps(
        {
            "id": number,
            "status": "paid" if number % 2 else "open",
            "amount": 100.5 + number % 5000,
            "user": {"name": f"user-{number % 1000}", "country": "NL", "since": "2021-03-04"},
            "items": [{"sku": f"sku-{number % 97}", "count": 1 + number % 3}, {"sku": "sku-gift", "count": 1}],
            "note": "please leave it with the neighbours if nobody is at home",
        }
    ).encode()


def bare(orders: sf.KStream[Any, Any]) -> sf.KStream[Any, Any]:
    """Pass records on."""
    return orders


def expression(orders: sf.KStream[Any, Any]) -> sf.KStream[Any, Any]:
    """The job with native expressions."""
    value = sf.value
    return orders.filter((value["status"] == "paid") & (value["amount"] > 100)).map_values(
        sf.obj(
            id=value["id"],
            user=value["user"]["name"],
            total=value["amount"] * 1.21,
            size=sf.when(value["amount"] >= 1000).then("huge").otherwise("large"),
        )
    )


def arrow(orders: sf.KStream[Any, Any]) -> sf.KStream[Any, Any]:
    """The job with columns."""
    import pyarrow as pa
    import pyarrow.compute as pc

    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("status", pa.string()),
            ("amount", pa.float64()),
            ("user", pa.struct([("name", pa.string())])),
        ]
    )

    def enrich(batch: Any) -> Any:
        kept = batch.filter(pc.and_(pc.equal(batch["status"], "paid"), pc.greater(batch["amount"], 100)))
        return pa.record_batch(
            {
                "id": kept["id"],
                "user": pc.struct_field(kept["user"], "name"),
                "total": pc.multiply(kept["amount"], 1.21),
                "size": pc.if_else(pc.greater_equal(kept["amount"], 1000), "huge", "large"),
                "_row": kept["_row"],
            }
        )

    return orders.map_batches(enrich, schema=schema)


def plain(orders: sf.KStream[Any, Any]) -> sf.KStream[Any, Any]:
    """The job with Python functions of single records."""

    def enrich(value: dict[str, Any]) -> dict[str, Any]:
        amount = value["amount"]
        return {
            "id": value["id"],
            "user": value["user"]["name"],
            "total": amount * 1.21,
            "size": "huge" if amount >= 1000 else "large",
        }

    return orders.filter(lambda _, value: value["status"] == "paid" and value["amount"] > 100).map_values(enrich)


BUILD: dict[str, Callable[[sf.KStream[Any, Any]], sf.KStream[Any, Any]]] = {
    "bare": bare,
    "expression": expression,
    "arrow": arrow,
    "lambda": plain,
}


def measure(way: str, records: int, lanes: int) -> dict[str, float]:
    """Run one variant; return CPU and wall time per record, and the number of output records."""
    builder = sf.StreamsBuilder()
    BUILD[way](builder.stream("orders", key=str, value=dict)).to("out", key=str, value=dict)
    settings = {"application.id": f"functions-{way}", "lanes.count": lanes}
    with sf.EmbeddedBroker() as broker:
        for topic in ("orders", "out"):
            broker.create_topic(topic, 4)
        broker.produce_many("orders", ((None, b"key-%d" % (at % 9973), order(at), at + 1) for at in range(records)))
        with sf.StoatFlow(builder.build(), settings, broker=broker) as app:
            while app.state != sf.State.RUNNING:
                app.wait("5ms")
            before, began = _cpu(), time.monotonic()
            while app.lag() > 0:
                app.wait("20ms")
            cpu, wall = _cpu() - before, time.monotonic() - began
        out = sum(broker.end_offsets("out").values())
    return {"cpu_us": cpu / records * 1e6, "wall_us": wall / records * 1e6, "out": out}


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Run all variants, best of some rounds each, and print them side by side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lanes", type=int, default=4)
    parser.add_argument("--way", choices=WAYS)
    options = parser.parse_args()
    if min(options.records, options.rounds, options.lanes) < 1:
        parser.error("--records, --rounds and --lanes must be at least 1")
    if options.way:
        print(json.dumps(measure(options.way, options.records, options.lanes)))
        return
    best: dict[str, dict[str, float]] = {}
    for _ in range(options.rounds):
        for way in WAYS:
            own = [sys.executable, __file__, "--way", way, "--records", str(options.records)]
            # Its error messages go to the terminal.
            done = subprocess.run([*own, "--lanes", str(options.lanes)], stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"error: {way} failed: see its message above")
            found = json.loads(done.stdout)
            # Every second order is kept (`order`); the bare topology passes all of them.
            if found["out"] != (options.records if way == "bare" else options.records // 2):
                sys.exit(f"error: {way} gave {found['out']} records, not those that it must: no time is reported")
            if way not in best or found["cpu_us"] < best[way]["cpu_us"]:
                best[way] = found
    print(f"{'way':<12}{'CPU us/record':>14}{'job':>8}{'wall us':>10}{'out':>10}")
    for way, found in best.items():
        job = found["cpu_us"] - best["bare"]["cpu_us"]
        print(f"{way:<12}{found['cpu_us']:>14.2f}{job:>8.2f}{found['wall_us']:>10.2f}{found['out']:>10.0f}")


if __name__ == "__main__":
    main()
