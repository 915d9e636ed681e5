"""Bytewax's guide, "Windowed Joins": the last values of both sides in each hour."""

from datetime import datetime, timedelta, timezone

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import EventClock, TumblingWindower
from bytewax.testing import TestingSink, TestingSource

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def time(each):
    return datetime.fromtimestamp(each["at"] / 1000, timezone.utc)


def result(item):
    user, (_, (name, email)) = item
    return user, [name and name["name"], email and email["email"]]


def dataflow(inputs, outputs):
    flow = Dataflow("join_window")
    names = op.input("names", flow, TestingSource(inputs["names"]))
    emails = op.input("emails", flow, TestingSource(inputs["emails"]))
    name = op.key_on("name", names, lambda each: each["user"])
    email = op.key_on("email", emails, lambda each: each["user"])
    clock = EventClock(time, wait_for_system_duration=timedelta(0))
    hours = TumblingWindower(length=timedelta(hours=1), align_to=START)
    joined = win.join_window("join", clock, hours, name, email)
    op.output("out", op.map("result", joined.down, result), TestingSink(outputs["users"]))
    return flow
