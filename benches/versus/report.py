"""Measurements to a table and JSON.

Takes: measurements whose final tables were found equal. Gives: text for people, a dictionary for machines.
Owns: which figures are compared, and how. Never: prints a time of an engine whose result is wrong.

What a record costs when the engine is warm is told by two runs of different length: their difference has no start-up
in it. Halving one run would not tell: Kafka Streams reads half of the input before it counts the first word, so what is
left at "half" is either mostly splitting or only counting.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engines import KSTREAMS, Run


@dataclass(frozen=True)
class Measurement:
    """One engine in one repeat: a run over the first quarter of the lines, and one over all of them."""

    short: Run
    full: Run

    @property
    def engine(self) -> str:
        """Which one."""
        return self.full.engine

    @property
    def repeat(self) -> int:
        """In which repeat."""
        return self.full.repeat

    @property
    def marginal_cpu_per_million(self) -> float | None:
        """CPU seconds per million of the additional records; None if noise is larger than the difference."""
        cpu = self.full.process_cpu_seconds - self.short.process_cpu_seconds
        records = self.full.records - self.short.records
        return cpu / records * 1e6 if cpu > 0 and records > 0 else None


Metric = Callable[[Measurement], "float | None"]

METRICS: tuple[tuple[str, str, Metric], ...] = (
    ("cpu_per_million", "CPU s per million records, whole process", lambda one: one.full.cpu_per_million),
    ("marginal_cpu_per_million", "CPU s per million records, marginal", lambda one: one.marginal_cpu_per_million),
    ("peak_rss_mb", "peak RSS, MB", lambda one: one.full.peak_rss_kb / 1024),
    ("records_per_second", "records per second, start included", lambda one: one.full.records / one.full.seconds),
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


def spreads(measured: Sequence[Measurement], metric: Metric) -> dict[str, Spread]:
    """Of one metric, by engine, in the order in which the engines first ran."""
    values: dict[str, list[float]] = {}
    for one in measured:
        value = metric(one)
        if value is not None:
            values.setdefault(one.engine, []).append(value)
    return {engine: Spread.of(found) for engine, found in values.items()}


def paired_ratios(measured: Sequence[Measurement], metric: Metric) -> dict[str, Spread]:
    """Each engine against Kafka Streams in the same repeat, so that a busy minute hits both sides."""
    base = {one.repeat: metric(one) for one in measured if one.engine == KSTREAMS}
    ratios: dict[str, list[float]] = {}
    for one in measured:
        value, against = metric(one), base.get(one.repeat)
        if one.engine != KSTREAMS and value is not None and against:
            ratios.setdefault(one.engine, []).append(value / against)
    return {engine: Spread.of(found) for engine, found in ratios.items()}


def as_text(measured: Sequence[Measurement]) -> str:
    """The table for people."""
    lines: list[str] = []
    for _, title, metric in METRICS:
        ratios = paired_ratios(measured, metric)
        lines += ["", f"{title:42} {'min':>9} {'median':>9} {'max':>9}   against Kafka Streams (min median max)"]
        for engine, spread in spreads(measured, metric).items():
            ratio = ratios.get(engine)
            against = f"{ratio.low:.3f}x {ratio.median:.3f}x {ratio.high:.3f}x" if ratio else "-"
            lines.append(f"  {engine:40} {spread}   {'1' if engine == KSTREAMS else against}")
    outputs = {one.engine: one.full.output_records for one in measured}
    lines += [
        "",
        "output records (last repeat; an engine that folds more updates writes less): "
        + ", ".join(f"{name} {count}" for name, count in outputs.items()),
    ]
    busy = [run.other_cpu_seconds / run.wall_seconds for one in measured for run in (one.short, one.full)]
    lines.append(f"other processes meanwhile used {min(busy):.2f} to {max(busy):.2f} cores")
    return "\n".join(lines)


def as_json(measured: Sequence[Measurement], machine: dict[str, Any], conditions: dict[str, Any]) -> dict[str, Any]:
    """Everything, for machines and for later."""
    return {
        "benchmark": "word_count",
        "machine": machine,
        "conditions": conditions,
        "summary": {
            key: {
                "spread": {engine: vars(spread) for engine, spread in spreads(measured, metric).items()},
                "ratio_to_kafka_streams": {
                    engine: vars(spread) for engine, spread in paired_ratios(measured, metric).items()
                },
            }
            for key, _, metric in METRICS
        },
        "runs": [run.as_dict() for one in measured for run in (one.short, one.full)],
    }
