"""Faust's guide, ""Out of Order" Events": a window accepts late events until it has expired."""

import faust


class Click(faust.Record):
    page: str


def define(app):
    clicks = app.topic("clicks", value_type=Click)
    counts = app.topic("counts", key_type=str, value_type=int)
    views = app.Table("views", default=int).tumbling(60, expires=3600)

    @app.agent(clicks)
    async def count(stream):
        async for click in stream:
            views[click.page] += 1
            await counts.send(key=click.page, value=views[click.page].value())
