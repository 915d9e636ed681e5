"""Bytewax's tutorial "Introducing windowing": orders in windows of an hour that start every 15 minutes."""

from datetime import datetime, timedelta, timezone

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import EventClock, SlidingWindower
from bytewax.testing import TestingSink, TestingSource

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
OFFSET = timedelta(minutes=15)


def time(order):
    return datetime.fromtimestamp(order["at"] / 1000, timezone.utc)


def result(item):
    key, (window, count) = item
    return key, {"start": int((START + window * OFFSET).timestamp() * 1000), "count": count}


def dataflow(inputs, outputs):
    flow = Dataflow("sliding_window")
    orders = op.input("orders", flow, TestingSource(inputs["orders"]))
    clock = EventClock(time, wait_for_system_duration=timedelta(0))
    windower = SlidingWindower(length=timedelta(hours=1), offset=OFFSET, align_to=START)
    counts = win.count_window("count", orders, clock, windower, lambda order: "all")
    op.output("out", op.map("result", counts.down, result), TestingSink(outputs["windows"]))
    return flow
