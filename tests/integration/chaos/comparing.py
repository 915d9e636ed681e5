"""Compares what Spark found with what is expected: tables, multisets, and updates in order.

Takes DataFrames; returns a `Part` each. Never knows their origin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.findings import Part

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

EXAMPLES = 4


def last_values(rows: DataFrame, keys: list[str]) -> DataFrame:
    """The last value of each key, without tombstones. Needs partition, offset and value."""
    from pyspark.sql import functions as f

    place = f.struct("partition", "offset")
    return rows.groupBy(*keys).agg(f.max_by("value", place).alias("value")).where("value is not null")


def tables(name: str, found: DataFrame, wanted: DataFrame, keys: list[str]) -> Part:
    """Compares two tables with one row per key and a column `value`."""
    from pyspark.sql import functions as f

    one = found.select(*keys, f.col("value").alias("found"))
    two = wanted.select(*keys, f.col("value").alias("wanted"))
    both = one.join(two, keys, "full_outer").cache()
    missing, wrong = "found is null", "found is not null and not found <=> wanted"
    return _part(name, both, {
        "wanted": _times("wanted is not null"), "found": _times("found is not null"),
        "missing": _times(missing), "wrong": _times(wrong),
    }, f"{missing} or {wrong}")  # fmt: skip


def multisets(name: str, found: DataFrame, wanted: DataFrame, keys: list[str]) -> Part:
    """Compares multisets; more rows than expected of an expected key count as duplicates."""
    from pyspark.sql import functions as f

    def counted(rows: DataFrame, as_: str) -> DataFrame:
        return rows.groupBy(*keys).agg(f.count("*").alias(as_))

    both = (
        counted(found, "found")
        .join(counted(wanted, "wanted"), keys, "full_outer")
        .fillna(0, ["found", "wanted"])
        .cache()
    )
    return _part(name, both, {
        "wanted": f.sum("wanted"), "found": f.sum("found"),
        "missing": f.sum(f.greatest(f.col("wanted") - f.col("found"), f.lit(0))),
        "duplicated": f.sum(f.when(f.col("wanted") > 0, f.greatest(f.col("found") - f.col("wanted"), f.lit(0)))),
        "wrong": f.sum(f.when(f.col("wanted") == 0, f.col("found"))),
    }, "found <> wanted")  # fmt: skip


def counting(name: str, updates: DataFrame, wanted: DataFrame, keys: list[str]) -> Part:
    """Updates (partition, offset, value) must count 1, 2, 3, ... to the expected `value`, in this order."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    order = Window.partitionBy(*keys).orderBy("partition", "offset")
    stepped = updates.withColumn("before", f.lag("value").over(order))
    per_key = stepped.groupBy(*keys).agg(
        f.count("*").alias("found"),
        f.count_distinct("value").alias("different"),
        f.max("value").alias("most"),
        f.count(f.when(f.col("value") < f.col("before"), 1)).alias("back"),
    )
    both = per_key.join(wanted.select(*keys, f.col("value").alias("wanted")), keys, "full_outer")
    both = both.fillna(0, ["found", "different", "most", "back", "wanted"]).cache()
    lost, more = f.col("wanted") - f.col("different"), f.col("found") - f.col("different")
    return _part(name, both, {
        "wanted": f.sum("wanted"), "found": f.sum("found"),
        "missing": f.sum(f.greatest(lost, f.lit(0))),
        "duplicated": f.sum(more),
        "wrong": _times("most > wanted"),
        "disorder": _times("back > 0"),
    }, "found <> wanted or different <> wanted or most <> wanted or back > 0")  # fmt: skip


def _times(condition: str) -> Column:
    from pyspark.sql import functions as f

    return f.count(f.when(f.expr(condition), 1))


def _part(name: str, both: DataFrame, sums: dict[str, Column], bad: str) -> Part:
    totals = both.agg(*[column.alias(key) for key, column in sums.items()]).collect()[0].asDict()
    numbers = {key: int(value or 0) for key, value in totals.items()}
    faults = sum(count for key, count in numbers.items() if key not in {"wanted", "found"})
    examples: tuple[str, ...] = ()
    if faults:
        examples = tuple(str(row.asDict()) for row in both.where(bad).orderBy(*both.columns).limit(EXAMPLES).collect())
    both.unpersist()
    return Part(name, **numbers, examples=examples)
