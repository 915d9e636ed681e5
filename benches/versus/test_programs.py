"""Each StoatFlow program does what its workload says, tested without a broker: a wrong program fails in seconds."""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent)]

import stoatflow_programs  # noqa: E402
import stoatflow_shop  # noqa: E402
from final_table import differences  # noqa: E402
from workloads import WORKLOADS, shop  # noqa: E402
from workloads.reading import Cell  # noqa: E402
from workloads.workload import Load, Row, Workload  # noqa: E402

from stoatflow.testing import TopologyTestDriver  # noqa: E402

LOAD = Load(2000, 3, table_keys=200)
# An epoch of one record would be a batch of one row.
BATCH = 64


def made(workload: Workload, flavour: str) -> dict[str, Cell]:
    """The final table of all outputs; tables are read before the streams that join them."""
    at = stoatflow_programs.Topics(
        [one.name for one in workload.inputs], [f"{one.name}-out" for one in workload.outputs]
    )
    rows: dict[str, Cell] = {}
    with TopologyTestDriver(stoatflow_programs.topology(workload.name, flavour, at)) as driver:
        for source in reversed(workload.inputs):
            topic, rows_of = driver.input(source.name, bytes, bytes), source.rows(LOAD)
            while together := list(itertools.islice(rows_of, BATCH if flavour == "arrow" else 1)):
                with driver.epoch():
                    for row in together:
                        key = None if row.key is None else row.key.encode()
                        topic.pipe(key, row.value, timestamp=row.timestamp_ms or LOAD.base_ms)
        for output, name in zip(workload.outputs, at.outputs, strict=True):
            for record in driver.output(name, bytes, bytes).read_all():
                result = output.read(record.key or b"", record.value)
                assert result is not None
                if result[1] is None:
                    rows.pop(result[0], None)
                else:
                    assert output.updates or result[0] not in rows
                    rows[result[0]] = result[1]
    return rows


@pytest.mark.parametrize(("workload", "flavour"), list(stoatflow_programs.PROGRAMS))
def test_a_program_produces_the_output_of_its_workload(workload: str, flavour: str) -> None:
    wanted = WORKLOADS[workload].wanted(LOAD)
    assert len(wanted) > 100
    assert differences(made(WORKLOADS[workload], flavour), wanted) == []


@pytest.mark.parametrize("flavour", WORKLOADS["w7"].flavours)
def test_the_shop_has_ten_stores_and_three_rekeyings(flavour: str) -> None:
    at = stoatflow_programs.Topics(list("abcd"), list("vwxyz"))
    output = stoatflow_programs.topology("w7", flavour, at).describe()
    stores = ",".join(re.findall(r"stores: \[(.+?)\]", output)).split(",")
    assert len({store.strip() for store in stores}) == 10
    assert sum("Sink" in line and "-repartition)" in line for line in output.splitlines()) == 3


@pytest.mark.parametrize("workload", sorted(WORKLOADS))
def test_only_the_flavour_of_batches_has_batches(workload: str) -> None:
    at = stoatflow_programs.Topics(
        [one.name for one in WORKLOADS[workload].inputs], [f"{one.name}-out" for one in WORKLOADS[workload].outputs]
    )
    batches = {
        flavour: stoatflow_programs.topology(workload, flavour, at).describe().count("Processor: KSTREAM-MAPBATCHES-")
        for flavour in WORKLOADS[workload].flavours
    }
    assert batches.pop("arrow") == (3 if workload == "w7" else 1)
    assert set(batches.values()) == {0}


@pytest.mark.parametrize("flavour", WORKLOADS["w7"].flavours)
def test_the_shop_is_right_when_much_is_read_at_once(flavour: str) -> None:
    """Clicks and orders by timestamp, all in one epoch: records that wait for a batch are as late as possible."""
    load, workload = Load(20_000, 3), WORKLOADS["w7"]
    at = stoatflow_programs.Topics(
        [one.name for one in workload.inputs], [f"{one.name}-out" for one in workload.outputs]
    )
    waiting = {True: shop.clicks(load), False: shop.orders(load)}
    rows: dict[str, Cell | None] = {}
    with TopologyTestDriver(stoatflow_programs.topology("w7", flavour, at), lanes=8) as driver:
        topics = {one.name: driver.input(one.name, bytes, bytes) for one in workload.inputs}

        def pipe(topic: str, row: Row) -> None:
            topics[topic].pipe((row.key or "").encode(), row.value, timestamp=row.timestamp_ms)

        with driver.epoch():
            for topic, table in (("users", shop.users), ("products", shop.products)):
                for row in table(load):
                    pipe(topic, row)
        with driver.epoch():
            for *_, amount in shop.events(load):
                click = amount is None
                pipe("clicks" if click else "orders", next(waiting[click]))
        for output, name in zip(workload.outputs, at.outputs, strict=True):
            for record in driver.output(name, bytes, bytes).read_all():
                rows.update([output.read(record.key or b"", record.value) or ("", None)])
    assert differences({row: cell for row, cell in rows.items() if cell is not None}, workload.wanted(load)) == []


def test_both_sides_of_the_shop_mean_the_same_tiers() -> None:
    assert (shop.SILVER, shop.GOLD) == (stoatflow_shop.SILVER, stoatflow_shop.GOLD)
    for spent in (0, 999, 1000, 12_499, 12_500):
        assert shop.tier(spent) == stoatflow_shop.tier(spent)
