"""`--json` of every command: one JSON object or array on stdout, and nothing else there."""

from __future__ import annotations

import argparse
import builtins
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.cli import main, parser_of_all
from stoatflow.cli.json_output import print_json, print_json_line

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guide" / "running.md"

WITHOUT = {
    "completion": "prints a script for a shell",
    "worker": "runs until it is stopped; its log is on stderr",
    "word-count": "the application of the demo; --follow prints JSON lines",
}
"""The commands without `--json`, each with its reason."""

ELSEWHERE = {
    "broker up": "tests/integration/test_broker_command.py",
    "hand-over from-spark": "tests/integration/spark_handover.py",
    "hand-over to-spark": "tests/integration/spark_handover.py",
    "prove": "tests/oracle/test_prove.py",
    "reconcile": "tests/spark/test_audit.py",
}
"""Commands that need Java: the test that reads their JSON."""

APP = """
import stoatflow as sf

print("the file is loaded")


def checked(value):
    if value < 0:
        raise ValueError("less than nothing")
    return value


builder = sf.StreamsBuilder()
numbers = builder.stream("in", key=str, value=int).map_values(checked, name="check", on_error=sf.DLQ("bad"))
numbers.group_by_key().count(store="counts").to_stream().to("out", key=str, value=int)
topology = builder.build()
copy = sf.StreamsBuilder()
copy.stream("in").to("out")
copied = copy.build()
"""
SPEC = """
seed = 1

[topics.made]
records = 3
key = { kind = "none" }
format = "text"
fields.line = { kind = "words", vocabulary = 3 }
"""
NEW = ["--application-id", "new", "--bootstrap", "{bootstrap}", "--dry-run"]
CASES = {
    "acls": ["{app}", "--config", "{config}"],
    "broker down": ["--dir", "{folder}/no-broker"],
    "broker status": ["--dir", "{folder}/no-broker"],
    "bundle": ["{url}", "--interval", "0", "-o", "{folder}"],
    "config explain": ["commit.interval.ms"],
    "config list": ["--config", "{config}"],
    "demo": ["--lines", "200", "--checked-by", "python", "--no-kill"],
    "describe": ["{app}"],
    "diff": ["{app}", "{app}"],
    "dlq list": ["bad", "--bootstrap", "{bootstrap}"],
    "dlq show": ["bad", "--bootstrap", "{bootstrap}"],
    "dlq replay": ["bad", "--bootstrap", "{bootstrap}", "--dry-run"],
    "doctor": ["{app}"],
    "explain": ["fenced"],
    "import-offsets": ["{app}:copied", "--from-group", "words", *NEW],
    "load": ["{folder}/spec.toml", "--bootstrap", "embedded:{folder}/loaded", "--manifest", "{folder}/manifest.json"],
    "new": ["made", "--in", "{folder}"],
    "query": ["{url}", "counts"],
    "record": ["--topic", "in", "--out", "{folder}/in.jsonl", "--bootstrap", "{bootstrap}"],
    "reset": ["{app}", "--config", "{config}", "--dry-run"],
    "run": ["{app}", "--config", "{config}", "--check"],
    "sql": ["{url}", "select * from counts", "--allow-scan"],
    "top": ["{url}"],
}
LINES = {"query", "sql"}
"""Commands whose rows are printed as they arrive: an object for each line."""
CODES = {"broker status": 1}


def actions(parser: argparse.ArgumentParser, name: str = "") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Return all commands, and in place of a command with actions each of its actions."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield name, parser
    for action in below:
        for word, each in action.choices.items():
            yield from actions(each, f"{name} {word}".strip())


ACTIONS = dict(actions(parser_of_all()))


def has_json(name: str) -> bool:
    return any("--json" in action.option_strings for action in ACTIONS[name]._actions)


@pytest.mark.parametrize("name", ACTIONS)
def test_each_command_has_json_output_or_a_reason(name: str) -> None:
    assert has_json(name) != (name in WITHOUT), f"give {name} a --json (cli/json_output.py), or a reason in WITHOUT"


