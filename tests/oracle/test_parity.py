"""The table of methods in docs/reference/parity.md has every public method of the Kafka Streams that runs, no other."""

from __future__ import annotations

import fnmatch
import json
from pathlib import Path

import pytest

from conformance.kafka_streams import VERSION, asked

CONFORMANCE = Path(__file__).parents[1] / "conformance"
ROWS: list[dict[str, str]] = json.loads((CONFORMANCE / "parity.json").read_text("utf-8"))
CLASSES: list[dict[str, str]] = json.loads((CONFORMANCE / "parity_classes.json").read_text("utf-8"))
PACKAGE = "org.apache.kafka.streams."
OF_ENUMS = {"valueOf", "values"}


def number(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")[:2]))


def name(cls: str, method: str) -> str:
    """The name of a row: without packages."""
    short = ".".join(part for part in cls.split(".") if part[0].isupper())
    return f"new {short}" if method == "new" else f"{short}.{method}"


@pytest.fixture(scope="module")
def methods() -> dict[str, set[str]]:
    """By the name of a row, the classes that have the method: `kstream.KStream`."""
    found: dict[str, set[str]] = {}
    for cls, names in asked("Methods").items():
        for method in names:
            found.setdefault(name(cls, method), set()).add(cls.removeprefix(PACKAGE))
    return found


def there(row: dict[str, str]) -> bool:
    """Whether the running version has the method of a row."""
    return number(row.get("since", "0.0")) <= number(VERSION) <= number(row.get("until", "99.0"))


def test_each_row_is_a_method_of_kafka_streams(methods: dict[str, set[str]]) -> None:
    assert [row["java"] for row in ROWS if there(row) and row["java"] not in methods] == []
    assert [row["java"] for row in ROWS if not there(row) and row["java"] in methods] == []
    assert len({row["java"] for row in ROWS}) == len(ROWS)


def test_each_method_has_a_row_or_belongs_to_classes_with_a_reason(methods: dict[str, set[str]]) -> None:
    known = {row["java"] for row in ROWS}
    missing = [
        f"{cls}: {method}"
        for method, classes in methods.items()
        if method not in known and method.rpartition(".")[2] not in OF_ENUMS
        for cls in classes
        if not any(matches(one["classes"], cls, method) for one in CLASSES)
    ]
    assert missing == []


def matches(pattern: str, cls: str, method: str) -> bool:
    """A pattern is one of classes, or one of methods."""
    return fnmatch.fnmatchcase(cls, pattern) or fnmatch.fnmatchcase(f"{cls}.{method.rpartition('.')[2]}", pattern)


def test_no_pattern_is_needless(methods: dict[str, set[str]]) -> None:
    if number(VERSION) < (4, 4):
        return
    known = {row["java"] for row in ROWS}
    without = [(cls, method) for method, classes in methods.items() if method not in known for cls in classes]
    for one in CLASSES:
        assert any(matches(one["classes"], *both) for both in without), one["classes"]
