"""The suppression example of Kafka Streams' guide: an alert for users that did little in an hour.

Only the final count of a window may raise an alert, so the counts are suppressed until the window closes. `python
examples/kafka_streams/low_count_alerts.py` runs it in the test driver.
"""

from __future__ import annotations

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

HOUR = 3_600_000


def build() -> sf.Topology:
    """Count, wait for the end of the hour and ten minutes for late events, then filter."""
    builder = sf.StreamsBuilder()
    events = builder.stream("events", key=str, value=str)
    (
        events.group_by_key()
        .windowed_by(sf.TimeWindows("1h", grace="10m"))
        .count(store="hourly")
        .suppress(sf.Suppressed.until_window_closes(), name="final-counts")
        .filter(lambda windowed, count: count < 3)
        .to_stream(lambda windowed, count: windowed.key)
        .filter(sf.value.is_not_null())
        .to("alerts", key=str, value=int)
    )
    return builder.build()


topology = build()


def main() -> None:
    """Ann is busy, Bob is not; the late event of the first hour still counts."""
    with TopologyTestDriver(topology) as driver:
        events = driver.input("events", str, str)
        for minute, user in ((1, "ann"), (2, "bob"), (30, "ann"), (62, "cyd"), (59, "ann"), (75, "cyd")):
            events.pipe(user, "click", timestamp=minute * 60_000)
        for record in driver.output("alerts", str, int):
            print(f"{record.key} did only {record.value} in an hour")


if __name__ == "__main__":
    main()
