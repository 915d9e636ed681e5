"""The workloads that Spark's own SQL can express, as DataFrames.

Takes a DataFrame for each input topic: key and value (binary), timestamp (milliseconds). Returns the final table: its
column `row` is the identity of a row, as in the workload's own results, `cell` a number or a JSON object as text. W7 is
not among them: it would be several queries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from workloads.reading import Cell, canonical

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

Frames = Mapping[str, "DataFrame"]
LEAST = 20


def _members(schema: str) -> Column:
    return f.from_json(f.col("value").cast("string"), schema)


def _time() -> Column:
    return f.timestamp_millis(f.col("timestamp"))


def kept(inputs: Frames) -> DataFrame:
    """W1: filter, and enrich."""
    order = inputs["orders"].select(_members("id long, user string, amount long, ts long, pad string").alias("o"))
    chosen = order.where(f.col("o.amount") >= LEAST).select(
        "o.id", f.upper("o.user").alias("user"), "o.amount", "o.ts", "o.pad"
    )
    return chosen.select(f.col("id").cast("string").alias("row"), f.to_json(f.struct("*")).alias("cell"))


def counts(inputs: Frames) -> DataFrame:
    """W2: word count."""
    words = f.explode(f.split(f.lower(f.col("value").cast("string")), r"\s+"))
    return inputs["lines"].select(words.alias("row")).groupBy("row").agg(f.count(f.lit(1)).alias("cell"))


def sums(inputs: Frames) -> DataFrame:
    """W3: sums in windows of a minute."""
    user, amount = f.col("key").cast("string").alias("user"), _members("amount long")["amount"].alias("amount")
    payments = inputs["payments"].select(user, amount, _time().alias("at"))
    by_minute = payments.groupBy("user", f.window("at", "1 minute").alias("w")).agg(f.sum("amount").alias("cell"))
    return by_minute.select(f.concat_ws("@", "user", f.unix_millis("w.start")).alias("row"), "cell")


def joined(inputs: Frames) -> DataFrame:
    """W4: a stream joined to a table, whose rows are all older."""
    user = f.col("key").cast("string").alias("user")
    orders = inputs["orders"].select(user, _members("id long, amount long").alias("o"))
    profiles = inputs["profiles"].select(user, _members("name string, city string").alias("p"))
    both = orders.join(profiles, "user").select("o.id", "user", "o.amount", "p.name", "p.city")
    return both.select(f.col("id").cast("string").alias("row"), f.to_json(f.struct("*")).alias("cell"))


def sessions(inputs: Frames) -> DataFrame:
    """W5: sessions. Spark's end when the gap has passed, Kafka Streams' hold a record that comes exactly then."""
    gap_ms = 10_001
    user, spent = f.col("key").cast("string").alias("user"), _members("spent long")["spent"].alias("spent")
    clicks = inputs["clicks"].select(user, spent, _time().alias("at"))
    session = f.session_window("at", f"{gap_ms} milliseconds").alias("s")
    grouped = clicks.groupBy("user", session).agg(f.count(f.lit(1)).alias("n"), f.sum("spent").alias("spent"))
    bounds = f.concat_ws("-", f.unix_millis("s.start"), f.unix_millis("s.end") - gap_ms)
    return grouped.select(
        f.concat_ws("@", "user", bounds).alias("row"), f.to_json(f.struct("n", "spent")).alias("cell")
    )


JOBS: Mapping[str, Callable[[Frames], DataFrame]] = {
    "w1": kept,
    "w2": counts,
    "w3": sums,
    "w4": joined,
    "w5": sessions,
}


def cell(of: int | str) -> Cell:
    """A cell as the workload's own results have it."""
    return of if isinstance(of, int) else canonical(json.loads(of))
