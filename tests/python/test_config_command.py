"""`stoatflow config`: settings with their values in force, from files, variables, flags, and a running application."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from admin_apps import TOKEN, application, runs
from stoatflow.cli import main


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(["config", *arguments]) == 0
    return capsys.readouterr().out


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STOATFLOW_COMMIT_INTERVAL_MS", raising=False)


def test_a_default(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "explain", "commit.interval.ms")
    assert text.startswith("commit.interval.ms (setting)\n")
    assert ", the default\n" in text
    assert "Kafka Streams: the same name: taken over" in text
    assert "variable: STOATFLOW_COMMIT_INTERVAL_MS" in text
    assert text.rstrip().endswith("page: docs/reference/settings.md")


def test_each_origin_wins_over_those_before(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "app.toml"
    file.write_text('commit.interval.ms = 70\n"sasl.password" = "hush"\n')
    given = ["explain", "STOATFLOW_COMMIT_INTERVAL_MS", "--config", str(file)]
    assert f"in force: 70, from the file {file}" in said(capsys, *given)
    monkeypatch.setenv("STOATFLOW_COMMIT_INTERVAL_MS", "80")
    assert "in force: 80, from the variable STOATFLOW_COMMIT_INTERVAL_MS" in said(capsys, *given)
    assert "in force: 90, from --set" in said(capsys, *given, "--set", "commit.interval.ms=90")
    (row,) = json.loads(said(capsys, *given, "--json"))
    assert (row["value"], row["source"]) == ("80", "variable STOATFLOW_COMMIT_INTERVAL_MS")
    assert row["kafka_streams"] == "taken over"
    text = said(capsys, "list", "--config", str(file))
    assert "hush" not in text
    assert f"sasl.password       ***  (from the file {file})" in text
    assert "state.dir" not in text
    everything = json.loads(said(capsys, "list", "--config", str(file), "--all", "--json"))
    assert everything["state.dir"]["source"] == "default"
    assert len(everything) > 50


def test_a_name_of_kafka_streams_that_is_no_setting(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "explain", "num.stream.threads")
    assert "lanes.count" in text
    assert "in force" not in text


def test_an_unknown_name_has_neighbours(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["config", "explain", "commit.intervall"]) == 2
    assert "commit.interval.ms" in capsys.readouterr().err


def test_nothing_set(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert "every setting has its default" in said(capsys, "list")
    assert main(["config", "list", "--set", "nonsense"]) == 2
    assert "--set NAME=VALUE" in capsys.readouterr().err


def test_a_running_application(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    app = application(tmp_path, **{"admin.token": TOKEN, "commit.interval.ms": 60})
    with app:
        runs(app)
        given = ["--url", str(app.admin_url), "--token", TOKEN]
        assert "in force: 60, from the application's code" in said(capsys, "explain", "commit.interval.ms", *given)
        text = said(capsys, "list", *given)
        assert TOKEN not in text
        assert "admin.token" in text
        assert main(["config", "list", "--url", str(app.admin_url)]) == 1
        assert "token" in capsys.readouterr().err
