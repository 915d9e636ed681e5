"""The embedded broker: topics on disk, read back as they were written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import stoatflow as sf
from stoatflow import EmbeddedBroker, EmbeddedRecord


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path / "broker") as made:
        yield made


def test_write_and_read(broker: EmbeddedBroker) -> None:
    broker.create_topic("t", 2)
    assert broker.produce_many("t", [(1, b"k", b"v", 5), (0, None, b"w", 6), (1, b"k", None, 7)]) == 3
    assert list(broker.read("t")) == [
        EmbeddedRecord(0, 0, None, b"w", 6),
        EmbeddedRecord(1, 0, b"k", b"v", 5),
        EmbeddedRecord(1, 1, b"k", None, 7),
    ]
    assert broker.end_offsets("t") == {0: 1, 1: 2}
    assert broker.topics() == {"t": 2}


def test_many_pages(broker: EmbeddedBroker) -> None:
    broker.create_topic("t")
    wanted = 10_001
    assert broker.produce_many("t", ((0, None, b"%d" % i, i) for i in range(wanted))) == wanted
    records = list(broker.read("t"))
    assert [record.offset for record in records] == list(range(wanted))
    assert records[-1].value == b"10000"


def test_a_key_keeps_its_partition(broker: EmbeddedBroker) -> None:
    broker.create_topic("t", 4)
    for _ in range(3):
        broker.produce("t", b"key", b"v", timestamp=1)
    assert sorted(broker.end_offsets("t").values()) == [0, 0, 0, 3]


def test_records_stay_on_disk(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "b") as one:
        one.create_topic("t")
        one.produce("t", b"k", b"v", timestamp=1)
    with EmbeddedBroker(tmp_path / "b") as two:
        assert [record.value for record in two.read("t")] == [b"v"]
        assert two.path == str(tmp_path / "b")


def test_a_missing_topic_is_named(broker: EmbeddedBroker) -> None:
    with pytest.raises(sf.MissingTopicError, match="nowhere"):
        broker.produce("nowhere", None, b"v")
    with pytest.raises(sf.MissingTopicError, match="nowhere"):
        broker.end_offsets("nowhere")


def test_wrong_isolation(broker: EmbeddedBroker) -> None:
    broker.create_topic("t")
    with pytest.raises(ValueError, match="read_uncommitted"):
        list(broker.read("t", "serializable"))


def test_one_process_at_a_time(broker: EmbeddedBroker) -> None:
    code = f"from stoatflow import EmbeddedBroker; EmbeddedBroker({broker.path!r})"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "stoatflow.errors.StateLockedError" in ended.stderr
    assert "Next: " in ended.stderr


FORGETS = """
import os
import stoatflow as sf

broker = sf.EmbeddedBroker()
broker.create_topic("t")
print(broker.native.path, flush=True)
if os.fork() == 0:
    raise SystemExit  # A copy of the process, which owns nothing.
os.wait()
print(os.path.exists(broker.native.path))
builder = sf.StreamsBuilder()
builder.stream("t").group_by_key().count(store="counts")
app = sf.StoatFlow(builder.build(), {"application.id": "a", "default.dsl.store": "in_memory"}, broker=broker)
app.start()
"""


def test_the_end_of_the_process_removes_a_temporary_directory(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", FORGETS],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    path, seen_after_the_fork = ended.stdout.split()
    assert Path(path).parent == tmp_path
    assert seen_after_the_fork == "True"
    assert not list(tmp_path.glob("stoatflow-embedded-*"))


def counting(name: str = "counting") -> tuple[sf.Topology, dict[str, object]]:
    builder = sf.StreamsBuilder()
    builder.stream("words", key=str, value=str).group_by_key().count(store="counts")
    return builder.build(), {"application.id": name}


def counts(broker: EmbeddedBroker | None, **settings: object) -> dict[str, int]:
    topology, config = counting()
    with sf.StoatFlow(topology, {**config, **settings}, broker=broker) as app:
        app.wait_until(caught_up=True)
        return dict(app.store("counts").all())


def test_a_second_run_on_new_temporary_topics_starts_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STOATFLOW_STATE_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for _ in range(2):
        with EmbeddedBroker() as broker:
            broker.create_topic("words")
            broker.produce("words", "a", "1")
            assert counts(broker) == {"a": 1}
            assert (Path(broker.path) / "state" / "counting").is_dir()
    assert list(tmp_path.iterdir()) == []


def test_state_is_beside_the_topics_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STOATFLOW_STATE_DIR", raising=False)
    with EmbeddedBroker(tmp_path / "topics") as broker:
        broker.create_topic("words")
        broker.produce("words", "a", "1")
        assert counts(broker) == {"a": 1}
    # By its address alone, and from the state that is there.
    assert counts(None, bootstrap_servers=f"embedded:{tmp_path / 'topics'}") == {"a": 1}
    assert (tmp_path / "topics" / "state" / "counting").is_dir()
    with EmbeddedBroker(tmp_path / "topics") as broker:
        assert "counting-counts-changelog" in broker.topics()


def test_the_state_of_an_application_on_no_folder_is_temporary_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STOATFLOW_STATE_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    builder = sf.StreamsBuilder()
    builder.scheduled("beats", every="10ms").group_by_key().count(store="counts")
    config = {"application.id": "beating", "bootstrap.servers": "embedded:"}
    for _ in range(2):
        with sf.StoatFlow(builder.build(), config) as app:
            app.wait_until("RUNNING")
    assert list(tmp_path.iterdir()) == []


def test_a_configured_state_directory_is_used(tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "topics") as broker:
        broker.create_topic("words")
        assert counts(broker, state_dir=tmp_path / "elsewhere") == {}
    assert (tmp_path / "elsewhere" / "counting").is_dir()
    assert not (tmp_path / "topics" / "state").exists()
