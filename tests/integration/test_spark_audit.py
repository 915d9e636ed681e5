"""Spark reads a real broker, and finds five faults in an output topic; one is a record of an aborted transaction."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from broker.kafka_broker import KafkaBroker
from topics import KafkaTopics

# A million with `STOATFLOW_TEST_AUDIT_RECORDS=1000000`.
RECORDS = int(os.environ.get("STOATFLOW_TEST_AUDIT_RECORDS", "20000"))
PROGRAM = Path(__file__).with_name("spark_audit.py")


@pytest.mark.long
def test_five_faults_are_found_among_all_records(cluster: KafkaBroker, kafka: KafkaTopics, name: str) -> None:
    kafka.create(f"{name}-in", 2)
    kafka.create(f"{name}-out", 2)
    command = [sys.executable, str(PROGRAM), cluster.bootstrap, name, str(RECORDS)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert ended.returncode == 0, ended.stderr[-4000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found["loaded"] == found["read"] == RECORDS
    assert found["bytes"] == found["sizes"]
    assert 0 < found["kinds"]["duplicates"] < RECORDS / 50
    assert found["headers"][0][0] == "trace"
    assert found["faults"] == {
        "missing": 1, "aborted": 1, "duplicated": 1, "wrong": 1, "unexpected": 0, "out of order": 2, "split": 0
    }  # fmt: skip
    by_fault = {example["fault"]: example for example in found["examples"]}
    assert by_fault["aborted"]["offset"] is not None
    assert by_fault["wrong"]["found"].startswith("{'amount': 50, 'id': -1} at ")
    assert "partition 0 begins at offset 5: retention has removed what was before" in found["removed"]
