"""The fixture `kafka_broker` of the pytest plugin: a broker that it starts itself, and one that is given."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from broker.java_home import cache_dir
from broker.kafka_broker import KafkaBroker as Harness
from broker.maven_jars import kafka_jars

import stoatflow as sf
from stoatflow.testing.kafka import KafkaBroker
from stoatflow.testing.local_kafka import DEFAULT_VERSION, LocalKafka

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "testing.md"
BLOCK = PAGE.read_text("utf-8").partition("```python no-run\n")[2].partition("```")[0]
HEAD = """
import os
import stoatflow as sf
from pathlib import Path


def test_address(kafka_broker):
    Path(os.environ["SEEN"]).write_text(kafka_broker.bootstrap)


"""


def run(folder: Path, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(HEAD + BLOCK, "utf-8")
    environment = {name: value for name, value in os.environ.items() if name != "STOATFLOW_TEST_BOOTSTRAP"}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
        cwd=folder, env=environment | {"SEEN": str(folder / "seen")} | variables,
        capture_output=True, text=True, check=False, timeout=180,
    )  # fmt: skip


@pytest.fixture
def cache(tmp_path: Path) -> str:
    """A cache that has the jars of the default version, as Maven would fetch them."""
    folder = tmp_path / "cache" / "stoatflow" / "testing"
    folder.mkdir(parents=True)
    (folder / f"kafka-{DEFAULT_VERSION}").symlink_to(kafka_jars(DEFAULT_VERSION))
    return str(tmp_path / "cache")


def test_a_broker_is_started_for_the_tests_and_ends_with_them(tmp_path: Path) -> None:
    """Maven fetches the broker, from the folder of downloads of all tests."""
    maven = f"-Dmaven.repo.local={cache_dir() / 'maven'}"
    empty = str(tmp_path / "empty")
    done = run(tmp_path, XDG_CACHE_HOME=empty, MAVEN_OPTS=maven, TMPDIR=str(tmp_path))
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert (tmp_path / "seen").read_text("utf-8").startswith("127.0.0.1:")
    assert not list(tmp_path.glob("stoatflow-kafka-*"))
    (folder,) = (tmp_path / "empty" / "stoatflow" / "testing").iterdir()
    assert folder.name == f"kafka-{DEFAULT_VERSION}"
    assert {file.suffix for file in folder.iterdir()} == {".jar"}


@pytest.mark.parametrize("by", ["option", "variable"])
def test_a_given_broker_is_used(cluster: Harness, tmp_path: Path, by: str) -> None:
    # Without Java none could be started.
    nothing = {"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path)}
    if by == "option":
        done = run(tmp_path, "--stoatflow-bootstrap", cluster.bootstrap, **nothing)
    else:
        done = run(tmp_path, STOATFLOW_TEST_BOOTSTRAP=cluster.bootstrap, **nothing)
    assert "2 passed" in done.stdout, done.stdout + done.stderr
    assert (tmp_path / "seen").read_text("utf-8") == cluster.bootstrap


def test_without_java_the_error_says_what_to_do(tmp_path: Path) -> None:
    done = run(tmp_path, JAVA_HOME=str(tmp_path / "none"))
    assert "the broker of the fixture kafka_broker needs Java" in done.stdout, done.stdout
    assert "install a JDK" in done.stdout
    done = run(tmp_path, "--stoatflow-kafka", "new")
    assert "--stoatflow-kafka new is no version. Next: write one such as 4.1.1" in done.stdout


def test_records_are_written_and_read(cluster: Harness) -> None:
    with KafkaBroker(cluster.bootstrap) as broker:
        broker.create_topic("kit", 3)
        broker.create_topic("kit-compacted", 1, {"cleanup.policy": "compact"})
        with pytest.raises(sf.SerdeError, match="Compacted topic cannot accept message without key"):
            broker.produce("kit-compacted", None, "text")
        broker.produce("kit-compacted", "key", "text")
        assert [record.value for record in broker.wait_for("kit-compacted", 1)] == [b"text"]
        broker.create_topic("kit", 3)
        assert list(broker.read("kit")) == []
        broker.produce_many("kit", [(None, b"%d" % number, b"v", number) for number in range(50)])
        broker.produce("kit", None, "text", timestamp=99, partition=2)
        found = broker.wait_for("kit", 51)
        assert sorted(record.timestamp for record in found) == [*range(50), 99]
        assert (found[-1].partition, found[-1].value) == (2, b"text")
        assert {record.partition for record in found} == {0, 1, 2}
        with sf.EmbeddedBroker() as embedded:
            embedded.create_topic("kit", 3)
            embedded.produce_many("kit", [(None, b"%d" % number, b"v", number) for number in range(50)])
            same = {record.key: record.partition for record in embedded.read("kit")}
        assert {record.key: record.partition for record in found if record.key} == same
        began = time.monotonic()
        with pytest.raises(AssertionError, match=r"'kit' has 51 record\(s\) after 200ms, not 60. Next: see the log"):
            broker.wait_for("kit", 60, timeout="200ms")
        assert time.monotonic() - began < 10
        for call in (broker.read, lambda topic: iter([broker.produce(topic, "k", "v")])):
            with pytest.raises(
                sf.MissingTopicError, match=r"'none' does not exist .*Next: create it with create_topic"
            ):
                next(call("none"))


def test_a_killed_test_run_leaves_no_broker(tmp_path: Path, cache: str) -> None:
    code = "from stoatflow.testing.local_kafka import LocalKafka\nwith LocalKafka() as b:\n"
    code += "    print(b._process.pid, b._folder, flush=True)\n    import time; time.sleep(60)"
    with subprocess.Popen(
        [sys.executable, "-c", code], env=os.environ | {"XDG_CACHE_HOME": cache}, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        pid, folder = running.stdout.readline().split()
        running.kill()
    # A broker without its folder ends too, but later.
    deadline = time.monotonic() + 5
    while (Path(f"/proc/{pid}").exists() or Path(folder).exists()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not Path(f"/proc/{pid}").exists()
    assert not Path(folder).exists()


def test_a_broker_that_does_not_start_is_quoted(tmp_path: Path, cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", cache)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = (taken.getsockname()[1], 1)
        monkeypatch.setattr("stoatflow.testing.local_kafka._free_ports", lambda: ports)
        with pytest.raises(sf.BrokerUnavailableError, match=r"(?s)while starting; its last log.*or name a broker that"):
            LocalKafka().__enter__()
