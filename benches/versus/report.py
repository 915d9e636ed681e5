"""Formats measurements as a table and as JSON.

Takes measurements whose outputs were verified; returns text for people, a dictionary for machines. Defines which
figures are compared, and how: only runs of the same repeat and workload.

The cost of a record in a warm engine is the difference of two runs of different length, which contains no start-up.
Halving one run would not work: Kafka Streams reads half of the input before it counts the first word, so the second
half is either mostly splitting or only counting.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from engines import BARE, KSTREAMS, Run

# Engines that others are compared with, if they ran.
BASES = (KSTREAMS, BARE)


class Measured(Protocol):
    """The result of one engine in one repeat, of any workload."""

    @property
    def engine(self) -> str:
        """Name of the engine."""

    @property
    def repeat(self) -> int:
        """Number of the repeat."""

    def as_runs(self) -> list[dict[str, Any]]:
        """Its runs, for JSON."""


class Titled(Protocol):
    """The work that was measured."""

    @property
    def name(self) -> str:
        """Name on the command line."""

    @property
    def title(self) -> str:
        """Title for people."""


@dataclass(frozen=True)
class Measurement:
    """One engine in one repeat: a run over the first quarter of the records, and one over all of them."""

    short: Run
    full: Run

    @property
    def engine(self) -> str:
        """Name of the engine."""
        return self.full.engine

    @property
    def repeat(self) -> int:
        """Number of the repeat."""
        return self.full.repeat

    @property
    def marginal_cpu_per_million(self) -> float | None:
        """CPU seconds per million of the additional records; `None` if noise is larger than the difference."""
        cpu = self.full.process_cpu_seconds - self.short.process_cpu_seconds
        records = self.full.records - self.short.records
        return cpu / records * 1e6 if cpu > 0 and records > 0 else None

    def as_runs(self) -> list[dict[str, Any]]:
        """Both runs, for JSON."""
        return [run.as_dict() for run in (self.short, self.full)]


Metric = Callable[[Any], "float | None"]

METRICS: tuple[tuple[str, str, Metric], ...] = (
    ("cpu_per_million", "CPU s per million records, whole process", lambda one: one.full.cpu_per_million),
    ("marginal_cpu_per_million", "CPU s per million records, marginal", lambda one: one.marginal_cpu_per_million),
    ("peak_rss_mb", "peak RSS, MB", lambda one: one.full.peak_rss_kb / 1024),
    ("steady_rss_mb", "steady RSS, MB", lambda one: _mb(one.full.steady_rss_kb)),
    ("records_per_second", "records per second, start included", lambda one: one.full.records / one.full.seconds),
    ("bytes_per_record", "bytes on the broker per record", lambda one: one.full.bytes_per_record),
)


def _mb(kb: int | None) -> float | None:
    return None if kb is None else kb / 1024


@dataclass(frozen=True)
class Results:
    """All measurements of one workload, and why an engine is missing: it could not run, or it failed.

    `notes` are lines for people with additional information.
    """

    workload: Titled
    measured: Sequence[Measured]
    left_out: Mapping[str, str]
    wrong: Mapping[str, str] = field(default_factory=dict)
    metrics: tuple[tuple[str, str, Metric], ...] = METRICS
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Spread:
    """Smallest, median and largest value of the repeats."""

    low: float
    median: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Spread of at least one value."""
        return cls(min(values), statistics.median(values), max(values))

    def __str__(self) -> str:
        """Format as three columns."""
        return f"{self.low:9.1f} {self.median:9.1f} {self.high:9.1f}"


def spreads(measured: Sequence[Measured], metric: Metric) -> dict[str, Spread]:
    """Spreads of one metric, by engine, in the order in which the engines first ran."""
    values: dict[str, list[float]] = {}
    for one in measured:
        value = metric(one)
        if value is not None:
            values.setdefault(one.engine, []).append(value)
    return {engine: Spread.of(found) for engine, found in values.items()}


