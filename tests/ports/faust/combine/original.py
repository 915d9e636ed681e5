"""Faust's guide, "Combining streams": the events of two topics, in one loop."""

import faust


class Order(faust.Record, include_metadata=False):
    id: str
    country: str


def define(app):
    one, two = (app.topic(topic, value_type=Order) for topic in ("orders-uk", "orders-de"))
    orders = app.topic("orders", key_type=str, value_type=Order)

    @app.task
    async def process():
        async for order in one.stream() & two.stream():
            await orders.send(key=order.id, value=order)
