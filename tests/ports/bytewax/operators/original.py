"""Bytewax's tutorial "Introducing operators": filters orders, looks up a price, adds the tax."""

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource

PRICES = {"green": 5.0, "berry": 6.5, "mango": 7.25}


def with_price(cache, order):
    return order | {"price": cache.get(order["drink"])}


def with_tax(order):
    return order | {"total": round(order["price"] * 1.2, 2)}


def dataflow(inputs, outputs):
    flow = Dataflow("operators")
    orders = op.input("orders", flow, TestingSource(inputs["orders"]))
    banana = op.filter("banana", orders, lambda order: "banana" in order["with"])
    priced = op.enrich_cached("price", banana, PRICES.get, with_price)
    taxed = op.map("tax", priced, with_tax)
    op.output("priced", taxed, TestingSink(outputs["priced"]))
    return flow
