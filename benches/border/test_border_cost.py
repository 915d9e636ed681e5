"""Cost of calls into Python: calls, views, dicts, encoding, async. `make bench-border`.

Jobs differ from each other in one thing, so that the difference of two rows is its cost. Times are CPU time of the
whole process for all records in one lane; the JSON (--benchmark-json) has them per record as `per_record_us`, and the
engine's own measurement of the function as `function_us`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from draining import Decode, Draining, Form, Job, avro, cpu, draining, order, protobuf
from pytest_benchmark.fixture import BenchmarkFixture

import stoatflow as sf

RECORDS = 100_000
FEW = 100  # where nothing is timed, and only a run without errors matters
ROUNDS = 5
CONSTANT = {"id": 1, "user": "user-1", "amount": 100.5, "size": "large"}


async def awaited(value: Any) -> Any:
    return value


JOBS: dict[str, Job] = {
    "pass on": lambda stream: stream,
    "expression": lambda stream: stream.map_values(sf.obj(id=sf.value["id"], amount=sf.value["amount"])),
    "call": lambda stream: stream.map_values(lambda value: value),
    "call that reads a member": lambda stream: stream.filter(lambda _, value: value["amount"] > 0),
    "call that reads a nested member": lambda stream: stream.filter(lambda _, value: value["user"]["name"] != ""),
    "call that gives a dict": lambda stream: stream.map_values(lambda _: CONSTANT),
    "call that builds a dict of members": lambda stream: stream.map_values(
        lambda value: {"id": value["id"], "user": value["user"]["name"], "amount": value["amount"]}
    ),
    "call that adds a member": lambda stream: stream.map_values(lambda value: value | {"size": "large"}),
    "call that decodes everything": lambda stream: stream.map_values(lambda value: value.to_dict()),
    "two calls": lambda stream: stream.map_values(lambda value: value).map_values(lambda value: value),
    "async call": lambda stream: stream.map_values(awaited, name="awaited"),
}


@pytest.mark.benchmark(group=f"a topology over {RECORDS} records", timer=cpu)
@pytest.mark.parametrize("name", JOBS)
def test_records(benchmark: BenchmarkFixture, name: str) -> None:
    with draining(JOBS[name], records(benchmark)) as drained:
        timed(benchmark, drained)


FORMATS: dict[str, Callable[[Decode], Form]] = {"avro": avro, "protobuf": protobuf}
FIELDS_JOBS: dict[str, Job] = {
    "pass on": lambda stream: stream,
    "expression that reads a field": lambda stream: stream.filter(sf.value["amount"] > 0),
    "call that reads a field": lambda stream: stream.filter(lambda _, value: value["amount"] > 0),
    "call that reads a nested field": lambda stream: stream.filter(lambda _, value: value["user"]["name"] != ""),
    "call that reads all fields": lambda stream: stream.filter(lambda _, value: all(v != "" for v in value.values())),
    "call that gives the record back": lambda stream: stream.map_values(lambda value: value),
    "call that changes a field": lambda stream: stream.map_values(lambda value: value | {"amount": 2.0}),
}


@pytest.mark.benchmark(group=f"a topology over {RECORDS} records of 20 fields", timer=cpu)
@pytest.mark.parametrize("decode", ["lazy", "dict"])
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("name", FIELDS_JOBS)
def test_records_of_fields(benchmark: BenchmarkFixture, name: str, kind: str, decode: Decode) -> None:
    with draining(FIELDS_JOBS[name], records(benchmark), FORMATS[kind](decode)) as drained:
        timed(benchmark, drained)


def records(benchmark: BenchmarkFixture) -> int:
    """Number of records to read."""
    return FEW if benchmark.disabled else RECORDS


def timed(benchmark: BenchmarkFixture, drained: Draining) -> None:
    """Record the best time per record, and the engine's time of its functions."""
    benchmark.pedantic(drained, rounds=ROUNDS, warmup_rounds=1)
    if benchmark.disabled:
        assert drained.written() == drained.records
    if benchmark.stats is not None:  # None with --benchmark-disable
        benchmark.extra_info["per_record_us"] = benchmark.stats.stats.min / drained.records * 1e6
    benchmark.extra_info["function_us"] = sum(one["seconds"] for one in drained.calls) / drained.records * 1e6


TEXT = order(7)
PLAIN = json.loads(TEXT)
VIEW = sf.JsonObject.parse(TEXT)
JSON = sf.Serdes.json()
# What functions do with their argument, and the same with the standard library.
STEPS: dict[str, Callable[[], object]] = {
    "view of a text": lambda: sf.JsonObject.parse(TEXT),
    "view, one member": lambda: sf.JsonObject.parse(TEXT)["weight"],
    "view, one nested member": lambda: sf.JsonObject.parse(TEXT)["user"]["name"],
    "view, the same member again": lambda: VIEW["weight"],
    "view, all as dict": lambda: sf.JsonObject.parse(TEXT).to_dict(),
    "view, one member more": lambda: sf.JsonObject.parse(TEXT) | {"size": "large"},
    "json.loads": lambda: json.loads(TEXT),
    "json.dumps": lambda: json.dumps(PLAIN, separators=(",", ":")),
    "serde of the package, a dict": lambda: JSON.serialize(PLAIN),
    "serde of the package, a view": lambda: JSON.serialize(VIEW),
}


@pytest.mark.benchmark(group="a value")
@pytest.mark.parametrize("name", STEPS)
def test_values(benchmark: BenchmarkFixture, name: str) -> None:
    benchmark(STEPS[name])
