"""The generator: the same seed is the same input, however Spark splits the work."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from stoatflow.spark.load import LONGEST, SHORTEST, START_MS, lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def rows(spark: SparkSession, records: int, **options: Any) -> list[tuple[Any, ...]]:
    """Return the generated rows by time."""
    return sorted((tuple(row) for row in lines(spark, records, **options).collect()), key=lambda row: row[3])


def test_columns_are_as_promised(spark: SparkSession) -> None:
    assert [(c.name, c.dataType.simpleString()) for c in lines(spark, 1).schema] == [
        ("partition", "int"),
        ("key", "string"),
        ("value", "string"),
        ("timestamp", "bigint"),
    ]


@pytest.mark.parametrize("tasks", [1, 3, 16])
def test_same_seed_same_input_for_any_number_of_tasks(spark: SparkSession, tasks: int) -> None:
    options: dict[str, Any] = {"vocabulary": 500, "seed": 42, "partitions": 3, "keys": 20}
    assert rows(spark, 300, tasks=tasks, **options) == rows(spark, 300, tasks=2, **options)


def test_results_of_a_seed_never_change(spark: SparkSession) -> None:
    # If this value changes, no recorded run of users can be repeated.
    assert rows(spark, 2, vocabulary=1000, seed=7) == GOLDEN


def test_a_longer_run_starts_like_a_shorter_one(spark: SparkSession) -> None:
    assert rows(spark, 200, seed=3)[:50] == rows(spark, 50, seed=3)


def test_the_number_of_partitions_changes_no_line(spark: SparkSession) -> None:
    assert [row[2] for row in rows(spark, 50, partitions=7)] == [row[2] for row in rows(spark, 50)]


def test_another_seed_is_another_input(spark: SparkSession) -> None:
    one, other = (({row[2] for row in rows(spark, 200, seed=seed)}) for seed in (1, 2))
    assert len(one) == len(other) == 200
    assert not one & other


def test_lines_have_8_to_12_words_of_the_vocabulary(spark: SparkSession) -> None:
    words = [row[2].split(" ") for row in rows(spark, 2000, vocabulary=50)]
    assert {len(line) for line in words} == set(range(SHORTEST, LONGEST + 1))
    used = {word for line in words for word in line}
    assert used == {f"word{n:05}" for n in range(1, 51)}


def test_records_go_round_the_partitions_a_millisecond_apart(spark: SparkSession) -> None:
    found = rows(spark, 10, partitions=3)
    assert [row[0] for row in found] == [n % 3 for n in range(10)]
    assert [row[3] for row in found] == [START_MS + n for n in range(10)]


def test_words_are_skewed_like_natural_text(spark: SparkSession) -> None:
    counts = Counter(word for row in rows(spark, 5000, vocabulary=1000) for word in row[2].split())
    total = counts.total()
    # log(2)/log(1001) = 10.0 %, log(3/2)/log(1001) = 5.9 %
    assert counts["word00001"] / total == pytest.approx(0.100, abs=0.006)
    assert counts["word00002"] / total == pytest.approx(0.059, abs=0.005)


@pytest.mark.parametrize(("skew", "share"), [(0.0, 0.10), (2.0, 0.55)])
def test_skew_can_be_chosen(spark: SparkSession, skew: float, share: float) -> None:
    counts = Counter(word for row in rows(spark, 2000, vocabulary=10, skew=skew) for word in row[2].split())
    assert counts["word00001"] / counts.total() == pytest.approx(share, abs=0.02)
    assert len(counts) == 10


def test_a_vocabulary_of_one_and_of_many(spark: SparkSession) -> None:
    assert {word for row in rows(spark, 20, vocabulary=1) for word in row[2].split()} == {"word00001"}
    wide = {word for row in rows(spark, 50, vocabulary=2_000_000, skew=0.0) for word in row[2].split()}
    assert all(re.fullmatch(r"word\d{7}", word) for word in wide)


def test_keys_are_null_unless_asked_for(spark: SparkSession) -> None:
    assert {row[1] for row in rows(spark, 20)} == {None}
    assert {row[1] for row in rows(spark, 500, keys=3)} == {"key00001", "key00002", "key00003"}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("records", {"records": -1}),
        ("vocabulary", {"records": 1, "vocabulary": 0}),
        ("partitions", {"records": 1, "partitions": 0}),
        ("keys", {"records": 1, "keys": -1}),
        ("skew", {"records": 1, "skew": -0.5}),
    ],
)
def test_impossible_options_are_refused_by_name(spark: SparkSession, name: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=name):
        lines(spark, **options)


GOLDEN = [
    (
        0,
        None,
        "word00057 word00155 word00368 word00100 word00005 word00104 word00033 word00042 word00140 word00506",
        START_MS,
    ),
    (
        0,
        None,
        "word00002 word00019 word00090 word00021 word00035 word00939 word00136 word00031 word00001 word00055",
        START_MS + 1,
    ),
]
