"""Faust's example "withdrawals": each user's withdrawals in an hour, by event time."""

import faust


class Withdrawal(faust.Record):
    user: str
    amount: float


def define(app):
    withdrawals = app.topic("withdrawals", value_type=Withdrawal)
    totals = app.topic("totals", key_type=str, value_type=float)
    user_to_total = app.Table("user_to_total", default=float).tumbling(3600).relative_to_stream()

    @app.agent(withdrawals)
    async def track(stream):
        async for withdrawal in stream:
            user_to_total[withdrawal.user] += withdrawal.amount
            await totals.send(key=withdrawal.user, value=user_to_total[withdrawal.user].value())
