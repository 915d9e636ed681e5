"""`foreach_batch`: columnar batches to a Python function without results, and the offsets of their rows."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver


def topology(fn: Callable[[Any], object], **options: Any) -> sf.Topology:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=dict).foreach_batch(fn, **options)
    return builder.build()


def test_a_function_gets_columns_and_record_origins() -> None:
    seen: list[pa.RecordBatch] = []
    with TopologyTestDriver(topology(seen.append)) as driver:
        topic = driver.input("in", str, dict)
        with driver.epoch():
            topic.pipe("a", {"n": 1}, timestamp=5)
            topic.pipe("b", {"n": 2}, timestamp=6)
        topic.pipe("a", {"n": 3}, timestamp=7)
    first, second = seen
    first.validate(full=True)
    assert first.schema == pa.schema(
        [
            ("n", pa.int64()),
            ("_key", pa.string()),
            pa.field("_timestamp", pa.timestamp("ms", "UTC"), nullable=False),
            ("_topic", pa.string()),
            ("_partition", pa.int32()),
            ("_offset", pa.int64()),
            pa.field("_row", pa.int64(), nullable=False),
        ]
    )
    assert first.select(["n", "_key", "_topic", "_partition", "_offset"]).to_pylist() == [
        {"n": 1, "_key": "a", "_topic": "in", "_partition": 0, "_offset": 0},
        {"n": 2, "_key": "b", "_topic": "in", "_partition": 0, "_offset": 1},
    ]
    assert second["_offset"].to_pylist() == [2]
    assert second["_row"].to_pylist() == [0]


def test_rows_without_a_source_record_have_no_origin() -> None:
    seen: list[pa.RecordBatch] = []
    builder = sf.StreamsBuilder()
    builder.scheduled("tick", every="10ms").foreach_batch(seen.append)
    with TopologyTestDriver(builder.build()) as driver:
        driver.advance("20ms")
    assert seen
    assert all(
        batch[name].null_count == batch.num_rows for batch in seen for name in ("_topic", "_partition", "_offset")
    )


def test_max_rows_and_a_schema() -> None:
    seen: list[pa.RecordBatch] = []
    schema = pa.schema([("n", pa.float32())])
    with TopologyTestDriver(topology(seen.append, schema=schema, max_rows=2)) as driver, driver.epoch():
        driver.input("in", str, dict).pipe_all((str(n), {"n": n, "m": "x"}) for n in range(5))
    assert [batch.num_rows for batch in seen] == [2, 2, 1]
    assert all(batch.schema.names[0] == "n" and batch.schema.field("n").type == pa.float32() for batch in seen)
    assert "m" not in seen[0].schema.names


def test_results_are_ignored() -> None:
    with TopologyTestDriver(topology(lambda batch: 7)) as driver:
        driver.input("in", str, dict).pipe("a", {"n": 1})
        assert driver.produced_topics == []


def test_the_row_that_failed_is_left_out() -> None:
    seen: list[list[int]] = []

    def keep(batch: pa.RecordBatch) -> None:
        for row, n in enumerate(batch["n"].to_pylist()):
            if n == 2:
                raise sf.RowError(row, "two")
        seen.append(batch["n"].to_pylist())

    with TopologyTestDriver(topology(keep, on_error=sf.DLQ("bad"))) as driver:
        with driver.epoch():
            driver.input("in", str, dict).pipe_all((str(n), {"n": n}) for n in range(4))
        assert driver.output("bad", str, dict).read_values_to_list() == [{"n": 2}]
    assert seen == [[0, 1, 3]]


def test_without_a_handler_the_application_stops() -> None:
    def fail(batch: pa.RecordBatch) -> None:
        raise OSError("the disk is full")

    with (
        TopologyTestDriver(topology(fail)) as driver,
        pytest.raises(sf.ProcessingError, match="the disk is full") as caught,
    ):
        driver.input("in", str, dict).pipe("a", {"n": 1})
    assert "fail" in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)


async def waits(batch: pa.RecordBatch) -> None:
    """Async functions are rejected here."""


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"fn": sf.value["n"]}, "foreach_batch does not take an expression"),
    ({"fn": waits}, "only plain functions"),
    ({"fn": print, "max_rows": 0}, "max_rows=0 must be between"),
    ({"fn": print, "max_rows": 1.5}, "foreach_batch(max_rows=) needs a whole number"),
    ({"fn": print, "max_wait": "0ms"}, "foreach_batch(max_wait=)"),
    ({"fn": print, "schema": pa.schema([("_offset", pa.int64())])}, "'_offset', which is added"),
    ({"fn": print, "schema": pa.schema([("_row", pa.int64())])}, "'_row', which is added"),
    ({"fn": print, "schema": "n"}, "foreach_batch(schema=) needs a pyarrow.Schema"),
]


@pytest.mark.parametrize(("options", "words"), REFUSED)
def test_invalid_arguments_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(sf.TopologyError) as caught:
        topology(**options)
    assert words in str(caught.value)


def test_a_member_with_the_name_of_an_origin_column() -> None:
    with TopologyTestDriver(topology(print)) as driver, pytest.raises(sf.ProcessingError, match="_topic"):
        driver.input("in", str, dict).pipe("a", {"_topic": "x"})
    seen: list[pa.RecordBatch] = []

    def look(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(batch)
        return batch

    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=dict).map_batches(look).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, dict).pipe("a", {"_topic": "x"})
        assert driver.output("out", str, dict).read_value() == {"_topic": "x"}
    assert "_offset" not in seen[0].schema.names


# Each is reached in every epoch.
PLACES = ["lane.barrier", "lane.seal", "commit.before-offsets", "commit.before-commit", "commit.after-apply"]
APPLICATION = """
import pathlib, sys, uuid
import pyarrow as pa, pyarrow.parquet as pq
import stoatflow as sf

