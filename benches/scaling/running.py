"""Measures one point, in this process: `running.py SERIES X RECORDS LANES`.

Takes the name of a series and its x. Prints a line of JSON: CPU per record, by role of threads, and records per second.
Owns the embedded broker and a temporary folder. Time before RUNNING, and writing the input, is not counted.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from series import PARTITIONS, SERIES, Point
from thread_cpu import cpu_by_role, spent

import stoatflow as sf


def measure(point: Point) -> dict[str, Any]:
    """Fill the stores, write the input, process it."""
    with (
        tempfile.TemporaryDirectory(prefix="stoatflow-scaling-") as folder,
        sf.EmbeddedBroker(f"{folder}/log") as broker,
    ):
        for topic in ("in", "rows", "out"):
            broker.create_topic(topic, PARTITIONS)
        if point.before:
            for topic, rows in point.before:
                broker.produce_many(topic, rows)
            with _application(point, folder, broker) as app:
                _settle(app)
        records = broker.produce_many("in", point.input)
        return _work_off(point, folder, broker, records)


def _work_off(point: Point, folder: str, broker: sf.EmbeddedBroker, records: int) -> dict[str, Any]:
    with _application(point, folder, broker) as app:
        while app.state != sf.State.RUNNING:
            app.wait("2ms")
        whole, threads, began = _cpu(), cpu_by_role(), time.monotonic()
        _settle(app)
        wall = time.monotonic() - began
        roles, cpu = cpu_by_role(), _cpu() - whole
        inside = sum(one["seconds"] for one in app.metrics().get("functions") or [])
    by_role = spent(threads, roles, cpu)
    return {
        "records": records,
        "cpu_us": cpu / records * 1e6,
        "by_role_us": {role: used / records * 1e6 for role, used in by_role.items()},
        "functions_us": inside / records * 1e6,
        "records_per_second": records / wall,
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _application(point: Point, folder: str, broker: sf.EmbeddedBroker) -> sf.StoatFlow:
    builder = sf.StreamsBuilder()
    point.build(builder)
    settings = {
        "application.id": "scaling", "state.dir": f"{folder}/state", "lanes.count": point.lanes, **point.settings,
    }  # fmt: skip
    return sf.StoatFlow(builder.build(), settings, broker=broker)


def _settle(app: sf.StoatFlow) -> None:
    """Wait until all input is committed."""
    while app.state != sf.State.RUNNING or app.lag() > 0:
        if app.wait("5ms"):
            raise RuntimeError("the application stopped by itself: see its log above")


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Run, print."""
    name, x, wanted, lanes = sys.argv[1], *map(int, sys.argv[2:5])
    series = SERIES[name]
    print(json.dumps(measure(series.point(x, series.records(x, wanted), lanes))))


if __name__ == "__main__":
    main()
