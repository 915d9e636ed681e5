"""Work on events as pandas frames: `python examples/arrow/pandas_frames.py` (needs stoatflow[arrow] and pandas).

A missing number in pandas (NaN) is converted back to null, because JSON has no NaN: `pa.RecordBatch.from_pandas` does
that.
"""

from __future__ import annotations

import pandas as pd
import pyarrow as pa

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

VISITS = pa.schema([("page", pa.string()), ("seconds", pa.float64())])


def named(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Visits of the shop, with their duration in words."""
    frame = batch.to_pandas()
    shop = frame[frame["page"].str.startswith("/shop/")].copy()
    shop["length"] = pd.cut(shop["seconds"], [0, 10, 60, float("inf")], labels=["short", "medium", "long"])
    return pa.RecordBatch.from_pandas(shop, preserve_index=False)


def build() -> sf.Topology:
    """Visits in, visits of the shop out."""
    builder = sf.StreamsBuilder()
    builder.stream("visits", key=str, value=dict).map_batches(named, schema=VISITS).to("shop-visits")
    return builder.build()


topology = build()


def main() -> None:
    """Run a few visits through the topology, in one batch."""
    with TopologyTestDriver(topology) as driver:
        with driver.epoch():
            visits = driver.input("visits", str, dict)
            visits.pipe("ann", {"page": "/shop/tea", "seconds": 4})
            visits.pipe("bob", {"page": "/about", "seconds": 90})
            visits.pipe("ann", {"page": "/shop/cups", "seconds": 75.5})
            visits.pipe("cyd", {"page": "/shop/tea"})
        for user, visit in driver.output("shop-visits", str, dict).read_key_values_to_list():
            assert visit is not None
            print(user, visit["page"], visit["seconds"], visit["length"])


if __name__ == "__main__":
    main()
