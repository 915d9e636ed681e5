"""Faust's example "windowed_aggregation": events of ten seconds in a list; count and mean when the window closes."""

import faust


class Raw(faust.Record):
    at: float
    value: float


class Aggregate(faust.Record, include_metadata=False):
    start: float
    count: int
    mean: float


def define(app):
    raw = app.topic("raw", value_type=Raw)
    aggregates = app.topic("aggregates", key_type=str, value_type=Aggregate)

    def closed(key, values):
        name, (start, _) = key
        mean = sum(values) / len(values)
        aggregates.send_soon(key=name, value=Aggregate(start=start, count=len(values), mean=mean))

    table = (
        app.Table("tumbling_table", default=list, partitions=1, on_window_close=closed)
        .tumbling(10, expires=1)
        .relative_to_field(Raw.at)
    )

    @app.agent(raw)
    async def collect(stream):
        async for event in stream:
            values = table["events"].value()
            values.append(event.value)
            table["events"] = values
