"""Reads the files in deploy/monitoring.

Takes: the files.
Gives: rules, queries of the dashboard, and the metrics with the labels that each uses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
MONITORING = ROOT / "deploy" / "monitoring"
PAGE = ROOT / "docs" / "guide" / "monitoring.md"
DASHBOARD: dict[str, Any] = json.loads((MONITORING / "dashboard.json").read_text("utf-8"))

# Not part of a name with a colon: such names are created by rules.
_SELECTOR = re.compile(r"(?<![\w:])(stoatflow_\w+|process_\w+|up)\b(?!:)(?:\{([^}]*)\})?")
_CLAUSE = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
# Labels that Prometheus adds itself.
TARGET_LABELS = {"job", "instance"}


def rules() -> list[dict[str, Any]]:
    """All rules."""
    groups = yaml.safe_load((MONITORING / "alerts.yml").read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> list[dict[str, Any]]:
    """The alerting rules."""
    return [rule for rule in rules() if "alert" in rule]


def panels() -> list[dict[str, Any]]:
    """All panels with data."""
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def dashboard_queries(interval: str) -> Iterator[tuple[str, str]]:
    """Every query with the title of its panel, as Grafana sends it when all values are selected."""
    for panel in panels():
        for target in panel["targets"]:
            query = re.sub(r"\$(job|application|instance)\b", ".*", target["expr"])
            yield panel["title"], query.replace("$__rate_interval", interval)


def metrics_in(expression: str) -> set[str]:
    """The metric names in an expression."""
    return {name for name, _ in _SELECTOR.findall(expression) if name != "up"}


def labels_in(expression: str) -> Iterator[tuple[str, str, list[str]]]:
    """The labels that select each metric, with the literal values they are compared with."""
    for name, selector in _SELECTOR.findall(expression):
        for label, words in re.findall(r'(\w+)\s*(?:=~|!~|!=|=)\s*"([^"]*)"', selector):
            yield name, label, [word for word in words.split("|") if re.fullmatch(r"[a-z_]+", word)]


def matched_labels(expression: str) -> set[str]:
    """Labels by which it groups or joins."""
    return {label.strip() for clause in _CLAUSE.findall(expression) for label in clause.split(",") if label.strip()}


def hurried(text: str, span: str, patience: str) -> str:
    """The same rules for a test that has no minutes: time ranges have this length, and waits are at most that long."""
    text = re.sub(r"\[\d+m\]", f"[{span}]", text)
    text = re.sub(r"offset \d+m", f"offset {span}", text)
    return re.sub(r"\bfor: \d+m", f"for: {patience}", text)
