"""`stoatflow broker` starts a real Kafka, finds it again, and stops it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from broker.broker_config import free_port_numbers
from broker.java_home import find_java
from broker.maven_jars import kafka_jars

import stoatflow as sf
from stoatflow.cli import main


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("JAVA_HOME", str(find_java().resolve().parents[1]))
    monkeypatch.setenv("KAFKA_HOME", str(kafka_jars()))
    folder = tmp_path / "broker"
    yield folder
    main(["broker", "down", "--dir", str(folder)])


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, object]:
    capsys.readouterr()
    assert main(["broker", *arguments, "--json"]) == code
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_a_broker_is_started_used_and_stopped(home: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (port,) = free_port_numbers(1)
    where = ["--dir", str(home)]
    assert said(capsys, "status", *where, code=1) == {"running": False}
    up = ["up", *where, "--port", str(port), "--topic", "in:3", "--topic", "out"]
    started = said(capsys, *up)
    assert started["bootstrap"] == f"127.0.0.1:{port}"
    assert said(capsys, "status", *where)["pid"] == started["pid"]
    assert said(capsys, *up)["pid"] == started["pid"], "it runs already, and so do its topics"
    builder = sf.StreamsBuilder()
    builder.stream("in").to("out")
    settings = {"application.id": "app", "bootstrap.servers": started["bootstrap"], "state.dir": str(tmp_path / "s")}
    with sf.StoatFlow(builder.build(), sf.Settings(settings, environ={})) as app:
        app.wait_until(caught_up=True, timeout="60s")
        assert len({partition for _, partition, _, _ in app._engine.positions()}) == 3
    assert said(capsys, "down", *where) == {"stopped": True, "deleted": False}
    pid = int(str(started["pid"]))
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert said(capsys, "status", *where, code=1) == {"running": False}
    again = said(capsys, "up", *where, "--port", str(port))
    assert again["pid"] != started["pid"]
    with sf.StoatFlow(builder.build(), sf.Settings(settings, environ={})) as app:
        app.wait_until(caught_up=True, timeout="60s")
    assert said(capsys, "down", *where, "--delete") == {"stopped": True, "deleted": True}
    assert not home.exists()
    assert said(capsys, "down", *where) == {"stopped": False, "deleted": False}
