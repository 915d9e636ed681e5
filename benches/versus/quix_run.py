"""W1 to W5 on Quix Streams, written as in its own documentation.

Takes filled inputs; writes the output topic, and prints one line of JSON. Owns its state folder. Sets only the
conditions of the run: guarantee, commit interval, offset reset.

Exactly once, if requested. Its results don't retract a session that grows or is merged into another: see
`workloads/sessions.py` for how they are read.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from datetime import timedelta
from typing import Any

import own_figures
import peer_run
from quixstreams import Application, State
from quixstreams.dataframe.windows import Count, Sum

LEAST = 20


def filter_json(app: Application, inputs: list[str], output: str) -> None:
    """W1."""
    orders = app.dataframe(app.topic(inputs[0], value_deserializer="json"))
    orders = orders[orders["amount"] >= LEAST]
    orders["user"] = orders["user"].apply(str.upper)
    orders.to_topic(app.topic(output, value_serializer="json"))


def count_words(app: Application, inputs: list[str], output: str) -> None:
    """W2."""
    lines = app.dataframe(app.topic(inputs[0], value_deserializer="str"))
    words = lines.apply(lambda line: line.lower().split(), expand=True)
    text: Any = dict.fromkeys(("key_serializer", "key_deserializer", "value_serializer", "value_deserializer"), "str")
    words = words.group_by(lambda word: word, name="word", **text)
    words.apply(_one_more, stateful=True).to_topic(app.topic(output, key_serializer="str", value_serializer="json"))


def _one_more(_: str, state: State) -> int:
    count: int = state.get("count", 0) + 1
    state.set("count", count)
    return count


def sum_windows(app: Application, inputs: list[str], output: str) -> None:
    """W3."""
    payments = app.dataframe(app.topic(inputs[0], value_deserializer="json"))
    windows = payments.apply(lambda payment: payment["amount"]).tumbling_window(
        timedelta(minutes=1), grace_ms=timedelta(seconds=30)
    )
    windows.sum().current().to_topic(app.topic(output, value_serializer="json"))


def join_table(app: Application, inputs: list[str], output: str) -> None:
    """W4."""
    orders = app.dataframe(app.topic(inputs[0], value_deserializer="json"))
    profiles = app.dataframe(app.topic(inputs[1], value_deserializer="json"))
    joined = orders.join_asof(
        profiles,
        how="inner",
        on_merge=lambda order, profile: {**order, "name": profile["name"], "city": profile["city"]},
    )
    joined.to_topic(app.topic(output, value_serializer="json"))


def sessions(app: Application, inputs: list[str], output: str) -> None:
    """W5."""
    clicks = app.dataframe(app.topic(inputs[0], value_deserializer="json"))
    windows = clicks.session_window(timedelta(seconds=10), grace_ms=timedelta(seconds=30))
    windows.agg(n=Count(), spent=Sum("spent")).current().to_topic(app.topic(output, value_serializer="json"))


PROGRAMS = {"w1": filter_json, "w2": count_words, "w3": sum_windows, "w4": join_table, "w5": sessions}


def run(at: argparse.Namespace) -> tuple[int, float, float]:
    """Return the number of records, when it started, and the seconds from then to the last commit."""
    app = Application(
        broker_address=at.bootstrap,
        consumer_group=at.application_id,
        auto_offset_reset="earliest",
        commit_interval=at.commit_interval_ms / 1000,
        processing_guarantee="exactly-once" if at.guarantee == "exactly_once_v2" else "at-least-once",
        state_dir=at.state_dir,
        loglevel="WARNING",
    )
    PROGRAMS[at.workload](app, at.inputs, at.outputs[0])
    progress, ended = peer_run.Progress(at), list[float]()

    def stop_at_the_end() -> None:
        try:
            ended.append(progress.wait(commits=True))
        finally:  # without an end to report, the process fails
            app.stop()

    start = time.monotonic()
    threading.Thread(target=stop_at_the_end, daemon=True).start()
    app.run()
    return progress.records(), start, ended[0] - start


def main() -> int:
    """Run, print."""
    at = peer_run.options(__doc__)
    own_figures.say("quix", *run(at), at.guarantee)
    return 0


if __name__ == "__main__":
    sys.exit(main())
