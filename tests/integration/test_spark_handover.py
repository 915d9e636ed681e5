"""An application runs, goes on on Spark, and goes on again: its results are those of one that ran all the time."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import handover_app
import pytest
from broker.kafka_broker import KafkaBroker
from confluent_kafka import Producer
from counting import consume
from topics import KafkaTopics

import stoatflow as sf

PROGRAM = Path(__file__).with_name("spark_handover.py")
USERS = [f"user-{n}" for n in range(20)]
MINUTE = 60_000


class Shop:
    """Topics, their records in three turns, and the application that reads them."""

    def __init__(self, cluster: KafkaBroker, kafka: KafkaTopics, name: str, folder: Path) -> None:
        self.kafka, self.name, self.folder = kafka, name, folder
        # A broker deletes old rows of windows.
        self.began = int(time.time() // 60) * MINUTE - 20 * MINUTE
        # As Kafka's Java clients partition.
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

    def orders(self, turn: int) -> None:
        """Write the orders of a turn; some are late, by what other turns have read."""
        rng = random.Random(turn)
        for n in range(150):
            at = self.began + (turn * 150 + n) * 1_000
            if n % 10 == 0:
                at -= 4 * MINUTE
            self.write("orders", rng.choice(USERS), rng.randrange(100).to_bytes(8, "big"), at)
        self.producer.flush()

    def run(self, suffix: str = "") -> None:
        """Let the application process what there is."""
        consume(sf.StoatFlow(handover_app.build(self.name, suffix), self.application(suffix)))

    def spark(self, *steps: str) -> str:
        """Give what the commands say."""
        command = [sys.executable, str(PROGRAM), str(self.folder), *steps]
        env = {**os.environ, "HANDOVER": self.name}
        done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, env=env)
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    def results(self, suffix: str = "") -> dict[str, dict[bytes | None, list[int]]]:
        """Give the updates of each key, by topic."""
        found: dict[str, dict[bytes | None, list[int]]] = {}
        for sink in handover_app.SINKS:
            updates = found.setdefault(sink, {})
            for row in self.kafka.read(f"{self.name}-{sink}{suffix}"):
                value = None if row.value is None else int.from_bytes(row.value, "big")
                updates.setdefault(row.key, []).append(value)
        return found

    def committed(self) -> dict[str, object]:
        """Give all that a command may change on the broker."""
        topics = [f"{self.name}-{store}-changelog" for store in ("users", "per-user", "per-minute", "clocks")]
        group = {topic: self.kafka.committed(self.name, f"{self.name}-{topic}") for topic in ("orders", "users")}
        return {**group, **{topic: self.kafka.ends(topic) for topic in (*topics, f"{self.name}-offsets")}}


@pytest.fixture
def shop(cluster: KafkaBroker, kafka: KafkaTopics, name: str, tmp_path: Path) -> Shop:
    return Shop(cluster, kafka, name, tmp_path)


def test_an_application_goes_to_spark_and_comes_back(shop: Shop) -> None:
    shop.users()
    shop.orders(0)
    shop.run()

    before = shop.committed()
    said = shop.spark("look")
    assert "nothing was changed (--dry-run)" in said
    assert f"per-user  20 rows of {shop.name}-per-user-changelog" in said
    assert not (shop.folder / "checkpoint").exists()
    assert shop.committed() == before

    shop.orders(1)
    shop.spark("there", "run", "look-back")
    # Spark has the work.
    with pytest.raises(sf.IncompatibleStateError, match=r"handed over to Spark: .*; next: stoatflow hand-over from"):
        shop.run()
    shop.spark("back")

    shop.orders(2)
    shop.run()
    shop.run("-alone")
    found, expected = shop.results(), shop.results("-alone")
    for sink in ("per-user", "per-minute", "visits"):
        # Each update once, in its order: nothing is lost, nothing is twice.
        assert found[sink] == expected[sink], sink
    # Orders of two partitions meet there, in either order: as many updates, and the same at the end.
    regions, wanted = found["per-region"], expected["per-region"]
    assert {key: (len(updates), updates[-1]) for key, updates in regions.items()} == {
        key: (len(updates), updates[-1]) for key, updates in wanted.items()
    }
