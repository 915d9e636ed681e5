"""Quix Streams' guide, "Time-based Hopping Windows": the mean of an hour, every ten minutes."""

from datetime import timedelta

from quixstreams.dataframe.windows import Mean


def define(app):
    sdf = app.dataframe(app.topic("readings"))
    sdf = sdf.hopping_window(duration_ms=timedelta(hours=1), step_ms=timedelta(minutes=10)).agg(mean=Mean("celsius"))
    sdf.current().to_topic(app.topic("windows"))
