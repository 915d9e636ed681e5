"""Readings of devices that go silent: windows that close by event time, or by the clock when no records arrive.

The mean of each minute is emitted once, when the minute is over. A topic that falls silent would hold its last minute
back forever; `close_when_idle` emits it after a while, and records that are too late for it are written to a topic of
their own. `python examples/jobs/iot_windows.py` runs it in the test driver.
"""

from __future__ import annotations

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

MINUTE = 60_000
BY_MINUTE = sf.Serdes.time_windowed(str, "1m")


def build() -> sf.Topology:
    """Readings in, one mean per device and minute out."""
    builder = sf.StreamsBuilder()
    readings = builder.stream("readings", key=str, value=float, late=sf.DLQ("late-readings"))
    minutes = sf.TimeWindows("1m", grace="10s", close_when_idle="30s")
    means = (
        readings.group_by_key()
        .windowed_by(minutes)
        .emit_strategy(sf.EmitStrategy.on_window_close())
        .aggregate(sf.avg(sf.value), store="minutes")
    )
    means.to_stream().to("means", key=BY_MINUTE, value=float)
    return builder.build()


topology = build()


def main() -> None:
    """Two minutes of readings, then silence."""
    with TopologyTestDriver(topology) as driver:
        readings = driver.input("readings", str, float)
        for second, degrees in ((0, 20.0), (30, 22.0), (65, 23.0), (75, 25.0)):
            readings.pipe("cellar", degrees, timestamp=second * 1000)
        show(driver, "by the time of its records")
        driver.advance("1m")
        show(driver, "because nothing comes")
        readings.pipe("cellar", 99.0, timestamp=80_000)
        print("late:", [record.value for record in driver.output("late-readings", str, float)])


def show(driver: TopologyTestDriver, why: str) -> None:
    """Print new results."""
    for mean in driver.output("means", BY_MINUTE, sf.Serdes.double()):
        assert mean.key is not None
        print(f"minute {mean.key.window.start // MINUTE}: {mean.value} ({why})")


if __name__ == "__main__":
    main()
