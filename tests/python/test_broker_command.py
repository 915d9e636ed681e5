"""What `stoatflow broker` refuses, and what it leaves alone. (A real one is in tests/integration.)"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from stoatflow.cli import broker, main


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that says that it is Java."""
    program = tmp_path / "jdk" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho 'openjdk version \"17.0.9\"' >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(program.parents[1]))
    return program


@pytest.fixture
def kafka(tmp_path: Path) -> Path:
    libs = tmp_path / "kafka" / "libs"
    libs.mkdir(parents=True)
    (libs / "kafka_2.13-4.1.1.jar").touch()
    return tmp_path / "kafka"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(["broker", *arguments]) == 2
    return capsys.readouterr().err


def test_what_is_missing_is_named(
    tmp_path: Path, java: Path, kafka: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    up = ["up", "--dir", str(tmp_path / "broker")]
    monkeypatch.delenv("KAFKA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "kafka.apache.org/downloads" in refused(capsys, *up)
    assert "has no libs/kafka_2" in refused(capsys, *up, "--kafka", str(tmp_path))
    assert "--topic orders:4" in refused(capsys, *up, "--topic", "orders:many")
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.1\"' >&2\n")
    assert "older than Java 17" in refused(capsys, *up, "--kafka", str(kafka))
    java.unlink()
    assert "can't be run" in refused(capsys, *up, "--kafka", str(kafka))
    monkeypatch.delenv("JAVA_HOME")
    assert "there is no Java" in refused(capsys, *up, "--kafka", str(kafka))


def test_a_port_that_is_taken(tmp_path: Path, java: Path, kafka: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        up = ["up", "--dir", str(tmp_path / "broker"), "--kafka", str(kafka)]
        assert "--port" in refused(capsys, *up, "--port", port)


def test_a_broker_that_does_not_start(
    tmp_path: Path, java: Path, kafka: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    folder = tmp_path / "broker"
    up = ["up", "--dir", str(folder), "--kafka", str(kafka), "--port", port]
    assert "can't format its storage" in refused(capsys, *up)
    java.write_text(
        '#!/bin/sh\necho \'openjdk version "17"\' >&2\ncase "$*" in *kafka.Kafka*) echo broken; exit 3; esac\n'
    )
    text = refused(capsys, *up)
    assert "doesn't start" in text
    assert "broken" in text
    assert not (folder / "broker.json").exists()


def test_a_process_that_is_no_broker_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A process id may be used again after a reboot."""
    state = {"bootstrap": "127.0.0.1:1", "pid": os.getpid(), "kafka": "4", "log": "x"}
    (tmp_path / "broker.json").write_text(json.dumps(state))
    assert main(["broker", "status", "--dir", str(tmp_path)]) == 1
    assert main(["broker", "down", "--dir", str(tmp_path), "--delete"]) == 0
    assert tmp_path.exists(), "it is not a directory of this command"
    assert "no broker runs" in capsys.readouterr().out


@pytest.mark.parametrize("ours", [True, False], ids=["own child", "started by another command"])
def test_down_waits_until_the_process_has_closed_its_files(
    ours: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A process that is ending loses its command line some time before it closes its files."""
    server = tmp_path / "server.properties"
    ready, ended = tmp_path / "ready", tmp_path / "ended"
    loop = f"trap 'sleep 0.5; touch {ended}; exit' TERM; touch {ready}; while :; do sleep 0.05; done"
    run = ["/bin/sh", "-c", loop, "sh", str(server)]
    if ours:
        child = subprocess.Popen(run)
        pid = child.pid
    else:
        start = '"$@" >/dev/null 2>&1 & echo $!'
        pid = int(subprocess.run(["/bin/sh", "-c", start, "sh", *run], capture_output=True, check=True).stdout)
    while not ready.exists():
        time.sleep(0.01)
    (tmp_path / "broker.json").write_text(json.dumps({"pid": pid}))
    command_line = broker._command_line

    def loses_it_at_once(asked: int) -> str:
        monkeypatch.setattr(broker, "_command_line", lambda _: "")
        return command_line(asked)

    monkeypatch.setattr(broker, "_command_line", loses_it_at_once)
    assert main(["broker", "down", "--dir", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"stopped": True, "deleted": False}
    assert ended.exists()
    if ours:
        child.wait()
