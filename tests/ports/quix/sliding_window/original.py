"""Quix Streams' guide, "Time-based Sliding Windows": the mean of the last hour, at each message."""

from datetime import timedelta

from quixstreams.dataframe.windows import Mean


def define(app):
    sdf = app.dataframe(app.topic("readings"))
    sdf = sdf.sliding_window(duration_ms=timedelta(hours=1)).agg(mean=Mean("celsius")).current()
    sdf.to_topic(app.topic("windows"))
