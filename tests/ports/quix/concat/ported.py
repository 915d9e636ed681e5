"""Orders of two countries in one currency, and their hourly mean."""

import stoatflow as sf

TIMESTAMPS = "Quix gives a result the time at which its window starts; here it has that of the record"


def result(shop, mean):
    return shop.key, {"start": shop.window.start, "end": shop.window.end, "mean": mean}


def topology():
    builder = sf.StreamsBuilder()
    pounds, euros = (builder.stream(topic, key=str, value=sf.Serdes.json()) for topic in ("orders-uk", "orders-de"))
    orders = pounds.map_values(sf.value["amount"] * 2).merge(euros.map_values(sf.value["amount"] * 1.5))
    means = (
        orders.group_by_key(value=sf.Serdes.json())
        .windowed_by(sf.TimeWindows("1h", grace="0s"))
        .aggregate(sf.avg(sf.value), store=sf.Materialized("means", caching=False))
    )
    means.to_stream().map(result).to("means", key=str, value=dict)
    return builder.build()
