"""An application with stores of all kinds, dead letters and endpoints, whose admin port is fuzzed.

`admin_app.py FOLDER TOKEN` prints the address of the port when it runs, and ends when its standard input is closed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import stoatflow as sf

MINUTE = 60_000


def checked(value: int) -> int:
    """Make dead letters."""
    if value % 50 == 7:
        raise ValueError(f"no {value}")
    return value


class Versions(sf.ContextualProcessor[str, int, str, int]):
    """Keeps versions."""

    def process(self, record: sf.Record[str, int]) -> None:
        """Put one."""
        self.context.state_store("versions").put(record.key, record.value, record.timestamp)


def topology() -> sf.Topology:
    """Return a topology with a store of each kind."""
    builder = sf.StreamsBuilder()
    builder.table(
        "people", key=str, value=dict, store=sf.Materialized("people", indexes=[sf.Index("city", sf.value["city"])])
    )
    numbers = builder.stream("in", key=str, value=int).map_values(checked, name="check", on_error=sf.DLQ("bad"))
    grouped = numbers.group_by_key()
    grouped.count(store="counts").to_stream().to("out", key=str, value=int)
    grouped.windowed_by(sf.TimeWindows("1m", grace="0s")).count(store="minutes")
    grouped.windowed_by(sf.SessionWindows("1m", grace="0s")).count(store="sessions")
    builder.add_state_store(sf.Stores.in_memory_versioned("versions", key=str, value=int, history_retention="1d"))
    numbers.process(Versions, stores=["versions"])
    return builder.build()


def filled(broker: sf.EmbeddedBroker) -> None:
    """Write the input."""
    for topic in ("in", "out", "bad", "people"):
        broker.create_topic(topic, 2)
    rows = [(None, f"k{n % 20}".encode(), n.to_bytes(8, "big"), 1_000_000 + n * MINUTE // 10) for n in range(500)]
    broker.produce_many("in", rows)
    cities = ("Oslo", "Bergen", "Tromsø")
    people = [(None, f"p{n}".encode(), f'{{"city": "{cities[n % 3]}", "age": {n}}}'.encode(), n) for n in range(60)]
    broker.produce_many("people", people)


def with_endpoints(app: sf.StoatFlow) -> sf.StoatFlow:
    """Add a health check, and endpoints that return each kind of answer."""

    @app.health_check("warehouse", interval="1s")
    def warehouse() -> bool:
        return True

    @app.endpoint("GET", "/people/{name}")
    def person(request: sf.HttpRequest) -> object:
        found = app.store("people").get(request.parameters["name"])
        if found is None:
            raise sf.HttpError(404, "nobody is called so")
        return {"city": found["city"], "query": request.query}

    @app.endpoint("POST", "/echo")
    async def echo(request: sf.HttpRequest) -> object:
        return {"bytes": len(request.body)}

    return app


def main(folder: Path, token: str) -> int:
    """Run it until standard input ends."""
    settings = {
        "application.id": "fuzzed",
        "admin.token": token,
        "lanes.count": 2,
        "state.dir": str(folder / "state"),
        "ensure.explicit.naming": False,
    }
    with sf.EmbeddedBroker(folder / "topics") as broker:
        filled(broker)
        app = with_endpoints(sf.StoatFlow(topology(), sf.Settings(settings, environ={}), broker=broker))
        with app:
            app.wait_until(caught_up=True)
            print(app.admin_url, flush=True)  # noqa: T201
            sys.stdin.read()
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
