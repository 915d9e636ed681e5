"""Bytewax's guide, "Windowing": each key has its own watermark, and events behind it are late."""

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
    flow = Dataflow("late")
    events = op.input("events", flow, TestingSource(inputs["events"]))
    by_user = op.key_on("user", events, lambda event: event["user"])
    clock = EventClock(time, wait_for_system_duration=timedelta(0))
    windows = win.collect_window("collect", by_user, clock, TumblingWindower(length=LENGTH, align_to=START))
    late = op.map_value("value", windows.late, lambda item: item[1]["value"])
    op.output("out", op.map("result", windows.down, result), TestingSink(outputs["windows"]))
    op.output("out-late", late, TestingSink(outputs["late"]))
    return flow
