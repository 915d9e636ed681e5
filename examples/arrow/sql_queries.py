"""Query stores with SQL, and continue in Polars, pandas or DuckDB: `python examples/arrow/sql_queries.py`.

Needs stoatflow[sql], polars and pandas. `app.sql` reads the rows for the query by key or index; its result, a store and
the result of `find` are Arrow streams, which all of them read.
"""

from __future__ import annotations

import json
import tempfile

import duckdb
import pandas as pd
import polars as pl

import stoatflow as sf

PEOPLE = {"ann": ("DK", 20), "bob": ("DK", 950), "cyd": ("SE", 700)}


def build() -> sf.Topology:
    """A table of people, indexed by country."""
    builder = sf.StreamsBuilder()
    by_country = sf.Index("by_country", sf.value["country"])
    store = sf.Materialized("people", key=str, value=dict, indexes=[by_country])
    builder.table("people", key=str, value=dict, store=store)
    return builder.build()


topology = build()


def main() -> None:
    """Create some state, and query it."""
    with tempfile.TemporaryDirectory() as folder, sf.EmbeddedBroker(f"{folder}/broker") as broker:
        broker.create_topic("people", 1)
        for name, (country, spent) in PEOPLE.items():
            broker.produce("people", name.encode(), json.dumps({"country": country, "spent": spent}).encode())
        config = {"application.id": "ask", "state.dir": f"{folder}/state"}
        with sf.StoatFlow(topology, config, broker=broker) as app:
            app.wait_until(caught_up=True)

            danes = app.sql("select _key, spent from people where country = ? order by spent", ["DK"])
            print(danes.explain())
            for row in danes:
                print(*row.values())

            print(pl.DataFrame(danes)["spent"].sum())
            frame: pd.DataFrame = danes.to_arrow().to_pandas()
            print(frame["spent"].max())
            found = app.store("people").find(sf.value["country"] == "SE", select={"who": sf.key})
            print(pl.DataFrame(found)["who"].to_list())
            with app.snapshot() as at:
                people = duckdb.from_arrow(at.store("people"))
                print(people.aggregate("count(*), sum(spent)::bigint").fetchall()[0])


if __name__ == "__main__":
    main()
