"""Quix Streams' guide, "Closing strategies": sums of windows that are closed by the time of their key (the default)."""

from datetime import timedelta

from quixstreams.dataframe.windows import Sum


def define(app):
    sdf = app.dataframe(app.topic("payments"))
    sdf = sdf.tumbling_window(timedelta(seconds=10)).agg(total=Sum("amount")).final()
    sdf.to_topic(app.topic("totals"))
