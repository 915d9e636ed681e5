"""CPU cost per record as lanes, keys, state, records, stores and re-keyings grow: `python benches/scaling/scaling.py`.

Needs an installed StoatFlow, but no Kafka: topics are embedded. Prints, for each series, CPU per record and how it
grows; a model of machines with more cores, with its arithmetic; the same as JSON. Each run is a process of its own; of
several rounds the one with the least CPU counts, since other work on the machine only adds. Slow results don't fail the
run.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import figures
from fits import fit
from model import CORES, Costs, explained
from series import LANES, SERIES
from thread_cpu import COMMIT, INTAKE, ROLES

import stoatflow as sf

HERE = Path(__file__).resolve().parent
# Both jobs end with a sum per user; in the second, Python does the work, one thread at a time.
MODELLED = {"lanes": "native", "lanes-functions": "three Python functions"}
PYTHON = "python"
# Limit of a point; the usual time is seconds.
TIMEOUT_S = 600.0


class PointError(RuntimeError):
    """A point could not be measured."""


def run(name: str, x: int, records: int, lanes: int) -> dict[str, Any]:
    """Measure one point, in a process of its own."""
    command = [sys.executable, str(HERE / "running.py"), name, str(x), str(records), str(lanes)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired as error:
        raise PointError(f"{name} at {x} was not done after {TIMEOUT_S:g} s: take fewer --records") from error
    if done.returncode != 0:
        raise PointError(f"{name} at {x} failed:\n{done.stderr[-2000:]}")
    return {"x": x, **json.loads(done.stdout.splitlines()[-1])}


def least(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the round with the least CPU as a whole: figures of several rounds are not mixed."""
    return dict(min(rounds, key=lambda one: one["cpu_us"]))


def table(name: str, points: Sequence[Mapping[str, Any]]) -> str:
    """Return the series as a table."""
    head = f"{name}: {SERIES[name].title}"
    lines = ["", head, f"{'x':>10}{'CPU us':>9}{'wall us':>9}" + "".join(f"{role:>9}" for role in ROLES) + f"{'MB':>7}"]
    for one in points:
        roles = "".join(f"{one['by_role_us'][role]:9.2f}" for role in ROLES)
        wall = 1e6 / one["records_per_second"]
        lines.append(f"{one['x']:>10,}{one['cpu_us']:>9.2f}{wall:>9.2f}{roles}{one['peak_rss_mb']:>7.0f}")
    if len(points) > 1:
        lines.append(f"  {fit([(one['x'], one['cpu_us']) for one in points])}")
    return "\n".join(lines)


def costs_of(name: str, points: Sequence[Mapping[str, Any]], lanes: int) -> Costs:
    """Return the model's input from a series of lanes: the point with this many lanes, or the nearest measured one.

    The time in functions is that of the point with the fewest lanes, where lanes wait for each other least. It is
    wall-clock time, so it is limited to the lanes' CPU time.
    """
    at = min(points, key=lambda one: abs(one["x"] - lanes))
    roles: Mapping[str, float] = at["by_role_us"]
    serial = {part: roles[part] for part in (INTAKE, COMMIT)}
    if name == "lanes-functions":
        serial[PYTHON] = min(min(points, key=lambda one: one["x"])["functions_us"], roles["lanes"])
    return Costs(serial, max(sum(roles.values()) - sum(serial.values()), 0.0))


def models(found: Mapping[str, Sequence[Mapping[str, Any]]], lanes: int) -> dict[str, Any]:
    """Return, for each modelled job, its costs, the predictions for more cores, and the measurements."""
    given: dict[str, Any] = {}
    cores_here = len(os.sched_getaffinity(0))
    for name, title in MODELLED.items():
        if name not in found:
            continue
        costs = costs_of(name, found[name], lanes)
        at = min(found[name], key=lambda one: abs(one["x"] - lanes))
        given[name] = {
            "serial_us": dict(costs.serial),
            "shared_us": costs.shared,
            "serial_share": costs.serial_share,
            "records_per_second": {
                str(cores): {"in_turn": costs.in_turn(cores), "side_by_side": costs.side_by_side(cores)}
                for cores in CORES
            },
            "measured_here": {"cores": cores_here, "lanes": at["x"], "records_per_second": at["records_per_second"]},
            "arithmetic": explained(f"{title}, {at['x']} lanes", costs, at["records_per_second"], cores_here),
        }
    return given


def machine() -> dict[str, Any]:
    """Describe the machine, without names or paths."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return {
        "cpu": next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown"),
        "cores": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "stoatflow": sf.__version__,
        "date": f"{datetime.now(tz=timezone.utc):%Y-%m-%d}",
        "load": os.getloadavg()[0],
    }


def arguments(given: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", default=",".join(SERIES), help="comma-separated, of: %(default)s")
    parser.add_argument("--records", type=int, default=200_000, help="of a point; fewer where they are large")
    parser.add_argument("--rounds", type=int, default=3, help="the one with the least CPU counts")
    parser.add_argument("--lanes", type=int, default=LANES, help="where they are not what grows, and of the model")
    parser.add_argument("--json", type=Path, help="where JSON goes")
    parser.add_argument(
        "--page", type=Path, help="a page that has a place for the figures, as docs/reference/scaling.md"
    )
    options = parser.parse_args(given)
    options.series = list(dict.fromkeys(options.series.split(",")))
    if unknown := sorted(set(options.series) - set(SERIES)):
        parser.error(f"unknown series {unknown[0]!r}; there are {', '.join(SERIES)}")
    if min(options.records, options.rounds, options.lanes) < 1:
        parser.error("--records, --rounds and --lanes must be at least 1")
    return options


def main() -> int:
    """Measure, print, write."""
    options = arguments()
    # Before the runs: the load at the end would be the benchmark's own.
    began, ran_on = time.monotonic(), machine()
    found: dict[str, list[dict[str, Any]]] = {}
    for name in options.series:
        found[name] = []
        for x in SERIES[name].xs:
            rounds = [run(name, x, options.records, options.lanes) for _ in range(options.rounds)]
            found[name].append(least(rounds))
            print(f"{name} {x:,}: {found[name][-1]['cpu_us']:.2f} us of CPU per record", file=sys.stderr, flush=True)
        print(table(name, found[name]), flush=True)
    modelled = models(found, options.lanes)
    if modelled:
        print("\nA model, not a measurement: what each part costs here, with more cores. Topics are embedded.")
        print(
            "In turn: parts of one thread never run beside anything. Side by side: they do, and no core ever waits.\n"
        )
        print("\n\n".join(one["arithmetic"] for one in modelled.values()))
    print(f"\n{options.records} records, the least of {options.rounds} rounds, {time.monotonic() - began:.0f} s in all")
    written = {
        "benchmark": "scaling",
        "machine": ran_on,
        "conditions": {"records": options.records, "rounds": options.rounds, "lanes": options.lanes},
        "series": found,
        "fits": {
            name: vars(fit([(one["x"], one["cpu_us"]) for one in points]))
            for name, points in found.items()
            if len(points) > 1
        },
        "models": modelled,
    }
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(written, indent=2) + "\n")
        print(f"JSON: {options.json}")
    if options.page:
        figures.put(options.page, written)
        print(f"figures: {options.page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
