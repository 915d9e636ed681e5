"""An application runs, continues on Spark, and runs again: its results are those of an uninterrupted run."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import handover_app
import pytest
from broker.kafka_broker import KafkaBroker
from confluent_kafka import Producer
from counting import consume, until
from spark_cluster import SparkCluster
from topics import KafkaTopics

import stoatflow as sf
from stoatflow.spark.twin.once import Once

pytestmark = pytest.mark.xdist_group("handover")
PROGRAM = Path(__file__).with_name("spark_handover.py")
USERS = [f"user-{n}" for n in range(20)]
MINUTE = 60_000


class Shop:
    """Topics, their records in three turns, and the application that reads them."""

    def __init__(self, cluster: KafkaBroker, kafka: KafkaTopics, name: str, folder: Path) -> None:
        self.kafka, self.name, self.folder = kafka, name, folder
        self.written = 0
        self.twice = 0
        """Number of records that Spark has written again."""
        # A broker deletes old rows of windows.
        self.began = int(time.time() // 60) * MINUTE - 20 * MINUTE
        # With the partitioner of Kafka's Java clients.
        self.producer = Producer({"bootstrap.servers": cluster.bootstrap, "partitioner": "murmur2_random"})
        for topic in ("orders", "users", *(f"{sink}{of}" for sink in handover_app.SINKS for of in ("", "-alone"))):
            kafka.create(f"{name}-{topic}", 2)
        self.settings = {"bootstrap.servers": cluster.bootstrap, "statestore.cache.max.bytes": 0, "lanes.count": 3}
        lines = [f'"{key}" = {value!r}' for key, value in self.application("").items()]
        (folder / "app.toml").write_text("\n".join(lines).replace("'", '"'), "utf-8")

    def application(self, suffix: str) -> dict[str, object]:
        """Settings of the application, or of the one that runs alone."""
        named = {"application.id": f"{self.name}{suffix}", "state.dir": str(self.folder / "state")}
        return {**self.settings, **named}

    def write(self, topic: str, key: str, value: bytes, timestamp: int) -> None:
        self.producer.produce(f"{self.name}-{topic}", key=key, value=value, timestamp=timestamp)

    def users(self) -> None:
        for n, user in enumerate(USERS):
            self.write("users", user, ("north", "south", "east")[n % 3].encode(), self.began)
        self.producer.flush()

    def orders(self, turn: int, count: int = 150) -> None:
        """Write the orders of a turn; some are late relative to earlier turns."""
        rng = random.Random(turn)
        for n in range(count):
            at = self.began + (self.written + n) * 1_000
            if n % 10 == 0:
                at -= 4 * MINUTE
            self.write("orders", rng.choice(USERS), rng.randrange(100).to_bytes(8, "big"), at)
        self.written += count
        self.producer.flush()

    def run(self, suffix: str = "") -> None:
        """Let the application process all input."""
        consume(sf.StoatFlow(handover_app.build(self.name, suffix), self.application(suffix)))

    def spark(self, *steps: str, master: str = "") -> str:
        """Returns the output of the commands."""
        with self.begun(*steps, master=master) as process:
            out, errors = process.communicate(timeout=400)
        assert process.returncode == 0, errors[-4000:]
        return out

    def begun(self, *steps: str, master: str = "") -> subprocess.Popen[str]:
        """Starts commands."""
        command = [sys.executable, str(PROGRAM), str(self.folder), *steps]
        env = {**os.environ, "HANDOVER": self.name, "SPARK_MASTER": master}
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)

    def results(self, suffix: str = "") -> dict[str, dict[bytes | None, list[int]]]:
        """Returns the updates of each key, by topic."""
        found: dict[str, dict[bytes | None, list[int]]] = {}
        for sink in handover_app.SINKS:
            updates = found.setdefault(sink, {})
            home: dict[bytes | None, int] = {}
            readers = {partition: Once() for partition in range(2)}
            for row in self.kafka.read(f"{self.name}-{sink}{suffix}"):
                assert home.setdefault(row.key, row.partition) == row.partition, f"{sink}: {row.key!r} in two"
                by_spark = any(name == "__stoatflow.twin.trigger" for name, _ in row.headers)
                if by_spark and not readers[row.partition].is_new(row.headers):
                    self.twice += 1
                    continue
                value = None if row.value is None else int.from_bytes(row.value, "big")
                updates.setdefault(row.key, []).append(value)
        return found

    def check(self) -> None:
        """Compare with the application that ran alone."""
        found, expected = self.results(), self.results("-alone")
        for sink in ("per-user", "per-minute", "by-window", "final", "visits", "by-session"):
            # Each update once, in order: nothing is lost, nothing is duplicated.
            assert found[sink] == expected[sink], sink
        # Orders of two partitions meet there, in either order: the number of updates and the last ones are
        # the same.
        regions, wanted = found["per-region"], expected["per-region"]
        assert {key: (len(updates), updates[-1]) for key, updates in regions.items()} == {
            key: (len(updates), updates[-1]) for key, updates in wanted.items()
        }

    def committed(self) -> dict[str, object]:
        """Returns everything that a command may change on the broker."""
        topics = [f"{self.name}-{store}-changelog" for store in ("users", "per-user", "per-minute", "clocks")]
        group = {topic: self.kafka.committed(self.name, f"{self.name}-{topic}") for topic in ("orders", "users")}
        return {**group, **{topic: self.kafka.ends(topic) for topic in (*topics, f"{self.name}-offsets")}}


def planned(output: str) -> dict[str, Any]:
    """Returns the JSON of the last command."""
    found: dict[str, Any] = json.loads(output[output.rindex("\n{") :])
    return found


@pytest.fixture
def shop(cluster: KafkaBroker, kafka: KafkaTopics, name: str, tmp_path: Path) -> Shop:
    return Shop(cluster, kafka, name, tmp_path)


@pytest.mark.long
def test_an_application_is_handed_to_spark_and_back(shop: Shop) -> None:
    shop.users()
    shop.orders(0)
    shop.run()

    before = shop.committed()
    output = shop.spark("look")
    assert "nothing was changed (--dry-run)" in output
    assert f"per-user  20 rows of {shop.name}-per-user-changelog" in output
    plan = planned(shop.spark("plan"))
    per_user = {"name": "per-user", "topic": f"{shop.name}-per-user-changelog", "rows": 20}
    assert per_user in plan["stores"]
    assert (plan["application"], plan["done"]) == (shop.name, False)
    assert all(part["task_count"] > 0 for part in plan["parts"])
    assert not (shop.folder / "checkpoint").exists()
    assert shop.committed() == before

    shop.orders(1)
    plan = planned(shop.spark("there", "run", "look-back", "plan-back"))
    assert {(one["topic"], one["partition"]) for one in plan["partitions"]} >= {(f"{shop.name}-orders", 0)}
    assert next(one["rows"] for one in plan["stores"] if one["name"] == "per-user") == 20
    assert plan["done"] is False
    # Spark has the work now.
    with pytest.raises(sf.IncompatibleStateError, match=r"handed over to Spark: .*Next: .*hand-over from-spark"):
        shop.run()
    shop.spark("back")

    shop.orders(2)
    shop.run()
    shop.run("-alone")
    shop.check()
    assert shop.twice == 0


@pytest.mark.long
def test_a_worker_is_killed_on_a_cluster_while_spark_has_the_work(shop: Shop, tmp_path: Path) -> None:
    shop.users()
    shop.orders(0)
    shop.run()
    shop.orders(1, 900)
    with SparkCluster(tmp_path, workers=2) as spark:
        shop.spark("there", master=spark.master)
        with shop.begun("trickle", master=spark.master) as process:
            # Three JVMs and their workers start before.
            begun = tmp_path / "trigger-1"
            until(lambda: begun.exists() or process.poll() is not None, "the second trigger writes", 900)
            # It writes for two seconds.
            time.sleep(1)
            began = {path.name for path in (tmp_path / "checkpoint" / "offsets").glob("[0-9]*")}
            spark.kill_worker(0)
            ended = {path.name for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]*")}
            _, errors = process.communicate(timeout=400)
        assert process.returncode == 0, errors[-4000:]
        assert began - ended, "no trigger was under way"
        assert "Lost executor" in errors, errors[-4000:]
        shop.spark("back", master=spark.master)
    shop.orders(2)
    shop.run()
    shop.run("-alone")
    shop.check()
