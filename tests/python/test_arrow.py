"""`map_batches`: columnar batches to a Python function and back, through the engine."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

ORDERS = [{"user": "ann", "amount": 250}, {"user": "bob", "amount": 20}, {"user": "cyd", "amount": 900}]


def topology(fn: Callable[[Any], Any], *, value: Any = dict, out: Any = dict, **options: Any) -> sf.Topology:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=value).map_batches(fn, **options).to("out", value=out)
    return builder.build()


def run(
    fn: Callable[[Any], Any], values: list[Any], *, value: Any = dict, out: Any = dict, lanes: int = 1, **options: Any
) -> list[Any]:
    """Values of the results, for records with the keys 0, 1, 2... in one epoch."""
    with TopologyTestDriver(topology(fn, value=value, out=out, **options), lanes=lanes) as driver:
        with driver.epoch():
            driver.input("in", str, value).pipe_all([(str(at), value) for at, value in enumerate(values)])
        return driver.output("out", str, out).read_values_to_list()


def test_a_function_sees_a_pyarrow_batch_and_its_columns() -> None:
    seen: list[pa.RecordBatch] = []

    def look(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(batch)
        return batch

    assert run(look, ORDERS) == ORDERS
    (batch,) = seen
    assert isinstance(batch, pa.RecordBatch)
    batch.validate(full=True)
    assert batch.schema == pa.schema(
        [
            ("user", pa.string()),
            ("amount", pa.int64()),
            ("_key", pa.string()),
            pa.field("_timestamp", pa.timestamp("ms", "UTC"), nullable=False),
            pa.field("_row", pa.int64(), nullable=False),
        ]
    )
    assert batch.column("_key").to_pylist() == ["0", "1", "2"]


def double(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"user": batch["user"], "twice": pc.multiply(batch["amount"], 2)})


def test_a_row_for_each_row() -> None:
    assert run(double, ORDERS) == [{"user": o["user"], "twice": 2 * int(str(o["amount"]))} for o in ORDERS]


def test_rows_that_are_dropped_keep_their_keys() -> None:
    def large(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pc.greater(batch["amount"], 100))

    with TopologyTestDriver(topology(large)) as driver:
        with driver.epoch():
            for at, order in enumerate(ORDERS):
                driver.input("in", str, dict).pipe(f"k{at}", order, timestamp=at + 5)
        records = driver.output("out", str, dict).read_all()
    assert [(r.key, r.value["user"], r.timestamp) for r in records] == [("k0", "ann", 5), ("k2", "cyd", 7)]


def test_a_key_does_not_change_in_a_batch() -> None:
    def renamed(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.set_column(batch.schema.get_field_index("_key"), "_key", pa.array(["x", "y", "z"]))

    def later(batch: pa.RecordBatch) -> pa.RecordBatch:
        at = batch.schema.get_field_index("_timestamp")
        moved = pc.add(pc.cast(batch["_timestamp"], pa.int64()), 1)
        return batch.set_column(at, "_timestamp", pc.cast(moved, pa.timestamp("ms", "UTC")))

    def upside_down(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.take([2, 1, 0]).drop_columns("_row")

    for fn, output in (
        (renamed, "another '_key' in its row 0 than the row 0 of the batch .* change it with select_key"),
        (later, "another '_timestamp' in its row 0 .* change it with a processor"),
        (upside_down, "another '_key' in its row 0 .* keep '_row' where rows change places"),
    ):
        with pytest.raises(sf.ProcessingError, match=output):
            run(fn, ORDERS)


def test_rows_may_be_repeated() -> None:
    def twice(batch: pa.RecordBatch) -> pa.Table:
        return pa.table(batch).take(sorted([*range(batch.num_rows)] * 2))

    assert [row["user"] for row in run(twice, ORDERS)] == ["ann", "ann", "bob", "bob", "cyd", "cyd"]


def test_a_table_of_several_pieces_and_one_of_none() -> None:
    def pieces(batch: pa.RecordBatch) -> pa.Table:
        return pa.Table.from_batches([batch.slice(0, 1), batch.slice(1)])

    def nothing(batch: pa.RecordBatch) -> pa.Table:
        return pa.Table.from_batches([], schema=batch.schema)

    assert run(pieces, ORDERS) == ORDERS
    assert run(nothing, ORDERS) == []


def test_objects_with_only_the_arrow_protocol_are_accepted() -> None:
    class Mine:
        def __init__(self, batch: pa.RecordBatch) -> None:
            self.batch = batch

        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            return pa.table(self.batch).__arrow_c_stream__(requested_schema)

    assert run(Mine, ORDERS) == ORDERS


def test_plain_values() -> None:
    def upper(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"value": pc.utf8_upper(batch["value"])})

    assert run(upper, ["a", "b"], value=str, out=str) == ["A", "B"]

    def halves(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch({"half": pc.divide(pc.cast(batch["value"], pa.float64()), 2.0)})

    assert run(halves, [3], value=int) == [{"half": 1.5}]


def test_python_objects_of_an_operator_before_it() -> None:
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=str).map_values(lambda text: {"text": text})
    stream.map_batches(lambda batch: batch).map_values(lambda value: value["text"]).to("out", value=str)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, str).pipe("k", "x")
        assert driver.output("out", str, str).read_value() == "x"


def test_a_schema_makes_the_columns() -> None:
    seen: list[pa.Schema] = []
    schema = pa.schema(
        [
            ("amount", pa.float32()),
            ("at", pa.timestamp("us", "UTC")),
            ("day", pa.date32()),
            ("tags", pa.list_(pa.string())),
            ("user", pa.struct([("name", pa.large_string()), ("age", pa.uint8())])),
        ]
    )

    def look(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(batch.schema)
        return batch

    order = {
        "amount": 1,
        "at": "2026-01-31T12:00:00+01:00",
        "day": "2026-01-31",
        "tags": ["a", None],
        "user": {"name": "ann", "more": 1},
        "unread": [{}],
    }
    assert run(look, [order], schema=schema) == [
        {
            "amount": 1.0,
            "at": "2026-01-31T11:00:00Z",
            "day": "2026-01-31",
            "tags": ["a", None],
            "user": {"name": "ann", "age": None},
        }
    ]
    assert [field for field in seen[0] if not field.name.startswith("_")] == list(schema)


def test_batches_are_cut_by_max_rows_and_end_with_the_epoch() -> None:
    sizes: list[int] = []

    def count(batch: pa.RecordBatch) -> pa.RecordBatch:
        sizes.append(batch.num_rows)
        return batch

    assert len(run(count, ORDERS * 3, max_rows=4)) == 9
    assert sizes == [4, 4, 1]


def test_keys_keep_their_order_with_several_lanes() -> None:
    values = [{"n": n} for n in range(500)]
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=dict).map_batches(lambda batch: batch, max_rows=7).to("out")
    with TopologyTestDriver(builder.build(), lanes=4) as driver:
        with driver.epoch():
            driver.input("in", str, dict).pipe_all([(f"k{value['n'] % 13}", value) for value in values])
        by_key: dict[str, list[int]] = {}
        for record in driver.output("out", str, dict).read_all():
            by_key.setdefault(str(record.key), []).append(record.value["n"])
    assert sum(map(len, by_key.values())) == 500
    assert all(numbers == sorted(numbers) for numbers in by_key.values())


def test_a_crash_loses_nothing_of_what_was_collected() -> None:
    with TopologyTestDriver(topology(lambda batch: batch, max_rows=100)) as driver:
        with driver.epoch():
            driver.input("in", str, dict).pipe_all([("k", order) for order in ORDERS])
            driver.crash()
        driver.restart(lanes=3)
        assert driver.output("out", str, dict).read_values_to_list() == ORDERS


def test_an_exception_names_function_node_and_first_record() -> None:
    def broken(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise ValueError("no model")

    with TopologyTestDriver(topology(broken, name="score")) as driver:
        with pytest.raises(sf.ProcessingError, match="raised ValueError: no model") as caught:
            driver.input("in", str, dict).pipe("k", ORDERS[0])
        reported = caught.value
    assert isinstance(reported.__cause__, ValueError)
    assert reported.coordinates["node"] == "score"
    assert reported.coordinates["offset"] == 0
    assert "test_arrow.py" in reported.coordinates["function"]


def test_a_row_error_affects_only_its_record() -> None:
    def check(batch: pa.RecordBatch) -> pa.RecordBatch:
        for row, amount in enumerate(batch["amount"].to_pylist()):
            if amount < 100:
                raise sf.RowError(row, f"{amount} is too little")
        return batch

    letters = sf.DLQ("letters")
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=dict).map_batches(check, on_error=letters).to("out")
    with TopologyTestDriver(builder.build()) as driver:
        with driver.epoch():
            driver.input("in", str, dict).pipe_all([(order["user"], order) for order in ORDERS])
        assert [value["user"] for value in driver.output("out", str, dict).read_values_to_list()] == ["ann", "cyd"]
        letter = driver.output("letters", str, dict).read()
    assert letter.key == "bob"
    headers = {name.rpartition(".")[2]: text for name, text in letter.headers}
    assert headers["message"] == b"20 is too little"
    assert headers["exception"].endswith(b"RowError")


def test_records_that_do_not_fit_are_left_out_one_by_one() -> None:
    values = [{"n": 1}, {"n": "x"}, {"n": 2}, {"n": 3, "m": 1}]
    seen = run(lambda batch: batch.select(["n", "_row"]), values, on_error=sf.log_and_continue())
    assert seen == [{"n": 1}, {"n": 2}, {"n": 3}]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda batch: None, "must return columns, it returned NoneType"),
        (lambda batch: batch.to_pylist(), "must return columns, it returned list"),
        (lambda batch: batch["amount"], "an array of Int64, and no batch of columns"),
        (lambda batch: pa.record_batch({"x": [1]}), "gave 1 rows for 3, and no column '_row'"),
        (lambda batch: batch.take(pa.array([1, 0])), "records of one key would change places"),
        (lambda batch: pa.record_batch({"x": [1.0, float("nan"), 2.0]}), "holds the number NaN"),
    ],
)  # fmt: skip
def test_wrong_results_of_functions_are_refused(given: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(sf.ProcessingError, match=message):
        run(given, ORDERS)


def test_invalid_arguments_are_refused_at_build() -> None:
    def refused(match: str, fn: Any = double, **options: Any) -> None:
        with pytest.raises(sf.StoatFlowError, match=match):
            topology(fn, **options)

    refused("does not take an expression", sf.value)
    refused(r"calls its function with \(batch\)", lambda key, batch: batch)

    async def later(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch

    refused("async", later)
    refused("max_rows=0 must be between 1 and", max_rows=0)
    refused("needs a whole number, not '5'", max_rows="5")
    refused(r"map_batches\(max_wait=\)", max_wait="0s")
    refused("by_row='_key' must be a name of its own", by_row="_key")
    refused("needs a pyarrow.Schema, not int", schema=3)
    refused("column 'a.t' of type time64", schema=pa.schema([("a", pa.struct([("t", pa.time64("us"))]))]))
    refused("column '_row', which is added", schema=pa.schema([("_row", pa.int64()), ("a", pa.int64())]))
    refused("has the column 'a' twice", schema=pa.schema([("a", pa.int64()), ("a", pa.string())]))
    builder = sf.StreamsBuilder()
    builder.table("t", key=str, value=dict, store="t").to_stream().map_batches(double).to("out")
    builder.build()


def test_a_missing_pyarrow_says_what_to_install(tmp_path: Path) -> None:
    program = """
