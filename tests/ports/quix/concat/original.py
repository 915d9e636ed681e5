"""Quix Streams' guide, "Concatenating": orders of two countries in one currency, and their hourly mean."""

from datetime import timedelta

from quixstreams.dataframe.windows import Mean


def define(app):
    pounds, euros = (app.dataframe(app.topic(topic)) for topic in ("orders-uk", "orders-de"))
    pounds["usd"] = pounds["amount"].apply(lambda amount: amount * 2)
    euros["usd"] = euros["amount"].apply(lambda amount: amount * 1.5)
    orders = pounds.concat(euros)
    means = orders.tumbling_window(timedelta(hours=1)).agg(mean=Mean("usd")).current()
    means.to_topic(app.topic("means"))
