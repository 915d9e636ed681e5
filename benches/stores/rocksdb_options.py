"""Effects of the options of `RocksDBConfig`: bytes on disk, reads of missing keys, bytes written by compaction.

Takes the number of rows of JSON. Prints a table, and JSON with --json. One application writes the rows; then it is
restored on an empty disk once for each option, and files and lookups are measured. Compaction is measured while rows
are written, each three times, with little memory. On embedded topics in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import stoatflow as sf

PARTITIONS = 4
LOOKUPS = 20_000
ENOUGH_S = 3_600.0
DICE = random.Random(7)
CITIES = ("Amsterdam", "Berlin", "Lisbon", "Oslo", "Rome", "Vienna")

KEPT = {
    "compression none": sf.RocksDBConfig(compression="none"),
    "compression lz4 (default)": sf.RocksDBConfig(),
    "compression zstd": sf.RocksDBConfig(compression="zstd"),
    "zstd, block_size 16KiB": sf.RocksDBConfig(compression="zstd", block_size="16KiB"),
    "bloom_bits 0": sf.RocksDBConfig(bloom_bits=0),
}


def row(number: int) -> bytes:
    """About 200 bytes of JSON."""
    made = {
        "id": f"{DICE.getrandbits(64):016x}",
        "customer": f"customer-{number % 50_000}",
        "city": DICE.choice(CITIES),
        "amount": round(DICE.random() * 1_000, 2),
        "placed_at": 1_790_000_000_000 + number * 37,
        "items": [{"sku": f"sku-{DICE.randrange(10_000)}", "count": DICE.randrange(1, 9)} for _ in range(2)],
    }
    return json.dumps(made).encode()


def rows(count: int) -> Iterator[tuple[int, bytes, bytes, int]]:
    """Return a record for each key, in pseudo-random order. Between two keys is one that doesn't exist."""
    numbers = list(range(count))
    DICE.shuffle(numbers)
    for number in numbers:
        yield (number % PARTITIONS, f"order-{number * 2:010}".encode(), row(number), 0)


def application(
    broker: sf.EmbeddedBroker, name: str, state: Path, config: sf.RocksDBConfig, memory: str
) -> sf.StoatFlow:
    """Keep the topic as a table."""
    builder = sf.StreamsBuilder()
    builder.table("docs", key=str, value=dict, store=sf.Materialized("docs", rocksdb=config))
    settings = {"application.id": name, "state.dir": str(state), "state.memory.max.bytes": memory}
    return sf.StoatFlow(builder.build(), sf.Settings(settings, environ={}), broker=broker)


def settled(app: sf.StoatFlow) -> None:
    """Wait until everything is committed and compacted."""
    end = time.monotonic() + ENOUGH_S
    while True:
        if app.wait(timeout=0.2):
            raise RuntimeError("StoatFlow stopped by itself: see its log above")
        if app.state is sf.State.RUNNING and app.lag() == 0:
            reported = figures(app)
            if not reported["running_compactions"] and not reported["running_flushes"]:
                return
        if time.monotonic() > end:
            raise RuntimeError("it took too long: give smaller numbers")


def figures(app: sf.StoatFlow) -> dict[str, float]:
    """Return RocksDB's metrics from the admin port."""
    with urlopen(f"{app.admin_url}metrics") as answer:  # noqa: S310  # our own port
        text = answer.read().decode()
    found: dict[str, float] = {}
    for name, number in re.findall(r"^stoatflow_(?:rocksdb_|store_)(\w+)(?:\{[^}]*\})? (\S+)", text, re.MULTILINE):
        short = name.removesuffix("_total")
        found[short] = found.get(short, 0.0) + float(number)
    return found


def fresh_figures(app: sf.StoatFlow) -> dict[str, float]:
    """Return current metrics: a page may contain the values of the previous one."""
    figures(app)
    time.sleep(1.0)
    return figures(app)


def restored(broker: sf.EmbeddedBroker, state: Path, config: sf.RocksDBConfig, count: int) -> dict[str, float]:
    """Restore the table, and look up keys that don't exist."""
    with application(broker, "filled", state, config, "256MiB") as app:
        settled(app)
        store = app.store("docs")
        assert store.count() == count
        before = fresh_figures(app)
        for _ in range(LOOKUPS):
            assert store.get(f"order-{DICE.randrange(count) * 2 + 1:010}") is None
        after = fresh_figures(app)
    blocks = after["block_reads"] - before["block_reads"]
    return {
        "megabytes": before["disk_bytes"] / 1e6,
        "blocks_per_missing_key": blocks / LOOKUPS,
    }


def merged(broker: sf.EmbeddedBroker, state: Path, style: str) -> dict[str, float]:
    """Read the rows, and return the bytes written by compaction."""
    config = sf.RocksDBConfig(compaction="universal" if style == "universal" else "level")
    with application(broker, style, state, config, "16MiB") as app:
        settled(app)
        reported = fresh_figures(app)
    written = reported["flushed_bytes"] + reported["compaction_written_bytes"]
    return {"written_megabytes": written / 1e6, "megabytes": reported["disk_bytes"] / 1e6}


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="stoatflow-rocksdb-") as name:
        folder = Path(name)
        with sf.EmbeddedBroker(folder / "broker") as broker:
            broker.create_topic("docs", PARTITIONS)
            broker.produce_many("docs", rows(asked.rows))
            with application(broker, "filled", folder / "filled", sf.RocksDBConfig(), "256MiB") as app:
                settled(app)
            for at, (title, config) in enumerate(KEPT.items()):
                found[title] = restored(broker, folder / f"state-{at}", config, asked.rows)
            for _ in range(2):
                broker.produce_many("docs", rows(asked.rows))
            for style in ("level", "universal"):
                found[f"compaction {style}"] = merged(broker, folder / style, style)
    for title, reported in found.items():
        print(f"{title:28}", "  ".join(f"{what} {number:.2f}" for what, number in reported.items()))
    if asked.json is not None:
        asked.json.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
