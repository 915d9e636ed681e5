"""W1 and W2 on Pathway, written as in its own documentation.

Takes a filled input; writes the output topic, and prints one line of JSON. Owns its persistence folder. Sets only the
conditions of the run: batches and snapshots follow the commit interval.

Its free edition is at-least-once at best, with persistence. It writes each update of a count as two records, the old
one and the new one, and one pair per word and batch.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

import own_figures
import pathway as pw
import peer_run

LEAST = 20


class Order(pw.Schema):
    """A record of W1; Pathway reserves the name `id`, so that member is called `order`."""

    order: int
    user: str
    amount: int
    ts: int
    pad: str


@pw.udf
def words(line: str) -> list[str]:
    """The words of a line."""
    return line.lower().split()


def filter_json(settings: dict[str, str], topic: str, output: str, batch_ms: int) -> None:
    """W1."""
    orders = pw.io.kafka.read(
        settings,
        topic,
        schema=Order,
        format="json",
        json_field_paths={"order": "/id"},
        autocommit_duration_ms=batch_ms,
    )
    kept = orders.filter(pw.this.amount >= LEAST).with_columns(user=pw.this.user.str.upper())
    pw.io.kafka.write(kept, settings, output, format="json")


def count_words(settings: dict[str, str], topic: str, output: str, batch_ms: int) -> None:
    """W2."""
    lines = pw.io.kafka.read(settings, topic, format="plaintext", autocommit_duration_ms=batch_ms)
    each = lines.select(word=words(pw.this.data)).flatten(pw.this.word)
    counts = each.groupby(pw.this.word).reduce(pw.this.word, count=pw.reducers.count())
    pw.io.kafka.write(counts, settings, output, format="json", key=counts.word)


PROGRAMS: dict[str, Any] = {"w1": filter_json, "w2": count_words}


def end_with_the_input(at: argparse.Namespace, start: float) -> None:
    """End the process when nothing is written any more: Pathway itself never ends."""
    status = 1
    try:
        progress = peer_run.Progress(at)
        seconds = progress.wait(commits=False) - start
        own_figures.say("pathway", progress.records(), start, seconds, "at_least_once")
        status = 0
    except Exception:
        traceback.print_exc()
    finally:
        os._exit(status)


def main() -> int:
    """Run, print."""
    at = peer_run.options(__doc__)
    settings = {
        "bootstrap.servers": at.bootstrap,
        "group.id": at.application_id,
        "auto.offset.reset": "earliest",
        # Otherwise offsets are committed before their records are persisted.
        "enable.auto.commit": "false",
    }
    Path(at.state_dir).mkdir(parents=True, exist_ok=True)
    PROGRAMS[at.workload](settings, at.inputs[0], at.outputs[0], at.commit_interval_ms)
    threading.Thread(target=end_with_the_input, args=(at, time.monotonic()), daemon=True).start()
    pw.run(
        monitoring_level=pw.MonitoringLevel.NONE,
        persistence_config=pw.persistence.Config(
            pw.persistence.Backend.filesystem(at.state_dir), snapshot_interval_ms=at.commit_interval_ms
        ),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