def test_the_json_output_of_each_command_is_tested() -> None:
    assert set(WITHOUT) <= set(ACTIONS)
    assert CASES.keys() | ELSEWHERE.keys() == ACTIONS.keys() - WITHOUT.keys()
    for name, file in ELSEWHERE.items():
        assert '"--json"' in (ROOT / file).read_text("utf-8"), name


def test_the_guide_lists_what_each_command_prints() -> None:
    section = PAGE.read_text("utf-8").partition("\n## Output for programs\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.+?`) \|", section, re.MULTILINE)
    listed = [name.strip("`") for row in rows for name in row.split(", ") if not name.startswith("`--")]
    assert sorted(listed) == sorted(ACTIONS.keys() - WITHOUT.keys())


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """An application that runs, its files, and a dead letter."""
    folder = tmp_path_factory.mktemp("json")
    (folder / "words.py").write_text(APP, "utf-8")
    (folder / "spec.toml").write_text(SPEC, "utf-8")
    with sf.EmbeddedBroker(folder / "topics") as broker:
        for topic in ("in", "out", "bad"):
            broker.create_topic(topic, 1)
        rows = [(0, key, value.to_bytes(8, "big", signed=True), 5) for key, value in ((b"a", 1), (b"b", -1), (b"a", 2))]
        broker.produce_many("in", rows)
        config = folder / "words.toml"
        config.write_text(
            f'"application.id" = "words"\n"bootstrap.servers" = "embedded:{broker.path}"\n'
            f'"state.dir" = "{folder / "state"}"\n',
            "utf-8",
        )
        with sf.StoatFlow(topology(), sf.Settings.from_file(config, environ={}), broker=broker) as app:
            app.wait_until(caught_up=True)
            yield {
                "app": str(folder / "words.py"),
                "bootstrap": f"embedded:{broker.path}",
                "config": str(config),
                "folder": str(folder),
                "url": str(app.admin_url),
            }


def topology() -> sf.Topology:
    names: dict[str, Any] = {}
    exec(APP.replace("print(", "repr("), names)  # noqa: S102
    made: sf.Topology = names["topology"]
    return made


def parsed(name: str, text: str) -> list[Any]:
    """Return the rows of an output, or the one object or array that it is."""
    if name in LINES:
        return [json.loads(line) for line in text.splitlines()]
    found = json.loads(text)
    assert isinstance(found, dict | list)
    return [found]


