"""Faust's guide, "filter()": only large orders, then by account."""

import faust


class Order(faust.Record):
    account: str
    amount: float


def define(app):
    orders = app.topic("orders", value_type=Order)
    large = app.topic("large", key_type=str, value_type=float)

    @app.agent(orders)
    async def process(stream):
        async for order in stream.filter(lambda order: order.amount > 1000).group_by(Order.account):
            await large.send(key=order.account, value=order.amount)
