"""W6, the restore, as a row among the other workloads of `versus.py`.

Takes the requested engines and a running broker. Returns `Results` with the figures of all workloads, where a restored
key counts as a record, and those that only a restore has. `restore.py` does the measuring.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import restore
from broker.kafka_broker import KafkaBroker
from peers import PEERS
from report import Metric, Results
from restore import Task

# `cold` is with an empty state directory, `warm` after SIGKILL during processing. Marginal CPU has no
# meaning here: all of it is start-up.
METRICS: tuple[tuple[str, str, Metric], ...] = (
    (
        "cpu_per_million",
        "CPU s per million keys, cold, until RUNNING",
        lambda one: one.cold["cpu_seconds"] / one.keys * 1e6,
    ),
    ("peak_rss_mb", "peak RSS until RUNNING, cold, MB", lambda one: one.cold["peak_rss_mb"]),
    ("records_per_second", "keys per second, cold, start to RUNNING", lambda one: one.keys / one.cold["seconds"]),
    ("cold_seconds", "s from start() to RUNNING, cold", lambda one: one.cold["seconds"]),
    ("warm_seconds", "s from start() to RUNNING, warm", lambda one: one.warm["seconds"]),
    ("warm_cpu_seconds", "CPU s until RUNNING, warm", lambda one: one.warm["cpu_seconds"]),
    ("warm_peak_rss_mb", "peak RSS until RUNNING, warm, MB", lambda one: one.warm["peak_rss_mb"]),
)


@dataclass(frozen=True)
class _Title:
    name: str = "w6"
    title: str = "restore of a store, cold and after SIGKILL"


WORKLOAD = _Title()


def left_out(engines: Collection[str]) -> dict[str, str]:
    """Other requested engines, which have no program for this."""
    asked = [PEERS[name] for name in engines if name in PEERS]
    return {peer.name: peer.why_not(WORKLOAD.name) or "" for peer in asked}


def measure(engines: Collection[str], broker: KafkaBroker, task: Task) -> Results:
    """Measure the requested sides."""
    names = [name for name in restore.SIDES if name in engines]
    outcome = restore.measure(names, broker, task) if names else restore.Outcome()
    busy = [output["other_cores"] for one in outcome.restored for output in (one.cold, one.warm)]
    notes = [f"{task.keys} keys; the counts of all runs went on from the restored ones"]
    notes += [f"other processes meanwhile used {min(busy):.2f} to {max(busy):.2f} cores"] if busy else []
    wrong = {name: f"w6, {why}" for name, why in outcome.wrong.items()}
    return Results(WORKLOAD, outcome.restored, left_out(engines), wrong, METRICS, notes)
