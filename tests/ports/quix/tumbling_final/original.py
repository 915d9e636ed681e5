"""Quix Streams' guide, "Closing strategies": sums of windows that are closed by the time of the partition."""

from datetime import timedelta

from quixstreams.dataframe.windows import Sum


def define(app):
    sdf = app.dataframe(app.topic("payments"))
    sdf = sdf.tumbling_window(timedelta(seconds=10)).agg(total=Sum("amount")).final(closing_strategy="partition")
    sdf.to_topic(app.topic("totals"))
