"""W1 and W2 on Bytewax, written as in its own documentation.

Takes a filled input; writes the output topic, and prints one line of JSON. Owns its recovery folder. Sets only the
conditions of the run: the snapshot interval is the commit interval.

Its Kafka sink is at-least-once at best: with snapshots, records since the last one are written again after a crash.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import timedelta
from pathlib import Path

import bytewax.operators as op
import own_figures
import peer_run
from bytewax.connectors.kafka import KafkaSinkMessage, KafkaSourceMessage
from bytewax.connectors.kafka import operators as kop
from bytewax.dataflow import Dataflow
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main

LEAST = 20


def filter_json(brokers: list[str], topic: str, output: str) -> Dataflow:
    """W1."""
    flow = Dataflow("filter-json")
    records = kop.input("orders", flow, brokers=brokers, topics=[topic], tail=False).oks
    orders = op.map("parse", records, lambda record: json.loads(record.value))
    kept = op.filter("large-enough", orders, lambda order: order["amount"] >= LEAST)
    upper = op.map("upper-case", kept, lambda order: {**order, "user": order["user"].upper()})
    written = op.map("write", upper, lambda order: KafkaSinkMessage(None, json.dumps(order, separators=(",", ":"))))
    kop.output("kept", written, brokers=brokers, topic=output)
    return flow


def count_words(brokers: list[str], topic: str, output: str) -> Dataflow:
    """W2."""

    def words(record: KafkaSourceMessage[bytes | None, bytes | None]) -> list[str]:
        return (record.value or b"").decode().lower().split()

    def one_more(count: int | None, _: str) -> tuple[int, int]:
        return (count or 0) + 1, (count or 0) + 1

    flow = Dataflow("count-words")
    records = kop.input("lines", flow, brokers=brokers, topics=[topic], tail=False).oks
    keyed = op.key_on("by-word", op.flat_map("split", records, words), lambda word: word)
    counts = op.stateful_map("count", keyed, one_more)
    written = op.map("write", counts, lambda pair: KafkaSinkMessage(pair[0], json.dumps(pair[1])))
    kop.output("counts", written, brokers=brokers, topic=output)
    return flow


PROGRAMS = {"w1": filter_json, "w2": count_words}


def main() -> int:
    """Run to the end of the input, which Bytewax detects itself; print."""
    at = peer_run.options(__doc__)
    flow = PROGRAMS[at.workload]([at.bootstrap], at.inputs[0], at.outputs[0])
    snapshots = Path(at.state_dir)
    snapshots.mkdir(parents=True, exist_ok=True)
    init_db_dir(snapshots, 1)
    start = time.monotonic()
    cli_main(
        flow,
        epoch_interval=timedelta(milliseconds=at.commit_interval_ms),
        recovery_config=RecoveryConfig(snapshots),
    )
    seconds = time.monotonic() - start
    own_figures.say("bytewax", peer_run.Progress(at).records(), start, seconds, "at_least_once")
    return 0


if __name__ == "__main__":
    sys.exit(main())
