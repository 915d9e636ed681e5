"""Filter and enrich events with Polars: `python examples/arrow/polars_enrich.py` (needs stoatflow[arrow] and polars).

A Polars frame uses the batch's columns without a copy, and returns its own in the same way. The column `_row` is
filtered along, so that every row keeps the key of its record.
"""

from __future__ import annotations

from datetime import datetime, timezone

import polars as pl
import pyarrow as pa

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

READINGS = pa.schema(
    [("sensor", pa.string()), ("celsius", pa.float64()), ("at", pa.timestamp("ms", "UTC"))],
)


def warm(batch: pa.RecordBatch) -> pl.DataFrame:
    """Readings above 20 degrees, also in Fahrenheit, with their hour."""
    return (
        pl.DataFrame(batch)
        .filter(pl.col("celsius") > 20)
        .with_columns(fahrenheit=(pl.col("celsius") * 9 / 5 + 32).round(1), hour=pl.col("at").dt.hour())
    )


def build() -> sf.Topology:
    """Readings in, warm readings out."""
    builder = sf.StreamsBuilder()
    builder.stream("readings", key=str, value=dict).map_batches(warm, schema=READINGS).to("warm-readings")
    return builder.build()


topology = build()


def main() -> None:
    """Run a few readings through the topology, in one batch."""
    noon = datetime(2026, 7, 1, 12, tzinfo=timezone.utc)
    with TopologyTestDriver(topology) as driver:
        with driver.epoch():
            readings = driver.input("readings", str, dict)
            for sensor, celsius in (("roof", 31.5), ("cellar", 14.0), ("hall", 21.0)):
                readings.pipe(sensor, {"sensor": sensor, "celsius": celsius, "at": noon.isoformat()})
        for sensor, reading in driver.output("warm-readings", str, dict).read_key_values_to_list():
            assert reading is not None
            print(sensor, reading["fahrenheit"], reading["hour"], reading["at"])


if __name__ == "__main__":
    main()
