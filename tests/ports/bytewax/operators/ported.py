"""Filters orders, looks up a price, adds the tax."""

from functools import cache

import stoatflow as sf

PRICES = {"green": 5.0, "berry": 6.5, "mango": 7.25}


@cache
def price(drink):
    return PRICES.get(drink)


def with_tax(order):
    priced = order | {"price": price(order["drink"])}
    return priced | {"total": round(priced["price"] * 1.2, 2)}


def topology():
    builder = sf.StreamsBuilder()
    orders = builder.stream("orders", value=sf.Serdes.json(decode="dict"))
    orders.filter(lambda key, order: "banana" in order["with"]).map_values(with_tax).to("priced", value=dict)
    return builder.build()
