"""Quix Streams' guide, "GroupBy": the number of sales of each item in all shops."""


def total(order, state):
    sold = state.get("total", 0) + order["quantity"]
    state.set("total", sold)
    return sold


def define(app):
    sdf = app.dataframe(app.topic("orders"))
    sdf = sdf.group_by("item")
    sdf["total"] = sdf.apply(total, stateful=True)
    sdf = sdf[["total"]]
    sdf.to_topic(app.topic("totals"))
