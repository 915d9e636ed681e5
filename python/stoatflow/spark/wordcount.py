"""Checks the output of a word count: computes it with Spark, and compares.

Takes two DataFrames, the input's lines and the output's updates; returns a `Reconciliation`. Defines a correct output.
Words are separated by runs of whitespace (Unicode's, as in Rust's ``split_whitespace``) and lower-cased; empty words do
not count. For each word, in the order of the output's offsets: counts only grow, and the last one is the number of
occurrences. If every update is emitted, each count from one to the last occurs once. If updates are emitted once per
commit, some are missing, and nothing else differs. Independent of the origin of the DataFrames, so that tests can pass
faulty ones.

The output's topic must not be compacted: compaction removes the evidence of duplicates.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from stoatflow.spark.report import Example, Fault, Reconciliation

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

_WHITE_SPACE = r"(?U)\s+"


def expected_counts(lines: DataFrame) -> DataFrame:
    """Return word and count of the column ``value``; a null value has no words."""
    from pyspark.sql import functions as f

    words = lines.select(f.explode(f.split(f.lower("value"), _WHITE_SPACE)).alias("word"))
    return words.where("word <> ''").groupBy("word").agg(f.count("*").alias("count"))


def reconcile(lines: DataFrame, updates: DataFrame, *, every_update: bool = False, examples: int = 3) -> Reconciliation:
    """Compare a word count's output with its input.

    ``lines`` needs the column value (string); ``updates`` needs partition, offset, key (string) and value (long,
    null if it could not be decoded). Up to ``examples`` of each fault are named in the result.
    """
    from pyspark.sql import functions as f

    for frame, columns in ((lines, {"value"}), (updates, {"partition", "offset", "key", "value"})):
        if lacking := columns - set(frame.columns):
            raise ValueError(f"the DataFrame lacks {sorted(lacking)}; it has {frame.columns}")
    started = time.monotonic()
    verdicts = _verdicts(_compared(expected_counts(lines), updates), every_update).cache()
    try:
        totals = verdicts.agg(
            *[f.sum(f"faults.{fault.name}").alias(fault.name) for fault in Fault],
            f.sum("expected").alias("input_words"),
            f.count("expected").alias("expected_keys"),
            f.sum("outputs").alias("output_records"),
            f.count(f.when(f.col("outputs") > 0, 1)).alias("output_keys"),
        ).collect()[0]
        faults = {fault: int(totals[fault.name] or 0) for fault in Fault}
        found = [
            _example(fault, row)
            for fault, count in faults.items()
            if count
            # Sorted, so that every run names the same faults.
            for row in verdicts.where(f.col(f"faults.{fault.name}") > 0).orderBy("key").limit(examples).collect()
        ]
    finally:
        verdicts.unpersist()
    return Reconciliation(
        input_records=lines.count(),
        input_words=int(totals["input_words"] or 0),
        expected_keys=int(totals["expected_keys"]),
        output_records=int(totals["output_records"] or 0),
        output_keys=int(totals["output_keys"]),
        every_update=every_update,
        faults=faults,
        examples=tuple(found),
        seconds=time.monotonic() - started,
    )


def _compared(expected: DataFrame, updates: DataFrame) -> DataFrame:
    """Return each update with the expected count of its word, and the highest count before it.

    The full outer join keeps words without any update (their ``offset`` is null) and updates of unknown words (their
    ``expected`` is null).
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    wanted = expected.select("word", f.col("count").alias("expected"))
    joined = wanted.join(updates, f.col("word") == f.col("key"), "full_outer").select(
        f.coalesce("key", "word").alias("key"), "expected", "partition", "offset", "value"
    )
    before = (
        Window.partitionBy("key")
        .orderBy("partition", "offset")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow - 1)
    )
    return joined.withColumn("highest", f.max("value").over(before))


def _verdicts(compared: DataFrame, every_update: bool) -> DataFrame:
    """Return one row per key: expected and found counts, number of faults by kind, and their positions."""
    from pyspark.sql import functions as f

    is_update = f.col("offset").isNotNull()
    value, highest = f.col("value"), f.col("highest")
    bad = is_update & (value.isNull() | (value < 1))
    repeated = value == highest
    back = value < highest
    place = f.struct("partition", "offset", "value", "highest")

    def first(condition: Column) -> Column:
        return f.min(f.when(condition, place))

    aggregates = [
        f.max("expected").alias("expected"),
        f.count("offset").alias("outputs"),
        f.max(f.when(is_update, place)).alias("last"),
        f.size(f.collect_set("partition")).alias("partitions"),
        f.count(f.when(bad, 1)).alias("bad"),
        f.count(f.when(repeated & ~bad, 1)).alias("repeated"),
        f.count(f.when(back & ~bad, 1)).alias("back"),
        first(bad).alias("first_bad"),
        first(repeated & ~bad).alias("first_repeated"),
        first(back & ~bad).alias("first_back"),
    ]
    if every_update:
        within = f.when(value.between(1, f.col("expected")), value)
        aggregates.append(f.count_distinct(within).alias("seen"))
    keys = compared.groupBy("key").agg(*aggregates)

    known, has_output = f.col("expected").isNotNull(), f.col("outputs") > 0
    last = f.col("last.value")
    lacking = f.col("expected") - f.col("seen") if every_update else f.lit(0)
    counts = {
        Fault.MISSING_WORD: (known & ~has_output).cast("long"),
        Fault.MISSING_UPDATE: f.when(known & has_output, lacking).otherwise(0).cast("long"),
        Fault.REPEATED: f.col("repeated"),
        Fault.WENT_BACK: f.col("back"),
        Fault.WRONG_COUNT: (known & has_output & ~last.eqNullSafe(f.col("expected"))).cast("long"),
        Fault.EXTRA_WORD: (~known).cast("long"),
        Fault.BAD_VALUE: f.col("bad"),
        Fault.SPLIT_KEY: (f.col("partitions") > 1).cast("long"),
    }
    return keys.withColumn("lacking", lacking).withColumn(
        "faults", f.struct(*[count.alias(fault.name) for fault, count in counts.items()])
    )


def _example(fault: Fault, row: Row) -> Example:
    """Describe one fault of a key, with the offset to look at if there is one."""
    key, expected = row["key"], row["expected"]
    match fault:
        case Fault.MISSING_WORD:
            return Example(fault, key, expected)
        case Fault.MISSING_UPDATE:
            return Example(fault, key, expected, row["lacking"])
        case Fault.SPLIT_KEY:
            return Example(fault, key, actual=row["partitions"])
        case Fault.REPEATED | Fault.WENT_BACK:
            place = row["first_repeated" if fault is Fault.REPEATED else "first_back"]
            expected = place["highest"]
        case Fault.BAD_VALUE:
            place = row["first_bad"]
        case Fault.WRONG_COUNT | Fault.EXTRA_WORD:
            place = row["last"]
    return Example(fault, key, expected, place["value"], place["partition"], place["offset"])
