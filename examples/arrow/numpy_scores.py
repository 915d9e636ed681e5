"""Score events with NumPy, many at a time: `python examples/arrow/numpy_scores.py` (needs stoatflow[arrow] and numpy).

The model is a line through known prices, fitted when the program starts. Each batch of flats is scored in a few calls
of NumPy; flats that are cheap for their size are passed on, with their score.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

KNOWN_SIZES = np.array([30.0, 50.0, 70.0, 90.0, 110.0])
KNOWN_PRICES = np.array([155.0, 245.0, 355.0, 445.0, 555.0])
SLOPE, START = np.polyfit(KNOWN_SIZES, KNOWN_PRICES, 1)

FLATS = pa.schema([("size", pa.float64()), ("price", pa.float64())])


def cheap(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows that cost less than nine tenths of the expected price, with that price."""
    sizes = batch["size"].to_numpy(zero_copy_only=False)
    prices = batch["price"].to_numpy(zero_copy_only=False)
    expected = SLOPE * sizes + START
    kept = prices < 0.9 * expected
    columns = {"size": sizes, "price": prices, "expected": expected.round(1), "_row": np.arange(len(sizes))}
    return pa.record_batch({name: pa.array(column[kept]) for name, column in columns.items()})


def build() -> sf.Topology:
    """Flats in, cheap flats out."""
    builder = sf.StreamsBuilder()
    builder.stream("flats", key=str, value=dict).map_batches(cheap, schema=FLATS, max_rows=4096).to("cheap-flats")
    return builder.build()


topology = build()


def main() -> None:
    """Run a few flats through the topology, in one batch."""
    with TopologyTestDriver(topology) as driver:
        with driver.epoch():
            flats = driver.input("flats", str, dict)
            flats.pipe("canal street", {"size": 60, "price": 320})
            flats.pipe("mill lane", {"size": 60, "price": 250})
            flats.pipe("park view", {"size": 100, "price": 420})
        for street, flat in driver.output("cheap-flats", str, dict).read_key_values_to_list():
            assert flat is not None
            print(f"{street}: {flat['price']} instead of {flat['expected']}")


if __name__ == "__main__":
    main()
