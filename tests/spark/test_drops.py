"""Dropped records: the engine's counters are compared with the batch twin's, reason by reason."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.request import urlopen

import pytest

import stoatflow as sf
from stoatflow.cli import main
from stoatflow.errors import ConfigError
from stoatflow.spark.audit import counters, page
from stoatflow.spark.audit.findings import DropAudit
from stoatflow.spark.audit.reconciling import reconcile
from stoatflow.spark.load import load
from stoatflow.spark.twin import workers
from stoatflow.spark.twin.parts import cut

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPEC: dict[str, Any] = {
    "seed": 3,
    "topics": {
        "users": {
            "records": 80,
            "partitions": 2,
            "key": {"kind": "uniform", "count": 30, "prefix": "user-"},
            "fields": {"city": {"kind": "choice", "of": ["Bergen", "Cork", "Ghent"]}},
            "time": {"start": 1_600_000_000_000},
            "faults": {"null-keys": 0.1},
        },
        "clicks": {
            "records": 800,
            "partitions": 2,
            "key": {"kind": "uniform", "count": 40, "prefix": "user-"},
            "fields": {"at": {"kind": "timestamp"}},
            "time": {"rate": 5, "late": {"share": 0.05, "by": "3m"}},
            "faults": {"null-keys": 0.05},
        },
    },
}


def build() -> sf.Topology:
    """The table is computed in three parts, one of which re-keys it; windows drop late records."""
    builder = sf.StreamsBuilder()
    users = builder.table("users", key=str, value=dict, store="users")
    by_city = users.group_by((sf.value["city"], sf.value), key=str, value=dict, name="by-city")
    by_city.count(store="cities").to_stream().to("per-city", key=str, value=int)
    clicks = builder.stream("clicks", key=str, value=dict).join(users, sf.left | {"city": sf.right["city"]})
    minutes = clicks.group_by_key(key=str, value=dict).windowed_by(sf.TimeWindows("1m", grace="10s"))
    minutes.count(store="minutes").to_stream().to("per-minute", value=int)
    towns = clicks.group_by(sf.value["city"], key=str, value=dict, name="by-town")
    towns.count(store="towns").to_stream().to("per-town", key=str, value=int)
    return builder.build()


topology = build()


class Ran(NamedTuple):
    """The results of an application."""

    address: str
    metrics: dict[str, Any]
    exposition: Path


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder = tmp_path_factory.mktemp("drops")
    address = f"embedded:{folder / 'broker'}"
    load(SPEC, address)
    with sf.EmbeddedBroker(folder / "broker") as broker:
        for topic in ("per-city", "per-minute", "per-town"):
            broker.create_topic(topic, 2)
        settings = {"application.id": "drops", "state.dir": str(folder / "state")}
        with sf.StoatFlow(topology, settings, broker=broker) as app:
            app.wait_until(caught_up=True, timeout="60s")
            exposition = folder / "metrics.txt"
            with urlopen(f"{app.admin_url}metrics", timeout=20) as answer:  # noqa: S310  # its own
                exposition.write_bytes(answer.read())
            return Ran(address, app.metrics(), exposition)


@pytest.fixture(autouse=True)
def workers_are_as_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The contents of workers are checked in `test_twin`."""
    monkeypatch.setattr(workers, "check_workers", lambda _: None)


def test_the_counters_are_those_of_the_twin(spark: SparkSession, ran: Ran) -> None:
    assert sum("users" in part.topics for part in cut(topology)) >= 2
    audit = reconcile(spark, topology, ran.address, counters=ran.metrics)
    assert audit.ok, audit.render()
    assert audit.drops is not None
    by_reason = {drop.reason: drop for drop in audit.drops}
    assert set(by_reason) == {"late", "null_key"}
    assert all(drop.counted > 3 for drop in by_reason.values())
    assert sum(by_reason["null_key"].nodes.values()) == by_reason["null_key"].expected
    assert f"dropped  late: {by_reason['late'].counted} expected" in audit.render()
    assert "Records that were dropped" in page.render(audit)


def test_a_counter_that_is_wrong_is_found(
    spark: SparkSession, ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the command, with a copy of the admin port's response; unchanged, and with one record less."""
    monkeypatch.setattr("stoatflow.spark.session.local_session", lambda **_: nullcontext(spark))
    given = ["reconcile", str(Path(__file__)), "--bootstrap", ran.address, "--topic", "per-minute", "--json"]
    assert main([*given, "--counters", str(ran.exposition)]) == 0
    drops = json.loads(capsys.readouterr().out)["drops"]
    late = next(drop["counted"] for drop in drops if drop["reason"] == "late")
    less = tmp_path / "less.json"
    altered = [{**drop, "count": drop["count"] - (drop["reason"] == "late")} for drop in ran.metrics["dropped"]]
    less.write_text(json.dumps({"dropped": altered}))
    assert main([*given, "--counters", str(less)]) == 1
    output = json.loads(capsys.readouterr().out)
    assert output["verdict"] == "NOT OK: see what was dropped"
    assert next(drop["expected"] for drop in output["drops"] if drop["reason"] == "late") == late


def test_files_without_counters_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("# HELP nothing\n")
    for given, output in (
        (tmp_path / "gone.txt", "gone.txt can't be read: "),
        (tmp_path / "empty.txt", "has no metrics of StoatFlow"),
        ({"records_in": 1}, "these counters have no 'dropped'"),
    ):
        with pytest.raises(ConfigError, match=output):
            counters.read(given)
    with pytest.raises(ConfigError, match="counters= are compared with the batch twin"):
        reconcile(spark, topology, "embedded:x", counters={"dropped": []}, expected={})


def test_reasons_are_added_up_and_compared() -> None:
    twin = {("a", "late"): 2, ("b", "late"): 1, ("a", "null_key"): 4}
    assert counters.compare(twin, {"late": 3, "duplicate": 1}) == (
        DropAudit("duplicate", 0, 1, {}),
        DropAudit("late", 3, 3, {"a": 2, "b": 1}),
        DropAudit("null_key", 4, 0, {"a": 4}),
    )
