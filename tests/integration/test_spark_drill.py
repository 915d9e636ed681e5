"""W7, the shop of the benchmarks, goes to a Spark cluster and back; a worker is killed. `make drill` runs 2 million."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from broker.kafka_broker import KafkaBroker

# Scripts that import each other from one folder.
sys.path.append(str(Path(__file__).parents[2] / "benches" / "spark"))

import drill
from workloads import WORKLOADS


@pytest.mark.long
def test_the_final_tables_of_the_shop_are_equal(tmp_path: Path) -> None:
    with KafkaBroker() as broker:
        faults = drill.run(WORKLOADS["w7"], drill.recent(12_000, 1, 4), tmp_path, broker)
    assert faults == []