def paired_ratios(measured: Sequence[Measured], metric: Metric, base: str = KSTREAMS) -> dict[str, Spread]:
    """Ratio of each engine to one of them in the same repeat, so that a busy minute affects both sides."""
    of_base = {one.repeat: metric(one) for one in measured if one.engine == base}
    ratios: dict[str, list[float]] = {}
    for one in measured:
        value, against = metric(one), of_base.get(one.repeat)
        if one.engine != base and value is not None and against:
            ratios.setdefault(one.engine, []).append(value / against)
    return {engine: Spread.of(found) for engine, found in ratios.items()}


def _column(engine: str, base: str, ratios: Mapping[str, Spread]) -> str:
    ratio = ratios.get(engine)
    found = f"{ratio.low:.3f}x {ratio.median:.3f}x {ratio.high:.3f}x" if ratio else "-"
    return f"{'1' if engine == base else found:>26}"


def as_text(results: Results) -> str:
    """The table of one workload for people."""
    measured, workload = results.measured, results.workload
    lines = ["", f"{workload.name}: {workload.title}"]
    bases = [base for base in BASES if any(one.engine == base for one in measured)]
    for _, title, metric in results.metrics:
        ratios = {base: paired_ratios(measured, metric, base) for base in bases}
        heads = "".join(f"{'against ' + base:>28}" for base in bases)
        lines += ["", f"{title:42} {'min':>9} {'median':>9} {'max':>9}{heads}"]
        for engine, spread in spreads(measured, metric).items():
            lines.append(f"  {engine:40} {spread}" + "".join(f"  {_column(engine, b, ratios[b])}" for b in bases))
    if measured:
        lines += ["", "ratios are paired within a repeat: min, median, max", *results.notes]
    lines += [f"left out: {engine}: {why}" for engine, why in results.left_out.items()]
    lines += [f"FAILED, so without figures: {why}" for why in results.wrong.values()]
    return "\n".join(lines)


def notes_on(measured: Sequence[Measurement], *, updates: bool) -> list[str]:
    """Notes about these runs; with `updates` an engine may combine several updates into one."""
    if not measured:
        return []
    last = {one.engine: one.full for one in measured}
    busy = [run.other_cpu_seconds / run.wall_seconds for one in measured for run in (one.short, one.full)]
    folds = "; an engine that folds more updates writes less" if updates else ""
    kinds = {
        name: " ".join(f"{kind} {size / 2**20:.1f}" for kind, size in (run.broker_bytes or {}).items() if size)
        for name, run in last.items()
    }
    return [
        f"output records (last repeat{folds}): "
        + ", ".join(f"{name} {run.output_records}" for name, run in last.items()),
        "MB on the broker (last repeat): " + ", ".join(f"{name} {output or '-'}" for name, output in kinds.items()),
        "after a crash, as they say: " + ", ".join(f"{name} {run.guarantee}" for name, run in last.items()),
        f"other processes meanwhile used {min(busy):.2f} to {max(busy):.2f} cores",
    ]


def as_json(all_results: Sequence[Results], machine: dict[str, Any], conditions: dict[str, Any]) -> dict[str, Any]:
    """Everything, for machines and for later."""
    return {
        "benchmark": "versus",
        "machine": machine,
        "conditions": conditions,
        "workloads": {results.workload.name: _one_as_json(results) for results in all_results},
    }


def _one_as_json(results: Results) -> dict[str, Any]:
    measured = results.measured
    return {
        "title": results.workload.title,
        "left_out": dict(results.left_out),
        "wrong": dict(results.wrong),
        "notes": list(results.notes),
        "summary": {
            key: {
                "title": title,
                "spread": {engine: vars(spread) for engine, spread in spreads(measured, metric).items()},
                **{
                    f"ratio_to_{base}": {
                        engine: vars(spread) for engine, spread in paired_ratios(measured, metric, base).items()
                    }
                    for base in BASES
                },
            }
            for key, title, metric in results.metrics
        },
        "runs": [run for one in measured for run in one.as_runs()],
    }
