"""The word count of Java guides on three brokers, with its configuration unchanged."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from broker.cluster import KafkaCluster
from topics import KafkaTopics

import stoatflow as sf

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "kafka_streams" / "word_count_app.py"

pytestmark = pytest.mark.xdist_group("secured")


@pytest.fixture
def example() -> ModuleType:
    """Returns the example as a module."""
    spec = importlib.util.spec_from_file_location("word_count_app", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_configuration_of_kafka_streams_starts_as_it_is(
    secured: KafkaCluster, example: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for topic in ("text-input", "wordcount-output"):
        secured.create_topic(topic, 3)
    kafka = KafkaTopics(secured.bootstrap())
    # Only the names of the guide's machines are replaced.
    there = {"bootstrap.servers": secured.bootstrap(), "state.dir": str(tmp_path)}
    app = example.application(example.CONFIG | there)
    with app:
        app.wait_until("RUNNING", timeout="60s")
        kafka.write("text-input", ["Kafka Streams is a library", "not a cluster: a library"])
        app.wait_until(caught_up=True, timeout="60s")
        store = app.store("word-count-store")
        assert (store.get("kafka"), store.get("library"), store.get("streams")) == (1, 2, 1)
        assert app.close("30s")
    assert capsys.readouterr().out.splitlines() == [
        "CREATED -> STARTING", "STARTING -> RESTORING", "RESTORING -> RUNNING", "RUNNING -> STOPPING",
        "STOPPING -> STOPPED",
    ]  # fmt: skip
    assert "wordcount-v2-word-count-store-changelog" in kafka.topics()
    assert isinstance(app, sf.StoatFlow)