@pytest.mark.parametrize("name", CASES)
def test_stdout_is_json_and_nothing_else(
    name: str, places: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(places["folder"])
    given = [word.format(**places) for word in CASES[name]]
    assert main([*name.split(), *given, "--json"]) == CODES.get(name, 0)
    printed = capsys.readouterr()
    assert parsed(name, printed.out)
    if name in {"describe", "diff", "doctor", "import-offsets", "reset", "run"}:
        assert "the file is loaded" in printed.err


def done(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_what_changes_nothing_is_not_done(
    places: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    reset = ["reset", places["app"], "--config", places["config"]]
    plan = done(capsys, *reset, "--dry-run")
    assert plan["application"] == "words"
    assert [(one["topic"], one["to"]) for one in plan["partitions"]] == [("in", 0)]
    assert plan["done"] is False
    assert done(capsys, *reset, "--orphans", "--dry-run")["done"] is False
    replay = done(capsys, "dlq", "replay", "bad", "--bootstrap", places["bootstrap"], "--dry-run")
    assert (replay["sent"], replay["done"], replay["replayed_now"]) == (1, False, 0)
    # The plan and the question are for people, and on stderr.
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(builtins, "input", lambda question: "no")
    assert main([*reset, "--json"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out)["done"] is False
    assert "reset of 'words' at" in printed.err


def test_without_a_terminal_an_error_leaves_stdout_empty(
    places: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["reset", places["app"], "--config", places["config"], "--json"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Next: add --yes to do it" in printed.err
    assert main(["query", places["url"], "nothing", "--json"]) == 1
    assert capsys.readouterr().out == ""


def test_what_is_done_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "words.py").write_text(APP, "utf-8")
    with sf.EmbeddedBroker(tmp_path / "topics") as broker:
        for topic in ("in", "out", "bad"):
            broker.create_topic(topic, 1)
        broker.produce("in", b"a", (-1).to_bytes(8, "big", signed=True))
        where = ["--bootstrap", f"embedded:{broker.path}", "--state-dir", str(tmp_path / "state")]
        application = [str(tmp_path / "words.py"), "--application-id", "words", *where]
        settings = {"application.id": "words", "state.dir": str(tmp_path / "state")}
        with sf.StoatFlow(topology(), sf.Settings(settings, environ={}), broker=broker) as app:
            app.wait_until(caught_up=True)
        replay = ["dlq", "replay", "bad", *where[:2], "--yes"]
        made = done(capsys, *replay)
        assert (made["sent"], made["replayed_now"], made["done"]) == (1, 1, True)
        made = done(capsys, *replay)
        assert (made["sent"], made["replayed_now"], made["done"]) == (0, 0, True)
        made = done(capsys, "reset", *application, "--yes")
        assert (made["partitions"][0]["to"], made["done"]) == (0, True)
        assert "words-counts-changelog" not in broker.topics()
        assert done(capsys, "reset", *application, "--orphans", "--yes")["done"] is True
        copied = [f"{application[0]}:copied", *application[1:]]
        copied[copied.index("words")] = "new"
        made = done(capsys, "import-offsets", *copied, "--from-group", "words", "--yes")
        assert (made["application"], made["partitions"][0]["to"], made["done"]) == ("new", 0, True)


def test_results_have_what_the_text_says(places: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    checked = done(capsys, "run", places["app"], "--config", places["config"], "--check")
    assert checked == {
        "application": "words", "valid": True, "reads": ["in"], "writes": ["out"], "stores": ["counts"],
    }  # fmt: skip
    on_spark = done(capsys, "describe", places["app"], "--engine", "spark")
    assert [(part["reads"], part["writes"], part["stores"]) for part in on_spark["parts"]] == [
        (["in"], ["out"], ["counts"])
    ]
    graph = done(capsys, "describe", places["app"])
    assert {node["kind"] for node in graph["nodes"]} == {"source", "processor", "sink"}
    assert main(["describe", places["app"], "--format", "json"]) == 0
    out = capsys.readouterr().out
    assert json.loads(out.removeprefix("the file is loaded\n")) == graph
    loaded = ["load", f"{places['folder']}/spec.toml", "--bootstrap", f"embedded:{places['folder']}/again"]
    manifest = f"{places['folder']}/made.json"
    assert done(capsys, *loaded, "--manifest", manifest) == json.loads(Path(manifest).read_text("utf-8"))
    made = done(capsys, "new", "project", "--in", places["folder"])
    folder = Path(made["folder"])
    there = [str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()]
    assert sorted(made["files"]) == sorted(there)
    taken = done(
        capsys, "record", "--topic", "in", "--out", f"{places['folder']}/x", "--bootstrap", places["bootstrap"]
    )
    assert taken["topics"] == {"in": 3}
    assert main(["--version", "--json"]) == 0
    versions = json.loads(capsys.readouterr().out)
    assert versions["stoatflow"] == sf.__version__
    assert "Python" in versions


def test_an_application_that_runs_on_has_no_json_output(
    places: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", places["app"], "--config", places["config"], "--json"]) == 2
    assert "--json is for --check and --batch" in capsys.readouterr().err


@pytest.mark.parametrize("data", [{"n": float("nan"), "rows": [float("inf"), (1.5, "ä")]}])
def test_numbers_that_json_does_not_have_are_null(data: object, capsys: pytest.CaptureFixture[str]) -> None:
    print_json(argparse.Namespace(), data)
    printed = capsys.readouterr().out
    assert json.loads(printed, parse_constant=pytest.fail) == {"n": None, "rows": [None, [1.5, "ä"]]}
    assert "ä" in printed


@pytest.mark.parametrize("text", ["ä", "\udcff"])
def test_text_that_stdout_cannot_encode_is_escaped(text: str) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    print_json_line(argparse.Namespace(stdout=out), [text])
    out.seek(0)
    assert json.loads(out.read()) == [text]


def test_a_reader_that_ends_early_is_no_failure(places: dict[str, str]) -> None:
    line = f"{sys.executable} -m stoatflow explain --json | head -c 1"
    ran = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=False, timeout=60)
    assert (ran.stdout, ran.stderr) == ("[", "")