folder = pathlib.Path(sys.argv[3])

def write(batch):
    part = folder / f"{uuid.uuid4()}.parquet"
    pq.write_table(pa.table(batch), part.with_suffix(".part"))
    part.with_suffix(".part").rename(part)

builder = sf.StreamsBuilder()
schema = pa.schema([("n", pa.int64())])
builder.stream("in", key=str, value=dict).foreach_batch(write, schema=schema, max_rows=100)
app = sf.StoatFlow(builder.build(), {
    "application.id": "sink", "bootstrap.servers": sys.argv[1], "state.dir": sys.argv[2],
    "lanes.count": int(sys.argv[4]), "commit.min.interval.ms": 1, "in.flight.max.bytes": "64KiB",
})
with app:
    while str(app.state) != "RUNNING" or app.lag():
        if app.wait(0.02):
            break
"""


def test_each_record_is_in_the_files_after_kills_and_its_offset_tells_it(tmp_path: Path) -> None:
    """The sink of docs/guide/arrow.md: records that were written twice have the same offset."""
    chance = random.Random(5)  # noqa: S311  # where it is killed
    path = os.pathsep.join([str(Path(sf.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    files = tmp_path / "files"
    files.mkdir()
    records = 6_000
    with sf.EmbeddedBroker(tmp_path / "broker") as broker:
        broker.create_topic("in", 3)
        broker.produce_many("in", ((None, b"k%d" % (n % 97), b'{"n":%d}' % n, n + 1) for n in range(records)))

    def live(failpoints: str) -> int:
        where = [f"embedded:{tmp_path / 'broker'}", str(tmp_path / "state"), str(files), str(chance.randrange(1, 4))]
        environ = os.environ | {"PYTHONPATH": path, "STOATFLOW_FAILPOINTS": failpoints}
        return subprocess.run(
            [sys.executable, "-c", APPLICATION, *where], env=environ, timeout=60, check=False
        ).returncode

    for place in PLACES:
        assert live(f"{place}=kill@{chance.randrange(1, 4)}") != 0, f"nothing was killed at {place}"
    assert live("") == 0
    table = pa.concat_tables([pq.read_table(file) for file in sorted(files.glob("*.parquet"))])
    assert table.num_rows > records, "nothing was done again, so this tests nothing"
    once = table.group_by(["_topic", "_partition", "_offset"]).aggregate([("n", "min"), ("n", "max")])
    assert once["n_min"].equals(once["n_max"]), "one offset, two records"
    assert sorted(once["n_min"].to_pylist()) == list(range(records))
