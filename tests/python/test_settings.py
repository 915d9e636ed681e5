"""Settings: layers, origins, forms; the engine decides what is valid."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from pathlib import Path

import pytest

import stoatflow as sf


def test_order_of_layers(tmp_path: Path) -> None:
    path = tmp_path / "app.toml"
    path.write_text('[processing]\nguarantee = "file"\n[lanes]\ncount = 1\n[state]\ndir = "/file"\n', "utf-8")
    environ = {"STOATFLOW_LANES_COUNT": "2", "STOATFLOW_STATE_DIR": "/variable", "PATH": "x", "STOATFLOW_LOG": "debug"}
    settings = sf.Settings.from_file(path, {"state.dir": "/argument"}, environ=environ)
    assert dict(settings.pairs()) == {"processing.guarantee": "file", "lanes.count": "2", "state.dir": "/argument"}
    assert settings.origin("processing.guarantee") == f"file {path}"
    assert settings.origin("lanes.count") == "variable STOATFLOW_LANES_COUNT"
    assert settings.origin("state.dir") == "argument"
    assert settings.origin("commit.interval.ms") == "default"


def test_the_environment_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOATFLOW_APPLICATION_ID", "from-env")
    assert sf.Settings().get("application.id") == "from-env"
    assert "application.id" not in sf.Settings(environ={})


def test_keywords_and_mapping(tmp_path: Path) -> None:
    settings = sf.Settings(
        {"consumer.fetch.min.bytes": 5},
        environ={},
        application_id="a",
        commit_interval_ms=timedelta(seconds=2),
        state_dir=tmp_path,
        bootstrap_servers=["h:1", "h:2"],
    )
    assert dict(settings.pairs()) == {
        "consumer.fetch.min.bytes": 5,
        "application.id": "a",
        "commit.interval.ms": 2000,
        "state.dir": str(tmp_path),
        "bootstrap.servers": "h:1,h:2",
    }
    with pytest.raises(sf.ConfigError, match=r"given twice.*application\.id"):
        sf.Settings({"application.id": "a"}, application_id="b")


def test_json_file(tmp_path: Path) -> None:
    path = tmp_path / "app.json"
    path.write_text(json.dumps({"application.id": "a", "consumer": {"fetch.min.bytes": 1}}), "utf-8")
    settings = sf.Settings.from_file(path, environ={})
    assert dict(settings.pairs()) == {"application.id": "a", "consumer.fetch.min.bytes": 1}


def test_java_properties_file(tmp_path: Path) -> None:
    path = tmp_path / "streams.properties"
    path.write_text(
        "# a comment\n! another\n\napplication.id = words\nbootstrap.servers:one:9092,\\\n    two:9092\n"
        "state.dir  /data/a\\ b\nclient.id=caf\\u00e9\nsasl.jaas.config=a=b \\\\\n",
        "utf-8",
    )
    settings = sf.Settings.from_file(path, environ={})
    assert dict(settings.pairs()) == {
        "application.id": "words",
        "bootstrap.servers": "one:9092,two:9092",
        "state.dir": "/data/a b",
        "client.id": "café",
        "sasl.jaas.config": "a=b \\",
    }


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", "x = ", "is not valid"),
        ("a.json", "[1]", "must hold an object"),
        ("a.yaml", "x: 1", r"neither \.toml nor \.json"),
        ("a.toml", None, "can't be read"),
    ],
)
def test_bad_files(tmp_path: Path, name: str, text: str | None, message: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(sf.ConfigError, match=message):
        sf.Settings.from_file(tmp_path / name)


def test_problems_name_their_origin() -> None:
    settings = sf.Settings(
        {"bootstrap.servers": "embedded:"}, environ={"STOATFLOW_APPLICATION_ID": "a", "STOATFLOW_LANES_COUNTT": "2"}
    )
    with pytest.raises(sf.ConfigError) as caught:
        settings.check()
    assert "lanes.countt comes from variable STOATFLOW_LANES_COUNTT" in str(caught.value)
    assert "STOATFLOW_APPLICATION_ID" not in str(caught.value)


def test_all_problems_at_once() -> None:
    with pytest.raises(sf.ConfigError) as caught:
        sf.Settings({"aplication.id": "a", "no.such.thing": 1}, environ={}).check()
    for problem in ("aplication.id", "no.such.thing", "application.id", "bootstrap.servers"):
        assert problem in caught.value.message


def test_secrets_are_not_shown() -> None:
    shown = repr(sf.Settings({"sasl.password": "hunter2", "application.id": "a"}, environ={}))
    assert "hunter2" not in shown
    assert "'a' (argument)" in shown


def test_variables_of_tests_are_no_settings() -> None:
    """Other variables would be rejected as settings, unnoticed in long runs that are rarely started."""
    root = Path(__file__).parents[2]
    asked = re.compile(r'environ\.get\("(STOATFLOW_[A-Z_]+)"')
    read = {name for each in (root / "tests").rglob("*.py") for name in asked.findall(each.read_text("utf-8"))}
    assert "STOATFLOW_TEST_SKEW_CASES" in read
    assert not {name for name in read if not name.startswith("STOATFLOW_TEST_")}
