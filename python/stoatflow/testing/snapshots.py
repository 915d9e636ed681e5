"""Snapshots: results of a topology, kept in a file beside the test.

Takes records by topic, or a text; compares them with the file, or writes it. One record is one line, so that a changed
file shows in a review which records have changed.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

UPDATE = "--stoatflow-update"
_SHOWN = 40


class Snapshots:
    """The snapshots of one test. Call it: the first call is the file of the test, others need a `name`."""

    def __init__(self, test: Path, name: str, *, update: bool) -> None:
        """`test` is the file of the test, `name` that of the test in it."""
        self._folder = test.parent / "snapshots" / test.stem
        self._test, self._update = name, update
        self._used: set[str] = set()

    def __call__(self, found: str | Iterable[Any] | Mapping[str, Iterable[Any]], name: str = "") -> None:
        """Compare a text, a list of records, or lists of records by topic, with the file of this name."""
        __tracebackhide__ = True
        if name in self._used:
            raise ValueError(f"the test has two snapshots called '{name}'. Next: give each a name of its own")
        self._used.add(name)
        parts = (self._test, name) if name else (self._test,)
        file = self._folder / f"{'-'.join(map(_file_name, parts))}.txt"
        text = shown(found)
        if self._update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
            return
        if not file.is_file():
            raise AssertionError(f"there is no snapshot {file}. Next: write it: pytest {UPDATE}, then read it")
        kept = file.read_text("utf-8")
        if kept != text:
            raise AssertionError(
                f"the results are not those of {file}:\n{_difference(kept, text)}\n"
                f"Next: mend the topology; if the new results are right: pytest {UPDATE}"
            )


def shown(found: str | Iterable[Any] | Mapping[str, Iterable[Any]]) -> str:
    """Return the text of a snapshot."""
    if isinstance(found, str):
        return found if found.endswith("\n") else f"{found}\n"
    if isinstance(found, Mapping):
        return "".join(f"[{topic}]\n{shown(list(records))}" for topic, records in found.items())
    return "".join(f"{_line(record)}\n" for record in found)


def _line(record: Any) -> str:
    fields = {"key": _plain(record.key), "value": _plain(record.value), "timestamp": record.timestamp}
    if getattr(record, "headers", ()):
        fields["headers"] = [[name, _plain(content)] for name, content in record.headers]
    return json.dumps(fields, ensure_ascii=False)


def _plain(value: Any) -> Any:  # noqa: PLR0911  # one return per kind
    """Return what JSON can show; a value that it can't is shown by its repr."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return {"bytes": value.hex()}
    if isinstance(value, Mapping):
        return {str(name): _plain(member) for name, member in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_asdict"):
        return [_plain(each) for each in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "_asdict"):
        return {name: _plain(member) for name, member in value._asdict().items()}
    if hasattr(value, "to_list"):
        return _plain(value.to_list())
    return repr(value)


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-")


def _difference(kept: str, found: str) -> str:
    lines = difflib.unified_diff(kept.splitlines(), found.splitlines(), "snapshot", "found", lineterm="", n=2)
    listed = list(lines)
    rest = len(listed) - _SHOWN
    return "\n".join(listed if rest <= 0 else [*listed[:_SHOWN], f"and {rest} more lines"])
