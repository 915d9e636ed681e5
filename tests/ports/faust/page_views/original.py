"""Faust's tutorial "Count page views": views by page, with group_by and a table."""

import faust


class PageView(faust.Record):
    id: str
    user: str


def define(app):
    views = app.topic("page-views", value_type=PageView)
    counts = app.topic("counts", key_type=str, value_type=int)
    page_views = app.Table("page_views", default=int)

    @app.agent(views)
    async def count(stream):
        async for view in stream.group_by(PageView.id):
            page_views[view.id] += 1
            await counts.send(key=view.id, value=page_views[view.id])
