"""The broker harness itself: a real broker that survives what tests do to it, and explains its failures."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

# Tests are imported without their folder on the path (`--import-mode=importlib`); the harness is a
# package in it.
sys.path.insert(0, str(Path(__file__).resolve().parent))

from broker.java_home import BrokerError, find_java, find_maven, parse_java_major
from broker.kafka_broker import KafkaBroker
from broker.maven_jars import complete_folder
from broker.wire import TOPIC_ALREADY_EXISTS, WireError, api_versions, metadata
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

SCRIPT = Path(__file__).parent / "broker" / "kafka_broker.py"
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    with KafkaBroker() as running:
        yield running


def produce(bootstrap: str, topic: str, values: list[str], *, transactional_id: str | None = None) -> Producer:
    """Writes values to partition 0; with an id, inside a transaction that the caller ends."""
    config: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap}
    if transactional_id:
        config["transactional.id"] = transactional_id
    producer = Producer(config)
    if transactional_id:
        producer.init_transactions(30)
        producer.begin_transaction()
    refused: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            refused.append(f"{message.value()!r}: {error}")

    for value in values:
        producer.produce(topic, value=value.encode(), partition=0, on_delivery=delivered)
    assert producer.flush(30) == 0
    assert not refused, refused
    return producer


def read(bootstrap: str, topic: str, isolation: str = "read_committed") -> list[str]:
    """All values of partition 0 that a reader sees, up to the end offset for that isolation."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        found: list[str] = []
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return found
                continue
            value = message.value()
            assert value is not None
            found.append(value.decode() if isinstance(value, bytes) else value)
        raise AssertionError(f"no end of {topic} within {PATIENCE_S} s, read {len(found)}")
    finally:
        consumer.close()


