"""Pictures of results: `charts.py RESULT.json... --charts FOLDER`; `--check` compares them with the results.

Takes the JSON of `versus.py` or `latency.py`; writes SVG files, a picture for each axis. Defines the axes and the file
names. Draws only figures of the results.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from bars import Bar, Group, grouped

KSTREAMS = "kstreams"
AXES = {
    "cpu_per_million": "CPU seconds per million records",
    "marginal_cpu_per_million": "CPU seconds per million records, without the start",
    "peak_rss_mb": "Peak memory, MB",
    "steady_rss_mb": "Memory in the second half of the work, MB",
    "records_per_second": "Records per second, start included",
    "bytes_per_record": "Bytes on the broker per record",
}
QUANTILES = {"50": "P50", "99": "P99"}
COSTS = {"cpu_per_million": "CPU s per million records", "peak_rss_mb": "Peak RSS until the end of the rate, MB"}
ABOUT = "Medians; lines: what repeats differ by; 0.50x: the ratio to Kafka Streams. Each group has a scale of its own."


def pictures(found: Mapping[str, Any]) -> dict[str, str]:
    """File names and pictures of one result."""
    kinds = {"versus": _of_versus, "latency": _of_latency}
    kind = found.get("benchmark")
    if kind not in kinds:
        raise ValueError(f"there are no pictures of {kind!r}, only of {' and '.join(kinds)}")
    return {f"{kind}-{name}.svg": svg for name, svg in kinds[kind](found).items()}


def write(found: Mapping[str, Any], folder: Path) -> list[Path]:
    """Write the pictures; those without figures in the result are left out."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, svg in pictures(found).items():
        files.append(folder / name)
        files[-1].write_text(svg, encoding="utf-8")
    return files


def stale(found: Mapping[str, Any], folder: Path) -> list[str]:
    """Return the names of pictures that are missing, or differ from what would be drawn now."""
    made = pictures(found).items()
    return [name for name, svg in made if not (folder / name).is_file() or (folder / name).read_text("utf-8") != svg]


def _of_versus(found: Mapping[str, Any]) -> dict[str, str]:
    drawn = {}
    for axis, title in AXES.items():
        groups = [
            Group(f"{name}  {output['title']}", bars)
            for name, output in found["workloads"].items()
            if (bars := bars_of(output, axis))
        ]
        if groups:
            drawn[axis.replace("_", "-")] = grouped(title, ABOUT, groups)
    return drawn


def bars_of(workload: Mapping[str, Any], axis: str) -> tuple[Bar, ...]:
    """The engines of a workload on one axis."""
    summary = workload["summary"].get(axis, {})
    ratios = summary.get(f"ratio_to_{KSTREAMS}", {})
    return tuple(
        Bar(engine, one["median"], one["low"], one["high"], ratios.get(engine, {}).get("median"))
        for engine, one in sorted(summary.get("spread", {}).items(), key=lambda pair: place(pair[0]))
    )


def place(engine: str) -> tuple[int, str]:
    """Sort key: Kafka Streams first, then the usual order; the order of the runs changes with the repeats."""
    order = (KSTREAMS, "native", "arrow", "lambda", "handwritten", "bare", "bare-plain")
    return (order.index(engine), "") if engine in order else (len(order), engine)


def _of_latency(found: Mapping[str, Any]) -> dict[str, str]:
    drawn = {}
    for quantile, name in QUANTILES.items():
        groups = latency_groups(found, quantile)
        if groups:
            drawn[name.lower()] = grouped(f"{name} of the latency, milliseconds", ABOUT, groups)
    return drawn


def latency_groups(found: Mapping[str, Any], quantile: str) -> list[Group]:
    """A group for each workload and rate."""
    return _rate_groups(found, lambda run: float(run["quantiles_ms"][quantile]))


def cost_groups(found: Mapping[str, Any], cost: str) -> list[Group]:
    """A group per workload and rate, with one cost; empty for results from before it was measured."""
    there = all(run.get(cost) is not None for run in found["runs"])
    return _rate_groups(found, lambda run: float(run[cost])) if there else []


def _rate_groups(found: Mapping[str, Any], figure: Callable[[Mapping[str, Any]], float]) -> list[Group]:
    runs, groups = found["runs"], []
    for workload, rate in dict.fromkeys((run["workload"], run["rate"]) for run in runs):
        at = [run for run in runs if (run["workload"], run["rate"]) == (workload, rate)]
        groups.append(Group(f"{workload}  {rate:g} records a second", _rate_bars(at, figure)))
    return groups


def ready_groups(found: Mapping[str, Any]) -> list[Group]:
    """A group per workload: time until engines ran; empty for results from before it was measured."""
    groups = []
    for workload in dict.fromkeys(run["workload"] for run in found["runs"]):
        # All rates belong to one process.
        starts = {(run["engine"], run["repeat"]): run.get("ready_seconds") for run in found["runs"]
                  if run["workload"] == workload}  # fmt: skip
        if None in starts.values():
            continue
        base = {repeat: seconds for (engine, repeat), seconds in starts.items() if engine == KSTREAMS}
        groups.append(Group(workload, _paired(starts, base, {})))
    return groups


def _rate_bars(runs: list[Mapping[str, Any]], figure: Callable[[Mapping[str, Any]], float]) -> tuple[Bar, ...]:
    values = {(run["engine"], run["repeat"]): figure(run) for run in runs}
    # An engine that did not keep up is no base for ratios.
    base = {run["repeat"]: figure(run) for run in runs if run["engine"] == KSTREAMS and not run["missing"]}
    missing: Counter[str] = Counter()
    for run in runs:
        missing[run["engine"]] += run["missing"]
    notes = {engine: f"{count} missing: did not keep up" for engine, count in missing.items() if count}
    return _paired(values, base, notes)


def _paired(
    values: Mapping[tuple[str, int], float], base: Mapping[int, float], notes: Mapping[str, str]
) -> tuple[Bar, ...]:
    """A bar per engine from its values by repeat; ratios to the base's value of the same repeat."""
    bars = []
    for engine in sorted({engine for engine, _ in values}, key=place):
        own = {repeat: value for (one, repeat), value in values.items() if one == engine}
        ratios = [value / base[repeat] for repeat, value in own.items() if base.get(repeat)]
        ratio = statistics.median(ratios) if ratios and engine != KSTREAMS else None
        spread = own.values()
        bars.append(Bar(engine, statistics.median(spread), min(spread), max(spread), ratio, notes.get(engine, "")))
    return tuple(bars)


def main() -> int:
    """Write, or compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path, nargs="+", help="JSON of versus.py or latency.py")
    parser.add_argument("--charts", type=Path, required=True, help="the folder of the pictures")
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 if one is another")
    options = parser.parse_args()
    old: list[str] = []
    for file in options.results:
        found = json.loads(file.read_text("utf-8"))
        if options.check:
            old += stale(found, options.charts)
        else:
            for made in write(found, options.charts):
                print(made)
    for name in old:
        print(f"{name} is not what its result gives: write it again without --check", file=sys.stderr)
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
