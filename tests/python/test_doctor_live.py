"""`stoatflow doctor --live` without a server: settings, this machine, topics of an embedded broker, no broker."""

from __future__ import annotations

import json
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import pytest

import stoatflow as sf
from stoatflow._runtime import bridge
from stoatflow.cli import main
from stoatflow.doctor import live, machine, progress
from stoatflow.doctor.finding import _WHERE, Kind

APP = """
import stoatflow as sf

builder = sf.StreamsBuilder()
words = builder.stream("words", key=str, value=str)
words.group_by_key().count(store="counts").to_stream().to("counts", value=int)
topology = builder.build()
stateless = sf.StreamsBuilder()
stateless.stream("words", key=str, value=str).to("copies")
without_state = stateless.build()
"""
FINE = "settings, open files, state directory, other instances on this machine, broker, sources, open transactions"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an application, its settings, and its topics."""
    monkeypatch.chdir(tmp_path)
    Path("app.py").write_text(APP)
    configure()
    with sf.EmbeddedBroker(tmp_path / "broker") as broker:
        broker.create_topic("words", 2)
        broker.create_topic("counts", 1)
        broker.create_topic("copies", 1)
        broker.produce("words", "a", "a")
    return tmp_path


def configure(**more: object) -> None:
    given = {"application.id": "shop", "bootstrap.servers": f"embedded:{Path('broker').absolute()}"}
    given["state.dir"] = str(Path("state").absolute())
    Path("app.json").write_text(json.dumps(given | {name.replace("_", "."): value for name, value in more.items()}))


def found(capsys: pytest.CaptureFixture[str], app: str = "app.py") -> list[dict[str, Any]]:
    """All findings except those about functions."""
    assert main(["doctor", app, "--config", "app.json", "--live", "--json"]) == 0
    findings: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return findings


def kinds(findings: list[dict[str, Any]]) -> list[str]:
    return [finding["kind"] for finding in findings]


def test_no_findings_and_no_changes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "app.py", "--config", "app.json", "--live", "--strict"]) == 0
    assert capsys.readouterr().out == (
        f"Looked at and fine: {FINE}, positions, orphans, permissions to read, sinks and dead letters.\n"
        "Not looked at: permissions to write (stoatflow acls lists them), replicas and min.insync.replicas.\n"
        "Nothing to say.\n"
    )
    assert not Path("state").exists()
    with sf.EmbeddedBroker(folder / "broker") as broker:
        assert [name for name, _ in broker.topics().items()] == ["copies", "counts", "words"]


def test_settings_that_the_engine_refuses(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(lanes_count=0)
    assert main(["doctor", "app.py", "--config", "app.json", "--live", "--strict"]) == 1
    printed = capsys.readouterr().out
    assert "the settings: one setting is wrong:\n  lanes.count = 0: must be between 1 and 4096" in printed
    assert "Looked at and fine: nothing." in printed
    assert "Not looked at: anything else, as it goes by the settings." in printed
    assert "1 finding." in printed


def test_settings_without_effect(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(num_stream_threads=3)
    (only,) = found(capsys)
    assert only["kind"] == "settings"
    assert only["message"].startswith("one setting is without effect:\n  num.stream.threads = 3: ")


def test_no_broker_and_one_replica_of_several(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_WAIT_MS", 1)
    configure(bootstrap_servers="127.0.0.1:9,127.0.0.1:11", replication_factor=1)
    assert main(["doctor", "app.py", "--config", "app.json", "--live"]) == 0
    printed = capsys.readouterr().out
    assert "the settings: bootstrap.servers names 2 brokers, but with replication.factor = 1 " in printed
    assert "the broker: no broker answered at 127.0.0.1:9,127.0.0.1:11" in printed
    assert "    Next: start the broker or correct bootstrap.servers" in printed
    assert "Not looked at: topics and positions, as the broker can't be asked" in printed
    assert "broker," not in printed.partition("Looked at and fine: ")[2].splitlines()[0]


def found_with_400_files(app: str = "app.py") -> list[dict[str, Any]]:
    """In its own process, because this one may have more files open."""
    command = [sys.executable, "-m", "stoatflow", "doctor", app, "--config", "app.json", "--live", "--json"]
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limited = f"import os, resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (400, {hard}))"
    limited += "; os.execv(sys.argv[1], sys.argv[1:])"
    reported = subprocess.run([sys.executable, "-c", limited, *command], capture_output=True, text=True, check=True)
    findings: list[dict[str, Any]] = json.loads(reported.stdout)
    return findings


def test_file_handles(folder: Path) -> None:
    (only,) = found_with_400_files()
    assert only["kind"] == "open files"
    assert only["message"].startswith("a process may open 400 files here, and the application needs 1024: ")
    assert "ulimit -n 65536" in only["next_step"]
    assert found_with_400_files("app.py:without_state") == []
    configure(default_dsl_store="in_memory")
    assert found_with_400_files() == []


def test_a_state_directory_that_cannot_be_made(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("state").write_text("")
    (only,) = found(capsys)
    assert only["kind"] == "state directory"
    assert only["message"] == f"{folder}/state/shop can't be made: {folder}/state is a file"


@pytest.mark.parametrize(
    ("kind", "message"), [("tmpfs", "is in memory (tmpfs)"), ("nfs4", "is on another machine (nfs4)")]
)
def test_a_file_system_unsuitable_for_state(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, kind: str, message: str
) -> None:
    mounts = Path("mounts")
    monkeypatch.setattr(machine, "_MOUNTS", mounts)
    mounts.write_text(mount("/", "ext4") + mount(str(folder.resolve()), kind))
    (only,) = found(capsys)
    assert only["kind"] == "state directory"
    assert message in only["message"]
    mounts.write_text(mount("/", kind) + mount(str(folder.resolve()), "ext4"))
    assert found(capsys) == []


def mount(place: str, kind: str) -> str:
    return f"36 35 98:0 / {place} rw,noatime shared:1 - {kind} /dev/disk rw\n"


def test_the_file_system_of_a_path() -> None:
    mounts = mount("/", "overlay") + mount("/data", "ext4") + mount(r"/data/a\040b", "tmpfs") + mount("/data", "xfs")
    of = {place: machine.file_system(Path(place), mounts) for place in ("/data", "/data/a b/c", "/database", "/")}
    assert of == {"/data": "xfs", "/data/a b/c": "tmpfs", "/database": "overlay", "/": "overlay"}
    assert machine.file_system(Path("/data"), "") == ""


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="there is no tmpfs here")  # noqa: S108  # it is looked at
def test_memory_of_this_machine() -> None:
    assert machine.file_system(Path("/dev/shm"), Path("/proc/self/mountinfo").read_text()) == "tmpfs"  # noqa: S108


def test_a_disk_that_is_nearly_full(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(total=100 << 30, free=9 << 30))
    (only,) = found(capsys)
    assert only["kind"] == "disk"
    assert "has 9% left, 9216 MiB" in only["message"]
    monkeypatch.setattr(shutil, "disk_usage", lambda place: SimpleNamespace(total=100 << 30, free=11 << 30))
    assert found(capsys) == []


RUNNING = """
import sys
import stoatflow as sf
from app import topology

