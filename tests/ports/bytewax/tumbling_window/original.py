"""Bytewax's guide, "Collecting and Windowing Example": each user's actions in windows of ten seconds."""

from datetime import datetime, timedelta, timezone

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import EventClock, TumblingWindower
from bytewax.testing import TestingSink, TestingSource

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
LENGTH = timedelta(seconds=10)


def time(event):
    return datetime.fromtimestamp(event["at"] / 1000, timezone.utc)


def result(item):
    user, (window, events) = item
    start = (START + window * LENGTH).timestamp() * 1000
    return user, {"start": int(start), "values": [event["value"] for event in events]}


def dataflow(inputs, outputs):
    flow = Dataflow("tumbling_window")
    events = op.input("events", flow, TestingSource(inputs["events"]))
    by_user = op.key_on("user", events, lambda event: event["user"])
    clock = EventClock(time, wait_for_system_duration=timedelta(0))
    windows = win.collect_window("collect", by_user, clock, TumblingWindower(length=LENGTH, align_to=START))
    op.output("out", op.map("result", windows.down, result), TestingSink(outputs["windows"]))
    return flow
