"""Query the state of an application with DuckDB and Polars: `python examples/arrow/store_queries.py`.

Needs stoatflow[arrow], duckdb and polars. `app.arrow_batches` returns the rows of a store, as of the last commit, batch
by batch: DuckDB and Polars stream them, and the application keeps running. Here the test driver replaces the
application; its method is the same.
"""

from __future__ import annotations

import duckdb
import polars as pl

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

PAYMENTS = [("ann", "DK", 20), ("bob", "DK", 950), ("ann", "DK", 35), ("cyd", "SE", 700), ("dee", "SE", 40)]


def build() -> sf.Topology:
    """Payments in, a total for each customer."""
    builder = sf.StreamsBuilder()
    builder.stream("payments", key=str, value=dict).group_by_key().aggregate(
        lambda: {"total": 0, "payments": 0},
        lambda _, payment, known: {
            "country": payment["country"],
            "total": known["total"] + payment["amount"],
            "payments": known["payments"] + 1,
        },
        store="customers",
        value=dict,
    )
    return builder.build()


topology = build()


def main() -> None:
    """Create some state, and query it."""
    with TopologyTestDriver(topology) as driver:
        driver.input("payments", str, dict).pipe_all(
            (customer, {"country": country, "amount": amount}) for customer, country, amount in PAYMENTS
        )

        customers = duckdb.from_arrow(driver.arrow_batches("customers"))
        by_country = customers.aggregate("country, sum(total)::bigint, max(payments)", "country").order("country")
        for row in by_country.fetchall():
            print(*row)

        frame = pl.DataFrame(driver.to_arrow("customers"))
        for name, total in frame.filter(pl.col("total") > 50).sort("total").select("_key", "total").iter_rows():
            print(name, total)


if __name__ == "__main__":
    main()
