"""Bytewax's tutorial "Recoverable shopping cart": a user's paid and unpaid orders, after each event."""

import bytewax.operators as op
from bytewax.dataflow import Dataflow
from bytewax.testing import TestingSink, TestingSource


def change(cart, event):
    cart = cart or {"paid": [], "unpaid": []}
    order = event["order"]
    if event["type"] == "order":
        cart["unpaid"].append(order)
    elif order in cart["unpaid"]:
        cart["unpaid"].remove(order)
        cart["paid"].append(order)
    return cart, {"paid": list(cart["paid"]), "unpaid": list(cart["unpaid"])}


def dataflow(inputs, outputs):
    flow = Dataflow("stateful_map")
    events = op.input("events", flow, TestingSource(inputs["events"]))
    by_user = op.key_on("user", events, lambda event: event["user"])
    carts = op.stateful_map("cart", by_user, change)
    op.output("carts", carts, TestingSink(outputs["carts"]))
    return flow
