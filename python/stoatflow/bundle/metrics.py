"""Values of `/metrics`, and their increase between two readings."""

from __future__ import annotations

import re

_SAMPLE = re.compile(
    r"^(?P<name>[a-zA-Z_:][\w:]*)(?:\{.*\})? (?P<value>-?[\d.]+(?:[eE][+-]?\d+)?)(?=\s|$)", flags=re.MULTILINE
)
COUNTED = {
    "records read": "stoatflow_records_in_total",
    "records committed": "stoatflow_records_committed_total",
    "records written": "stoatflow_records_out_total",
    "records left out": "stoatflow_dropped_records_total",
}
"""Metrics whose rates are shown."""


def totals(text: str) -> dict[str, float]:
    """Return each metric, added up over its labels."""
    found: dict[str, float] = {}
    for sample in _SAMPLE.finditer(text):
        found[sample["name"]] = found.get(sample["name"], 0.0) + float(sample["value"])
    return found


def rates(first: dict[str, float], second: dict[str, float], seconds: float) -> dict[str, float]:
    """Return the increases per second; empty if the application was restarted in between."""
    if seconds <= 0 or first.get("stoatflow_start_time_seconds") != second.get("stoatflow_start_time_seconds"):
        return {}
    known = {what: name for what, name in COUNTED.items() if name in first and name in second}
    return {what: (second[name] - first[name]) / seconds for what, name in known.items()}
