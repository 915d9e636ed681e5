"""Runs to a table and JSON.

Takes: runs whose final tables were found equal. Gives: text for people, a dictionary for machines.
Owns: which figures are compared, and how. Never: prints a time of an engine whose result is wrong.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engines import KSTREAMS, Run

METRICS: tuple[tuple[str, str, Callable[[Run], float | None]], ...] = (
    ("cpu_per_million", "CPU s per million records, whole process", lambda run: run.cpu_per_million),
    ("warm_cpu_per_million", "CPU s per million records, second half", lambda run: run.warm_cpu_per_million),
    ("peak_rss_mb", "peak RSS, MB", lambda run: run.peak_rss_kb / 1024),
    ("records_per_second", "records per second", lambda run: run.records / run.seconds),
)


@dataclass(frozen=True)
class Spread:
    """Smallest, middle and largest of the repeats."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of at least one value."""
        return cls(min(values), statistics.median(values), max(values))

    def __str__(self) -> str:
        """Three columns."""
        return f"{self.low:9.1f} {self.median:9.1f} {self.high:9.1f}"


def spreads(runs: Sequence[Run], metric: Callable[[Run], float | None]) -> dict[str, Spread]:
    """Of one metric, by engine, in the order in which the engines first ran."""
    values: dict[str, list[float]] = {}
    for run in runs:
        value = metric(run)
        if value is not None:
            values.setdefault(run.engine, []).append(value)
    return {engine: Spread.of(found) for engine, found in values.items()}


def paired_ratios(runs: Sequence[Run], metric: Callable[[Run], float | None]) -> dict[str, Spread]:
    """Each engine against Kafka Streams in the same repeat, so that a busy minute hits both sides."""
    base = {run.repeat: metric(run) for run in runs if run.engine == KSTREAMS}
    ratios: dict[str, list[float]] = {}
    for run in runs:
        value, against = metric(run), base.get(run.repeat)
        if run.engine != KSTREAMS and value is not None and against:
            ratios.setdefault(run.engine, []).append(value / against)
    return {engine: Spread.of(found) for engine, found in ratios.items()}


def as_text(runs: Sequence[Run]) -> str:
    """The table for people."""
    lines: list[str] = []
    for _, title, metric in METRICS:
        ratios = paired_ratios(runs, metric)
        lines += ["", f"{title:42} {'min':>9} {'median':>9} {'max':>9}   against Kafka Streams (min median max)"]
        for engine, spread in spreads(runs, metric).items():
            ratio = ratios.get(engine)
            against = f"{ratio.low:.3f}x {ratio.median:.3f}x {ratio.high:.3f}x" if ratio else "1"
            lines.append(f"  {engine:40} {spread}   {against}")
    outputs = {run.engine: run.output_records for run in runs}
    lines += ["", "output records (last repeat): " + ", ".join(f"{name} {count}" for name, count in outputs.items())]
    busy = [run.other_cpu_seconds / run.seconds for run in runs]
    lines.append(f"other processes meanwhile used {min(busy):.2f} to {max(busy):.2f} cores")
    return "\n".join(lines)


def as_json(runs: Sequence[Run], machine: dict[str, Any], conditions: dict[str, Any]) -> dict[str, Any]:
    """Everything, for machines and for later."""
    return {
        "benchmark": "word_count",
        "machine": machine,
        "conditions": conditions,
        "summary": {
            key: {
                "spread": {engine: vars(spread) for engine, spread in spreads(runs, metric).items()},
                "ratio_to_kafka_streams": {
                    engine: vars(spread) for engine, spread in paired_ratios(runs, metric).items()
                },
            }
            for key, _, metric in METRICS
        },
        "runs": [run.as_dict() for run in runs],
    }