def read_until(bootstrap: str, topic: str, wanted: list[str]) -> list[str]:
    """The last values, once they are these: a commit is acknowledged before its markers are in the partition."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := read(bootstrap, topic)[-len(wanted) :]) != wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    return found


def test_produces_and_consumes(broker: KafkaBroker) -> None:
    broker.create_topic("plain", 3)
    assert broker.topics()["plain"] == 3
    produce(broker.bootstrap, "plain", ["a", "b", "c"])
    assert read(broker.bootstrap, "plain") == ["a", "b", "c"]


def test_topic_settings_reach_the_broker(broker: KafkaBroker) -> None:
    broker.create_topic("compacted", 1, {"cleanup.policy": "compact"})
    with pytest.raises(AssertionError, match=r"without key|INVALID_RECORD|Broker: "):
        produce(broker.bootstrap, "compacted", ["a compacted topic refuses a record without a key"])


def test_transactions_are_real(broker: KafkaBroker) -> None:
    broker.create_topic("transactions")
    produce(broker.bootstrap, "transactions", ["kept"], transactional_id="t").commit_transaction(30)
    produce(broker.bootstrap, "transactions", ["gone"], transactional_id="t").abort_transaction(30)
    assert read(broker.bootstrap, "transactions", "read_uncommitted") == ["kept", "gone"]
    assert read(broker.bootstrap, "transactions") == ["kept"]


def test_does_not_create_topics_by_itself(broker: KafkaBroker) -> None:
    host, port = broker.bootstrap.split(":")
    assert metadata(host, int(port), ["nobody-made-it"]).topics["nobody-made-it"].error == 3  # unknown topic
    assert "nobody-made-it" not in broker.topics()


def test_a_topic_twice_or_badly_named_is_explained(broker: KafkaBroker) -> None:
    broker.create_topic("twice")
    with pytest.raises(BrokerError, match="exists already"):
        broker.create_topic("twice")
    with pytest.raises(BrokerError, match="bad/name"):
        broker.create_topic("bad/name")
    with pytest.raises(BrokerError, match=r"no\.such\.setting"):
        broker.create_topic("settings", 1, {"no.such.setting": "1"})
    assert TOPIC_ALREADY_EXISTS == 36


def test_old_timestamps_are_kept(broker: KafkaBroker) -> None:
    """Conformance vectors write records at 10 ms after 1970; a retention would delete them."""
    broker.create_topic("old")
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("old", value=b"x", partition=0, timestamp=10)
    assert producer.flush(30) == 0
    assert read(broker.bootstrap, "old") == ["x"]
    assert "log.retention.ms=-1" in (broker.folder / "server.properties").read_text()


def test_data_survives_kill_and_restart() -> None:
    with KafkaBroker() as broker:
        broker.create_topic("kept", 2)
        produce(broker.bootstrap, "kept", [f"v{n}" for n in range(1000)], transactional_id="k").commit_transaction(30)
        produce(broker.bootstrap, "kept", ["open"], transactional_id="open")
        address, pid = broker.bootstrap, broker.pid
        broker.kill()
        assert not broker.is_running
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
        with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", int(address.split(":")[1]))):
            pass
        broker.restart()
        assert broker.bootstrap == address
        assert broker.pid != pid
        broker.wait_for_leaders("kept", 2)
        assert read_until(address, "kept", ["v999"]) == ["v999"]
        assert read(address, "kept") == [f"v{n}" for n in range(1000)]
        # Fences the open transaction: it is aborted, and records behind it become visible.
        produce(address, "kept", ["after"], transactional_id="open").commit_transaction(30)
        assert read_until(address, "kept", ["v999", "after"]) == ["v999", "after"]
        folder = broker.folder
    assert not folder.exists()


def test_a_given_folder_is_kept_and_used_again(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "data") as first:
        first.create_topic("t")
        produce(first.bootstrap, "t", ["one"])
    with KafkaBroker(tmp_path / "data") as second:
        second.wait_for_leaders("t", 1)
        assert read(second.bootstrap, "t") == ["one"]
    assert (tmp_path / "data" / "broker.log").is_file()


def test_a_wrong_setting_quotes_the_log() -> None:
    broken = KafkaBroker(settings={"num.io.threads": "none"})
    with pytest.raises(BrokerError) as raised:
        broken.start()
    broken.close()
    assert "num.io.threads" in str(raised.value)
    assert not broken.is_running


def test_a_taken_port_quotes_the_log() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        broken = KafkaBroker(
            settings={
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port}",
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "controller.quorum.voters": f"1@127.0.0.1:{port}",
            }
        )
        with pytest.raises(BrokerError, match=r"(?s)(could not format|ended with).*port"):
            broken.start()
        broken.close()


def test_the_command_prints_its_address_and_stops_with_stdin() -> None:
    command = [sys.executable, str(SCRIPT), "--print-bootstrap"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as served:
        assert served.stdin is not None
        assert served.stdout is not None
        host, port = served.stdout.readline().strip().split(":")
        assert 18 in api_versions(host, int(port))
        served.stdin.close()
        assert served.wait(60) == 0
    with pytest.raises(OSError):
        api_versions(host, int(port))


def test_the_command_stops_on_sigterm_and_leaves_nothing_after_sigkill(tmp_path: Path) -> None:
    for how, code in ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
        command = [sys.executable, str(SCRIPT), "--print-bootstrap", "--data", str(tmp_path / how.name)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as served:
            assert served.stdout is not None
            host, port = served.stdout.readline().strip().split(":")
            served.send_signal(how)
            assert served.wait(60) == code
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                api_versions(host, int(port), timeout=1.0)
            except (ConnectionError, WireError):  # refused, or reset while it dies
                break
            except TimeoutError:  # still there, but slow
                continue
            time.sleep(0.2)
        else:
            pytest.fail(f"the broker still answers {PATIENCE_S} s after {how.name} of its owner")


def test_missing_java_or_maven_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(BrokerError, match="openjdk-17-jre-headless"):
        find_java()
    with pytest.raises(BrokerError, match="apt-get install maven"):
        find_maven()
    old = tmp_path / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    old.chmod(0o755)
    with pytest.raises(BrokerError, match="is Java 11; Apache Kafka 4 needs 17"):
        find_java()


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25" 2025', 25),
        ("", None),
    ],
)
def test_java_versions(text: str, major: int | None) -> None:
    assert parse_java_major(text) == major


def test_a_failed_download_leaves_no_folder(tmp_path: Path) -> None:
    source, target = tmp_path / "pom.xml", tmp_path / "libs"
    source.write_text("1")

    def fail(partial: Path) -> None:
        (partial / "half.jar").write_text("half")
        raise BrokerError("no network")

    def succeed(partial: Path) -> None:
        (partial / "whole.jar").write_text(source.read_text())

    with pytest.raises(BrokerError):
        complete_folder(target, [source], fail)
    assert not target.exists()
    assert not list(tmp_path.glob("*partial*"))
    complete_folder(target, [source], succeed)
    complete_folder(target, [source], fail)  # already complete: not filled again
    source.write_text("2")
    assert (complete_folder(target, [source], succeed) / "whole.jar").read_text() == "2"
