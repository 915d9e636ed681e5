"""Quix Streams' guide, "Multiple Aggregations": several over a tumbling window, emitted for each message."""

from datetime import timedelta

from quixstreams.dataframe.windows import Count, Max, Mean, Min


def define(app):
    sdf = app.dataframe(app.topic("readings"))
    sdf = (
        sdf.tumbling_window(timedelta(seconds=10), grace_ms=timedelta(seconds=5))
        .agg(least=Min("celsius"), most=Max("celsius"), mean=Mean("celsius"), n=Count())
        .current()
    )
    sdf.to_topic(app.topic("windows"))
