"""Bytewax's tutorial "Introducing windowing": a user's actions in session windows with a gap of five seconds."""

from datetime import datetime, timedelta, timezone

import bytewax.operators as op
import bytewax.operators.windowing as win
from bytewax.dataflow import Dataflow
from bytewax.operators.windowing import EventClock, SessionWindower
from bytewax.testing import TestingSink, TestingSource


def time(event):
    return datetime.fromtimestamp(event["at"] / 1000, timezone.utc)


def result(item):
    user, (_, events) = item
    return user, {"start": events[0]["at"], "end": events[-1]["at"], "did": [event["what"] for event in events]}


def dataflow(inputs, outputs):
    flow = Dataflow("session_window")
    events = op.input("events", flow, TestingSource(inputs["events"]))
    by_user = op.key_on("user", events, lambda event: event["user"])
    clock = EventClock(time, wait_for_system_duration=timedelta(0))
    sessions = win.collect_window("sessions", by_user, clock, SessionWindower(gap=timedelta(seconds=5)))
    op.output("out", op.map("result", sessions.down, result), TestingSink(outputs["sessions"]))
    return flow
