"""The number of sales of each item in all shops."""

import stoatflow as sf


def topology():
    builder = sf.StreamsBuilder()
    orders = builder.stream("orders", key=str, value=sf.Serdes.json())
    items = orders.group_by(sf.value["item"], key=str)
    totals = items.aggregate(sf.agg(total=sf.sum(sf.value["quantity"])), store=sf.Materialized("totals", caching=False))
    totals.to_stream().to("totals")
    return builder.build()
