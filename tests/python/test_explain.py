"""`stoatflow explain` and the log line that leads to it: all names of the engine's tables, offline, similar names."""

from __future__ import annotations

import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import stoatflow as sf
from http_calls import ask
from stoatflow._runtime.bridge import error_kinds, settings_schema, streams_config_markdown
from stoatflow.cli import main
from stoatflow.errors import ERRORS_BY_KIND
from stoatflow.explain.catalog import entries, find, nearest
from stoatflow.explain.causes import CAUSES

ROOT = Path(__file__).resolve().parents[2]


def test_an_error_is_found_by_class_and_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "FencedError"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("FencedError (error)\n  Another instance of the application took over.\n")
    assert "  exit code: 4\n" in printed
    assert "    - a second process was started with the same `application.id`" in printed
    assert "  Next: nothing if another instance with the same application.id runs now" in printed
    assert printed.endswith("  page: docs/reference/errors.md#fencederror\n")
    assert main(["explain", "fenced"]) == 0
    assert capsys.readouterr().out == printed


def test_a_setting_has_its_default_and_meaning(capsys: pytest.CaptureFixture[str]) -> None:
    (text,) = [text for name, _, _, text in settings_schema() if name == "commit.interval.ms"]
    assert main(["explain", "commit.interval.ms", "--json"]) == 0
    (reported,) = json.loads(capsys.readouterr().out)
    assert reported == {
        "sort": "setting",
        "name": "commit.interval.ms",
        "other_names": ["STOATFLOW_COMMIT_INTERVAL_MS"],
        "meaning": text,
        "type": "milliseconds",
        "default": "100",
        "variable": "STOATFLOW_COMMIT_INTERVAL_MS",
        "causes": [],
        "next_step": "",
        "see": [],
        "page": "docs/reference/settings.md",
    }


@pytest.mark.parametrize(
    ("name", "sort", "found"),
    [
        ("STOATFLOW_LANES_COUNT", "setting", "lanes.count"),
        ("lanes_count", "setting", "lanes.count"),
        ("null_key", "drop", "null_key"),
        ("processing_dead_letter", "drop", "processing_dead_letter"),
        ("stoatflow_dropped_records", "metric", "stoatflow_dropped_records_total"),
        ("watermark_lag_seconds", "metric", "stoatflow_watermark_lag_seconds"),
        ("process_open_fds", "metric", "process_open_fds"),
        ("num.stream.threads", "Kafka Streams", "num.stream.threads"),
    ],
)
def test_names_are_found_in_any_spelling(name: str, sort: str, found: str) -> None:
    (entry,) = find(name, entries())
    assert (entry.sort, entry.name) == (sort, found)
    assert entry.meaning


def test_an_unknown_name_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "comit.interval"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(
        "stoatflow: nothing is called 'comit.interval'. Next: the nearest: commit.interval.ms"
    )
    assert main(["explain", "zzqq"]) == 2
    assert capsys.readouterr().err.endswith("Next: `stoatflow explain` lists all that is known\n")
    assert nearest("Fenced", entries())[0] == "FencedError"


def test_without_a_name_it_lists_every_row_of_the_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    listed = set(re.findall(r"^  (\S+)", capsys.readouterr().out, flags=re.MULTILINE))
    assert {name for name, *_ in settings_schema()} <= listed
    assert {class_name for _, _, class_name in error_kinds()} <= listed
    assert set(re.findall(r"^\| `([^`]+)`", streams_config_markdown(), flags=re.MULTILINE)) <= listed
    assert main(["explain", "--json"]) == 0
    assert {reported["name"] for reported in json.loads(capsys.readouterr().out)} == listed


