"""Faust's reference of `App.topic`: one topic object for two topics, which one agent reads."""

import faust


class Order(faust.Record, include_metadata=False):
    id: str
    country: str


def define(app):
    both = app.topic("orders-uk", "orders-de", value_type=Order)
    orders = app.topic("orders", key_type=str, value_type=Order)

    @app.agent(both)
    async def process(stream):
        async for order in stream:
            await orders.send(key=order.id, value=order)
