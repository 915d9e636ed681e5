"""Quix Streams' guide, "Joining strategies": the interval join that also emits measurements without an event."""

from datetime import timedelta


def define(app):
    measurements = app.dataframe(app.topic("measurements"))
    events = app.dataframe(app.topic("events"))
    minutes = timedelta(minutes=5)
    joined = measurements.join_interval(
        right=events,
        how="left",
        on_merge="keep-left",
        grace_ms=timedelta(days=7),
        backward_ms=minutes,
        forward_ms=minutes,
    )
    joined.to_topic(app.topic("joined"))
