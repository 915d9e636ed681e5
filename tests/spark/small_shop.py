"""The shop without its windows, its records, and the engine's results; topics as folders.

Each stateful part is one more worker to start.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import shop_twin

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = (
    "key binary, value binary, timestamp long, headers array<struct<key: string, value: binary>>, order long, "
    "partition int"
)
SINKS = ("large", "per-region")


class Files:
    """Topics as folders: records that are written together are read by one trigger."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.written = 0

    def write(self, topic: str, rows: list[tuple[Any, ...]]) -> None:
        frame = self.spark.createDataFrame(rows, SCHEMA).coalesce(1)
        path = self.folder / f"{self.written}"
        self.written += 1
        frame.write.parquet(str(path))
        target = self.folder / topic
        target.mkdir(exist_ok=True)
        (file,) = path.glob("*.parquet")
        file.rename(target / f"{self.written}.parquet")

    def read(self, topic: str) -> DataFrame:
        (self.folder / topic).mkdir(exist_ok=True)
        files = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return files.parquet(str(self.folder / topic))


def orders(first: int, count: int) -> list[tuple[Any, ...]]:
    amounts = (json.dumps({"amount": n * 7 % 100}).encode() for n in range(first, first + count))
    return [(f"user-{n % 7}".encode(), amount, 4_000 * n, None, 100 + n, 0) for n, amount in enumerate(amounts, first)]


def users() -> list[tuple[Any, ...]]:
    regions = (json.dumps({"region": ("north", "south")[n % 2]}).encode() for n in range(6))
    return [(f"user-{n}".encode(), region, 0, None, n, 0) for n, region in enumerate(regions)]


def shop() -> sf.Topology:
    builder = sf.StreamsBuilder()
    regions = builder.table("users", key=str, value=dict, store="users-table")
    given = builder.stream("orders", key=str, value=dict)
    given.filter(sf.value["amount"] >= 50).to("large", key=str, value=dict)
    with_region = given.join(regions, lambda order, user: {"amount": order["amount"], "region": user["region"]})
    by_region = with_region.group_by(lambda _, order: order["region"], grouped=sf.Grouped(key=str, value=dict))
    totals = by_region.aggregate(
        lambda: 0, lambda _, order, total: total + order["amount"], store=shop_twin.total_store()
    )
    totals.to_stream().to("per-region", key=str, value=int)
    return builder.build()


def by_the_engine() -> dict[str, list[tuple[bytes | None, bytes | None, int]]]:
    """An application's results for the same records."""
    with TopologyTestDriver(shop(), {"statestore.cache.max.bytes": 0}) as driver:
        for topic, rows in (("users", users()), ("orders", orders(0, 60))):
            given = driver.input(topic)
            for key, value, timestamp, *_ in rows:
                given.pipe(key, value, timestamp=timestamp)
        return {topic: [(r.key, r.value, r.timestamp) for r in driver.output(topic).read_all()] for topic in SINKS}


def per_key(rows: list[tuple[bytes | None, bytes | None, int]]) -> dict[bytes | None, list[tuple[bytes | None, int]]]:
    found: dict[bytes | None, list[tuple[bytes | None, int]]] = {}
    for key, value, timestamp in rows:
        found.setdefault(key, []).append((value, timestamp))
    return found
