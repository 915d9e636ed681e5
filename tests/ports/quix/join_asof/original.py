"""Quix Streams' guide, "Join as-of": a measurement with the sensor's data as of its time."""

from datetime import timedelta


def define(app):
    measurements = app.dataframe(app.topic("measurements"))
    metadata = app.dataframe(app.topic("metadata"))
    joined = measurements.join_asof(right=metadata, how="inner", on_merge="keep-left", grace_ms=timedelta(days=14))
    joined.to_topic(app.topic("joined"))
