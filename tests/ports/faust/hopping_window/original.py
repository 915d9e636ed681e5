"""Faust's example "windowing/hopping": counts in windows of ten seconds that start every five; only the newest."""

import faust


class Event(faust.Record):
    user: str


def define(app):
    events = app.topic("events", value_type=Event)
    counts = app.topic("counts", key_type=str, value_type=int)
    table = app.Table("hopping_table", default=int).hopping(10, 5)

    @app.agent(events)
    async def count(stream):
        async for event in stream:
            table[event.user] += 1
            await counts.send(key=event.user, value=table[event.user].current())