with sf.StoatFlow(topology, sf.Settings.from_file("running.json", environ={})) as app:
    app.wait_until(caught_up=True)
    print("running", flush=True)
    sys.stdin.read()
"""


def test_another_instance_has_the_state(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("running.json").write_text(Path("app.json").read_text().replace("/broker", "/broker-of-the-other"))
    with sf.EmbeddedBroker(folder / "broker-of-the-other") as broker:
        broker.create_topic("words", 2)
        broker.create_topic("counts", 1)
    child = subprocess.Popen(
        [sys.executable, "-c", RUNNING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder
    )
    assert child.stdin is not None
    assert child.stdout is not None
    with child:
        assert child.stdout.readline() == "running\n"
        (only,) = found(capsys)
        child.stdin.close()
        assert child.wait(60) == 0
    assert only["kind"] == "instance"
    assert only["message"].startswith(f"process {child.pid} has the state in {folder}/state/shop open")
    assert found(capsys) == []


def test_missing_topics_are_found(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("app.py").write_text(APP.replace('"words"', '"wrods"').replace('"counts", value', '"tallies", value'))
    configure(processing_exception_handler="log_and_continue", errors_dead_letter_queue_topic_name="letters")
    source, sink, letters = found(capsys)
    assert kinds([source, sink, letters]) == ["topic"] * 3
    assert source["message"].startswith("source topic(s) 'wrods' do not exist at embedded:")
    assert (sink["op"], sink["node"]) == ("sink", "tallies")
    assert (letters["op"], letters["node"]) == ("dead letters", "letters")
    assert main(["doctor", "app.py", "--config", "app.json", "--live"]) == 0
    seen = capsys.readouterr().out.partition("Looked at and fine: ")[2]
    assert "broker" in seen.splitlines()[0]
    assert "positions and open transactions, as sources are not there" in seen.splitlines()[1]
    configure(processing_exception_handler="dlq:copies")
    Path("app.py").write_text(APP)
    assert found(capsys) == []


def test_the_page_has_every_kind() -> None:
    page = (Path(__file__).parents[2] / "docs/guide/doctor.md").read_text("utf-8")
    assert [kind for kind in get_args(Kind) if kind != "expression" and kind not in page] == []
    listed = re.findall(
        r"^\| `([a-z ]+)` \|", page.partition("## Checks before a start")[2].partition("\n## ")[0], re.MULTILINE
    )
    assert set(listed) - {"kind"} == set(_WHERE)


def test_a_clock_that_is_behind(folder: Path) -> None:
    client = bridge.TopicsClient([("application.id", "shop"), ("bootstrap.servers", f"embedded:{folder}/broker")])
    assert list(progress.clock(client, "shop")) == []
    client.create_topic("shop-offsets", 1, [])
    now = int(time.time() * 1000)
    writer = client.writer("shop-by-hand")
    writer.begin()
    writer.send([("shop-offsets", 0, b"key", b"value", now, [])])
    writer.flush()
    assert writer.commit()
    assert list(progress.clock(client, "shop", now - 4_000)) == [None]
    (only,) = progress.clock(client, "shop", now - 90_000)
    assert only is not None
    assert only.kind == "clock"
    assert "at least 90 s behind that of the broker" in only.message
