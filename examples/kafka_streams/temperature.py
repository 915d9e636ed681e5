"""Kafka Streams' `TemperatureDemo`: the highest temperature of every five seconds, if it is above 20.

`python examples/kafka_streams/temperature.py` runs it in the test driver.
"""

from __future__ import annotations

import stoatflow as sf
from stoatflow import Windowed
from stoatflow.testing import TopologyTestDriver


def build() -> sf.Topology:
    """One key for all readings, windows of five seconds, the maximum of each."""
    builder = sf.StreamsBuilder()
    readings = builder.stream("iot-temperature", key=str, value=int)
    highest = (
        readings.select_key(sf.lit("temp"))
        .group_by_key(key=str, value=int)
        .windowed_by(sf.TimeWindows("5s", grace="0s"))
        .reduce(max, store="highest")
    )
    highest.to_stream().filter(lambda windowed, value: value > 20).to(
        "iot-temperature-max", key=sf.Serdes.time_windowed(str, "5s"), value=int
    )
    return builder.build()


topology = build()


def show(windowed: Windowed[str], value: int | None) -> str:
    """One line per update."""
    return f"[{windowed.window.start}, {windowed.window.end}) {value}"


def main() -> None:
    """Five readings, eleven seconds."""
    with TopologyTestDriver(topology) as driver:
        readings = driver.input("iot-temperature", str, int)
        for second, degrees in ((0, 19), (1, 25), (4, 22), (6, 17), (11, 31)):
            readings.pipe("sensor", degrees, timestamp=second * 1000)
        for record in driver.output("iot-temperature-max", sf.Serdes.time_windowed(str, "5s"), sf.Serdes.int64()):
            assert record.key is not None
            print(show(record.key, record.value))


if __name__ == "__main__":
    main()
