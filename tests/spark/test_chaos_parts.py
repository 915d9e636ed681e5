"""The reconciliation of the kill harness: each fault is detected and classified, and nothing else is."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from chaos.comparing import counting, last_values, multisets, tables
from chaos.findings import Findings, Part
from chaos.recompute import Recompute
from transactions import Transaction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

ROWS = "key string, value long"
UPDATES = "partition int, offset long, key string, value long"


def faults(part: Part) -> dict[str, int]:
    """The counts that are not zero."""
    names = ("missing", "duplicated", "wrong", "disorder")
    return {name: getattr(part, name) for name in names if getattr(part, name)}


def test_tables(spark: SparkSession) -> None:
    wanted = spark.createDataFrame([("a", 1), ("b", 2)], ROWS)
    for found, expected in (
        ([("a", 1), ("b", 2)], {}),
        ([("a", 1)], {"missing": 1}),
        ([("a", 1), ("b", 3)], {"wrong": 1}),
        ([("a", 1), ("b", 2), ("c", 1)], {"wrong": 1}),
    ):
        part = tables("it", spark.createDataFrame(found, ROWS), wanted, ["key"])
        assert faults(part) == expected, found
        assert part.ok == (not expected)
        assert bool(part.examples) == bool(expected)


def test_multisets(spark: SparkSession) -> None:
    wanted = spark.createDataFrame([("a", 1), ("a", 1), ("b", 2)], ROWS)
    for found, expected in (
        ([("a", 1), ("b", 2), ("a", 1)], {}),
        ([("a", 1), ("b", 2)], {"missing": 1}),
        ([("a", 1), ("a", 1), ("b", 2), ("b", 2)], {"duplicated": 1}),
        ([("a", 1), ("a", 1), ("b", 3)], {"missing": 1, "wrong": 1}),
    ):
        part = multisets("it", spark.createDataFrame(found, ROWS), wanted, ["key", "value"])
        assert faults(part) == expected, found


def test_counting(spark: SparkSession) -> None:
    wanted = spark.createDataFrame([("a", 3)], ROWS)
    for values, expected in (
        ([1, 2, 3], {}),
        ([1, 2], {"missing": 1}),
        ([1, 2, 2, 3], {"duplicated": 1}),
        ([1, 3, 2], {"disorder": 1}),
        ([1, 2, 1, 2, 3], {"duplicated": 2, "disorder": 1}),
        ([1, 2, 3, 4], {"wrong": 1}),
    ):
        rows = [(0, offset, "a", value) for offset, value in enumerate(values)]
        assert faults(counting("it", spark.createDataFrame(rows, UPDATES), wanted, ["key"])) == expected, values
    none = counting("it", spark.createDataFrame([], UPDATES), wanted, ["key"])
    assert faults(none) == {"missing": 3}


def test_last_values(spark: SparkSession) -> None:
    rows = [(0, 1, "a", 1), (0, 5, "a", 2), (0, 2, "b", 7), (0, 3, "b", None), (1, 0, "c", 4)]
    found = last_values(spark.createDataFrame(rows, UPDATES), ["key"]).collect()
    assert {(row["key"], row["value"]) for row in found} == {("a", 2), ("c", 4)}


def test_nothing_proves_nothing() -> None:
    assert not Findings().ok
    assert not Part("it", wanted=0, found=0).ok
    report = Findings(5, [Part("it", 0, 0), Part("that", 1, 1, duplicated=2, examples=("here",))]).render()
    assert "proves nothing" in report
    assert "NOT OK: missing 0, duplicated 2" in report
    assert "here" in report


class InMemory(Recompute):
    """Topics that a test writes."""

    def __init__(
        self, spark: SparkSession, topics: dict[str, list[tuple[int, str | None, bytes]]], ends: Sequence[int] = ()
    ) -> None:
        """Offset, key and value of each row; the ends of transactions."""
        self._spark, self._written, self._ends = spark, topics, ends
        self.rows = self._rows

    def transactions(self, topic: str) -> list[Transaction]:
        """The same for each topic."""
        return [Transaction(end, end) for end in self._ends]

    def _rows(self, topic: str) -> DataFrame:
        schema = "partition int, offset long, key binary, value binary, timestamp long"
        written = self._written[topic]
        rows: list[Any] = [(0, at, key.encode() if key else None, bytearray(value), 0) for at, key, value in written]
        return self._spark.createDataFrame(rows, schema)


@pytest.mark.parametrize("broken", [None, "torn", "lost", "twice"])
def test_the_bank(spark: SparkSession, broken: str | None) -> None:
    transfers = [
        (0, None, b'{"from": "a", "to": "b", "amount": 5}'),
        (1, None, b'{"from": "b", "to": "a", "amount": 2}'),
    ]
    balances = [(0, "a", -5), (1, "b", 5), (3, "b", 3), (4, "a", -3)]
    ends = [1, 4]
    if broken == "torn":
        ends = [0, 4]
    elif broken == "lost":
        balances, ends = balances[:2], ends[:1]
    elif broken == "twice":
        balances, ends = [*balances, (6, "b", 1), (7, "a", -1)], [*ends, 7]
    rows = [(at, account, struct.pack(">q", balance)) for at, account, balance in balances]
    topics = {"transfers": transfers, "balances": rows, "accounts-changelog": rows}
    once, cuts, _ = InMemory(spark, topics, ends).bank()
    assert cuts.ok == (broken != "torn")
    assert faults(once) == {"lost": {"missing": 2}, "twice": {"duplicated": 2}}.get(broken or "", {})
