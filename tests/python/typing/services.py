"""Metrics, health checks and endpoints keep the types of the functions that they decorate."""

from typing_extensions import assert_type

import stoatflow as sf

builder = sf.StreamsBuilder()
orders = builder.metrics.counter("orders", "Orders", labels=["shop"])
assert_type(orders, sf.Counter)
assert_type(orders.labels("north"), sf.Counter)
depth: sf.Gauge = builder.metrics.gauge("depth", "Depth", function=lambda: 3)
assert_type(depth.value, float)
waits: sf.Histogram = builder.metrics.histogram("wait", "Waits")
assert_type(waits.count, int)
builder.metrics.gauge("depth", "Depth", function=lambda: "three")  # type: ignore[arg-type,return-value]
orders.inc("1")  # type: ignore[arg-type]


class Counts(sf.ContextualProcessor[str, int, str, int]):
    """Uses the metrics of its context."""

    def process(self, record: sf.Record[str, int]) -> None:
        """Count."""
        assert_type(self.context.metrics, sf.Metrics)


app = sf.StoatFlow(builder.build(), {"application.id": "app"})


@app.health_check("database", timeout="1s")
def database() -> bool:
    """Pass."""
    return True


assert_type(database(), bool)


@app.endpoint("GET", "/orders/{id}")
async def order(request: sf.HttpRequest) -> dict[str, str]:
    """Return an order."""
    assert_type(request.query, dict[str, str])
    return {"id": request.parameters["id"]}


app.endpoint("GET", 3)  # type: ignore[arg-type]
app.health_check(timeout=object())  # type: ignore[arg-type]
