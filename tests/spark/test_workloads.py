"""The benchmark's workloads: the engine's committed output equals the batch twin's. `make audit` runs millions.

And the same jobs in Spark's SQL, which `make bench-spark` measures.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# Scripts that import each other from their folders.
sys.path += [str(Path(__file__).parents[2] / "benches" / folder) for folder in ("versus", "spark")]

import audited
import sql_jobs
from workloads import WORKLOADS
from workloads.workload import Load

import stoatflow as sf
from stoatflow.spark.twin import workers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOAD = Load(3000, 1, partitions=3, table_keys=300)


@pytest.mark.parametrize("name", sorted(WORKLOADS))
def test_the_engine_writes_the_output_of_the_twin(
    name: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "check_workers", lambda _: None)
    workload = WORKLOADS[name]
    audited.run_engine(workload, LOAD, tmp_path)
    audit = audited.audit_output(spark, workload, tmp_path)
    assert audit.ok, audit.render()
    assert dict(audit.inputs) == {source.name: source.count(LOAD) for source in workload.inputs}
    assert all(topic.found > 0 for topic in audit.topics)
    assert len(audit.topics) == len(workload.outputs)


def test_one_record_too_many_is_found(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "check_workers", lambda _: None)
    workload = WORKLOADS["w1"]
    audited.run_engine(workload, LOAD, tmp_path)
    with sf.EmbeddedBroker(tmp_path / "broker") as broker:
        last = list(broker.read("kept-out"))[-1]
        broker.produce_many("kept-out", [(last.partition, last.key, last.value, last.timestamp)])
    audit = audited.audit_output(spark, workload, tmp_path)
    assert (audit.ok, audit.count("duplicated")) == (False, 1)


@pytest.mark.parametrize("name", sorted(sql_jobs.JOBS))
def test_the_job_in_sparks_sql_has_the_same_result(name: str, spark: SparkSession) -> None:
    workload, schema = WORKLOADS[name], "key binary, value binary, timestamp long"
    frames = {}
    for source in workload.inputs:
        rows = [(row.key and row.key.encode(), row.value, row.timestamp_ms or 0) for row in source.rows(LOAD)]
        frames[source.name] = spark.createDataFrame(rows, schema)
    found = sql_jobs.JOBS[name](frames).collect()
    assert {row["row"]: sql_jobs.cell(row["cell"]) for row in found} == workload.wanted(LOAD)
