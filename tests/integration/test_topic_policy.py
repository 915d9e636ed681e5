"""A cluster with a policy for topics, as Confluent Cloud has: no segments below 50 MiB."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker.java_home import find_java
from broker.kafka_broker import KafkaBroker
from broker.maven_jars import kafka_jars
from counting import check_every_update, consume, lines, make
from topics import KafkaTopics

SEGMENT_BYTES = "segment.bytes"
LEAST = 52_428_800
POLICY = f"""
import java.util.Map;
import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.CreateTopicPolicy;

public class SmallSegments implements CreateTopicPolicy {{
    public void configure(Map<String, ?> settings) {{}}
    public void close() {{}}
    public void validate(RequestMetadata topic) {{
        String bytes = topic.configs().getOrDefault("{SEGMENT_BYTES}", "{LEAST}");
        if (Long.parseLong(bytes) < {LEAST}) {{
            throw new PolicyViolationException("Config property '{SEGMENT_BYTES}' with value '" + bytes
                + "' is lower than the minimum allowed value of {LEAST}.");
        }}
    }}
}}
"""


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    classes = tmp_path_factory.mktemp("classes")
    source = classes / "SmallSegments.java"
    source.write_text(POLICY, "utf-8")
    javac = find_java().with_name("javac")
    subprocess.run([javac, "-cp", f"{kafka_jars()}/*", "-d", classes, source], check=True)
    with KafkaBroker(settings={"create.topic.policy.class.name": "SmallSegments"}, classes=classes) as broker:
        yield broker


@pytest.mark.parametrize("client", ["native", "librdkafka"])
def test_small_segments_are_refused(strict: KafkaBroker, name: str, tmp_path: Path, client: str) -> None:
    kafka = KafkaTopics(strict.bootstrap)
    for topic in (f"{name}-in", f"{name}-out"):
        kafka.create(topic)
    kafka.write(f"{name}-in", given := lines(1, 50))
    consume(make(strict.bootstrap, name, tmp_path, kafka_client=client))
    settings = kafka.config(f"{name}-offsets")
    assert settings["cleanup.policy"] == "compact"
    assert settings["message.timestamp.type"] == "LogAppendTime"
    assert int(settings[SEGMENT_BYTES]) > LEAST
    # Simulates another machine.
    kafka.write(f"{name}-in", more := lines(2, 50))
    consume(make(strict.bootstrap, name, tmp_path / "elsewhere", kafka_client=client))
    check_every_update(kafka.read(f"{name}-out"), given + more)