import sys
sys.modules["pyarrow"] = None
import stoatflow as sf
try:
    sf.StreamsBuilder().stream("in", value=dict).map_batches(lambda batch: batch)
except sf.TopologyError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "pyarrow's, which is not installed" in done.stdout
    assert "pip install 'stoatflow[arrow]'" in done.stdout


def test_building_a_topology_without_batches_loads_no_pyarrow() -> None:
    program = """
import sys
import stoatflow as sf
builder = sf.StreamsBuilder()
builder.stream("in", value=dict).filter(sf.value["a"] > 1).to("out")
builder.build()
assert "pyarrow" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_running_application() -> None:
    """Threads, lanes, real commits: nothing is lost or duplicated, and keys keep their order."""
    lock = threading.Lock()
    sizes: list[int] = []

    def tell(batch: pa.RecordBatch) -> pa.RecordBatch:
        with lock:
            sizes.append(batch.num_rows)
        return batch

    records = 20_000
    with sf.EmbeddedBroker() as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic, 3)
        rows = ((None, b"key-%d" % (n % 101), json.dumps({"n": n}).encode(), n + 1) for n in range(records))
        broker.produce_many("in", rows)
        settings = {"application.id": "batches-run", "lanes.count": 3}
        with sf.StoatFlow(topology(tell, max_rows=256), settings, broker=broker) as app:
            while app.state != sf.State.RUNNING or app.lag() > 0:
                app.wait("20ms")
        by_key: dict[bytes, list[int]] = {}
        for record in broker.read("out"):
            by_key.setdefault(record.key or b"", []).append(json.loads(record.value or b"")["n"])
    assert sorted(n for numbers in by_key.values() for n in numbers) == list(range(records))
    assert all(numbers == sorted(numbers) for numbers in by_key.values())
    assert sum(sizes) == records
    assert max(sizes) == 256


@pytest.mark.parametrize("whole", [lambda batch: batch, lambda batch: pa.Table.from_batches([batch])])
def test_a_malformed_column_fails_its_batch(whole: Callable[[Any], Any]) -> None:
    """A text view of bytes is created without checking them, so nothing may read them as text."""

    def bend(batch: pa.RecordBatch) -> Any:
        text = batch["value"].view(pa.string())
        return whole(pa.record_batch({"value": text, "_row": batch["_row"]}))

    def deep(batch: pa.RecordBatch) -> Any:
        text = batch["value"].view(pa.string())
        lists = pa.ListArray.from_arrays(pa.array([*range(len(text) + 1)], pa.int32()), text.dictionary_encode())
        return whole(pa.record_batch({"value": lists, "_row": batch["_row"]}))

    for fn, out in ((bend, str), (deep, dict)):
        with pytest.raises(sf.ProcessingError, match="not of its type"):
            run(fn, [b"good", b"\xff"], value=bytes, out=out)
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=bytes)
    stream.map_batches(bend, on_error=sf.DLQ("bad")).to("out", value=str)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, bytes).pipe_all([("a", b"good"), ("b", b"\xff")])
        assert driver.output("out", str, str).read_values_to_list() == ["good"]
        assert driver.output("bad", str, bytes).read_value() == b"\xff"


def test_null_rows_are_refused_in_every_form() -> None:
    def rows(batch: pa.RecordBatch) -> Any:
        columns = [batch["amount"], batch["_row"]]
        mask = pa.array([False, True, False])
        return pa.StructArray.from_arrays(columns, names=["amount", "_row"], mask=mask)

    for fn in (rows, lambda batch: pa.chunked_array([rows(batch)])):
        with pytest.raises(sf.ProcessingError, match="null as a whole"):
            run(fn, ORDERS)
    with pytest.raises(sf.ProcessingError, match="an array of Int64, and no batch"):
        run(lambda batch: pa.chunked_array([batch["amount"]]), ORDERS)


def test_its_calls_are_counted(tmp_path: Path) -> None:
    config = {"application.id": "counted", "state.dir": str(tmp_path), "lanes.count": 1}
    with sf.EmbeddedBroker() as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic, 1)
        broker.produce_many("in", ((0, b"k", b'{"n": 1}', n) for n in range(10)))
        with sf.StoatFlow(topology(lambda batch: batch), config, broker=broker) as app:
            until = time.monotonic() + 60
            while app.metrics()["records_committed"] < 10:
                assert time.monotonic() < until
                time.sleep(0.05)
            (function,) = app.metrics()["functions"]
    assert (function["op"], function["seconds"] > 0) == ("map_batches", True)
    assert 1 <= function["calls"] <= 10