def test_explain_needs_no_network_and_imports_little() -> None:
    # There are no sockets, so every connection fails.
    program = (
        "import socket, sys\n"
        "def refuse(*_, **__): raise OSError('no network')\n"
        "socket.socket = refuse\n"
        "from stoatflow.cli import main\n"
        "assert main(['explain', 'fenced']) == 0\n"
        "assert 'pyarrow' not in sys.modules and 'stoatflow.builder' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_each_kind_of_error_has_its_causes() -> None:
    assert set(CAUSES) == set(ERRORS_BY_KIND)
    for kind, causes in CAUSES.items():
        assert causes.usual, kind
        assert causes.see, kind
        page, _, anchor = causes.page.partition("#")
        text = (ROOT / "docs" / page).read_text("utf-8")
        headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
        assert not anchor or anchor in {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in headings}


def test_causes_name_existing_settings_metrics_and_commands() -> None:
    known = {name for entry in entries() for name in entry.names}
    output = " ".join(each for causes in CAUSES.values() for each in (*causes.usual, *causes.see))
    names = set(re.findall(r"`((?:[a-z]+\.)+[a-z]+|stoatflow_\w+)(?:=\w+)?`", output))
    assert len(names) > 10
    assert names - known == {"isolation.level"}  # Kafka's own, of its client
    for command in set(re.findall(r"`stoatflow (\w+)", output)):
        with pytest.raises(SystemExit) as ended:
            main([command, "--help"])
        assert ended.value.code == 0


def test_an_error_on_the_command_line_ends_with_a_pointer_to_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "no_such_file.py"]) == 2
    assert capsys.readouterr().err.endswith("\nmore: stoatflow explain config\n")
    assert main(["diff", "no_such_file.py", "no_such_file.py"]) == 2
    assert capsys.readouterr().err.endswith("\nmore: stoatflow explain config\n")


def test_every_command_prints_errors_in_the_same_format() -> None:
    commands = ROOT / "python" / "stoatflow" / "cli"
    for source in commands.glob("*.py"):
        text = source.read_text("utf-8")
        caught = re.findall(r"except StoatFlowError as error:\n((?: +#.*\n)*)( +.*)\n", text)
        assert all("print_error(error)" in first for _, first in caught), source.name


def test_drop_reasons_in_code_match_the_table() -> None:
    """Every metric family of a running application is in the table, with the engine's own text and type."""
    measured = runpy.run_path(str(ROOT / "scripts" / "measured.py"))
    table = {name: (kind, text) for name, kind, text in measured["metrics"]()}
    builder = sf.StreamsBuilder()
    counts = builder.stream("in", key=str, value=int).group_by_key().count(store="counts")
    counts.to_stream().to("out", key=str, value=int)
    with sf.EmbeddedBroker() as broker:
        for topic in ("in", "out"):
            broker.create_topic(topic)
        broker.produce("in", None, (1).to_bytes(8, "big"))
        with sf.StoatFlow(builder.build(), {"application.id": "told"}, broker=broker) as app:
            app.wait_until(caught_up=True)
            text = ask(app.admin_url, "/metrics").text
            dropped = re.findall(r'stoatflow_dropped_records_total\{.*reason="(\w+)"', text)
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, flags=re.MULTILINE))
    families = {}
    for name, output in re.findall(r"^# HELP (\w+) (.*)$", text, flags=re.MULTILINE):
        ending = {"counter": "_total", "info": "_info"}.get(kinds[name], "")
        families[f"{name}{ending}".replace("_total_total", "_total")] = (kinds[name], output.removesuffix("."))
    assert len(families) > 50
    assert {name: reported for name, reported in families.items() if table.get(name) != reported} == {}
    assert dropped == ["null_key"]
    assert {entry.name for entry in entries() if entry.sort == "drop"} >= {*dropped, "late", "processing_error"}


def test_every_metric_in_the_source_is_listed() -> None:
    measured = runpy.run_path(str(ROOT / "scripts" / "measured.py"))
    admin = ROOT / "crates" / "engine" / "src" / "admin"
    sources = [admin / "metrics.rs", *(admin / "metrics").glob("*.rs")]
    call = re.compile(r"\bfamilies\s*\.(?:0\s*\.encode_descriptor|gauge|counter|durations)\(")
    written = sum(len(call.findall(source.read_text("utf-8"))) for source in sources)
    assert len(measured["metrics"]()) == written
