"""Results as a page of Markdown, with pictures.

Takes the JSON of `versus.py` or `latency.py`; writes tables that can be put into a page, and the pictures. Computes no
figures other than medians of repeats.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import charts
from bars import Bar, shown


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of all benchmarks with a page."""
    parser.add_argument("--markdown", type=Path, help="where a page with tables goes; the pictures go beside it")
    parser.add_argument("--charts", type=Path, help="the folder of the pictures (SVG)")


def write(found: Mapping[str, Any], markdown: Path | None, folder: Path | None) -> list[Path]:
    """Write the requested files; return them."""
    if markdown is not None and folder is None:
        folder = markdown.parent
    files = [] if folder is None else charts.write(found, folder)
    if markdown is not None:
        markdown.parent.mkdir(parents=True, exist_ok=True)
        markdown.write_text(as_markdown(found, files, markdown.parent), encoding="utf-8")
        files.append(markdown)
    return files


def as_markdown(found: Mapping[str, Any], pictures: Sequence[Path], beside: Path) -> str:
    """Return the page."""
    body = _of_versus(found) if found["benchmark"] == "versus" else _of_latency(found)
    shown_pictures = [f"![{_title(file)}]({os.path.relpath(file, beside)})" for file in pictures]
    return "\n\n".join([_facts("Machine", found["machine"]), _facts("Conditions", found["conditions"]), *body,
                        *shown_pictures]) + "\n"  # fmt: skip


def _title(picture: Path) -> str:
    text = picture.read_text("utf-8")
    return text.partition('<title id="title">')[2].partition("</title>")[0]


def _facts(name: str, facts: Mapping[str, Any]) -> str:
    return f"{name}: " + ", ".join(f"{key} {value}" for key, value in facts.items()) + "."


def _table(engines: Sequence[str], rows: Mapping[str, Mapping[str, Bar]]) -> str:
    """A row per job: medians, and in brackets the ratio to Kafka Streams."""
    lines = ["| | " + " | ".join(engines) + " |", "|---|" + "---|" * len(engines)]
    for name, bars in rows.items():
        cells = [_cell(bars[engine]) if engine in bars else "" for engine in engines]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(bar: Bar) -> str:
    ratio = "" if bar.ratio is None else f" (**{shown(bar.ratio)}**)"
    return f"{shown(bar.value)}{ratio}{', ' + bar.note if bar.note else ''}"


def _of_versus(found: Mapping[str, Any]) -> list[str]:
    workloads: Mapping[str, Any] = found["workloads"]
    axes = dict.fromkeys(axis for output in workloads.values() for axis in output["summary"])
    parts = ["Medians; in brackets the ratio to Kafka Streams, paired within a repeat."]
    for axis in axes:
        rows = {name: {bar.name: bar for bar in charts.bars_of(output, axis)} for name, output in workloads.items()}
        rows = {f"`{name}` {workloads[name]['title']}": bars for name, bars in rows.items() if bars}
        if not rows:
            continue
        titles = {
            name: output["summary"][axis]["title"] for name, output in workloads.items() if axis in output["summary"]
        }
        title = next(iter(titles.values()))
        others = [f"`{name}`: {another}." for name, another in titles.items() if another != title]
        engines = sorted({engine for bars in rows.values() for engine in bars}, key=charts.place)
        parts += [f"### {title}", _table(engines, rows), *others]
    output = [f"- `{name}`: {note}" for name, one in workloads.items() for note in one["notes"]]
    output += [f"- `{name}`, {engine} is left out: {why}" for name, one in workloads.items()
             for engine, why in one["left_out"].items()]  # fmt: skip
    output += [f"- FAILED, so without figures: {why}" for one in workloads.values() for why in one["wrong"].values()]
    return [*parts, "\n".join(output)] if output else parts


def _of_latency(found: Mapping[str, Any]) -> list[str]:
    parts = ["Medians of the repeats, milliseconds; in brackets the ratio to Kafka Streams."]
    tables = {name: charts.latency_groups(found, quantile) for quantile, name in charts.QUANTILES.items()}
    tables |= {name: charts.cost_groups(found, cost) for cost, name in charts.COSTS.items()}
    tables["Seconds from the start of the process until it runs"] = charts.ready_groups(found)
    for name, groups in tables.items():
        rows = {group.title: {bar.name: bar for bar in group.bars} for group in groups}
        engines = sorted({engine for bars in rows.values() for engine in bars}, key=charts.place)
        parts += [f"### {name}", _table(engines, rows)] if rows else []
    return parts + [f"FAILED, so without figures: {why}" for why in found["failed"]]
