"""`stoatflow bundle`: everything in it, no secret, no data, whatever hangs."""

from __future__ import annotations

import io
import json
import os
import re
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from bundle_tools import ANSWERS, OF_MACHINE, bundle, port_proxy, works_off
from certificates import Authority
from committed import HeldUp, Make
from concurrency import until
from http_calls import ask
from stoatflow import EmbeddedBroker, StoatFlow
from stoatflow.bundle.archive import write
from stoatflow.bundle.endpoints import PATHS
from stoatflow.bundle.findings import findings
from stoatflow.bundle.part import KEEP_MOST
from stoatflow.cli import main
from stoatflow.cli.admin_port import usual_address

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "a-token-that-nobody-guesses"  # noqa: S105


def refuse(value: str) -> str:
    if value.startswith("bad"):
        raise ValueError(f"no '{value}', says\n  File \"{value}\"")
    return value


def shouting() -> sf.Topology:
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    checked = stream.map_values(refuse, name="refuse", on_error=sf.log_and_continue())
    checked.group_by_key().count(store="counts")
    return builder.build()


# Contents --------------------------------------------------------------------------------------------------


def test_a_bundle_is_complete_and_holds_no_record_data(
    broker: EmbeddedBroker, make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broker.produce_many("in", [(0, b"ann-key", b"good", 5), (0, b"bob-key", b"bad-secret-value", 6)])
    with make(shouting()) as app:
        works_off(app)
        made = bundle(tmp_path, app.admin_url, interval="0.2")
        with_data = bundle(tmp_path, app.admin_url, "--with-data")
    assert set(made.texts) == ANSWERS | OF_MACHINE | {"SUMMARY.md", "MANIFEST.json"}
    assert made.missing == {}
    assert {each["file"] for each in made.manifest["parts"]} == set(made.texts) - {"MANIFEST.json"}
    assert (made.manifest["application"], made.manifest["with_data"]) == ("app", False)
    (folder,) = made.folders
    assert re.fullmatch(r"stoatflow-app-\d{8}T\d{6}Z", folder)

    (error,) = made.data("errors.json")["errors"]
    assert (error["node"], error["exception"], error["count"]) == ("refuse", "ValueError", 1)
    assert (error["topic"], error["partition"], error["offset"]) == ("in", 0, 1)
    assert "in refuse" in error["traceback"]
    for text in ("bad-secret-value", "ann-key", "bob-key"):
        assert text not in made.everything()
    assert "bad-secret-value" in with_data.data("errors.json")["errors"][0]["message"]
    assert with_data.manifest["with_data"] is True

    for line in ("| state | RUNNING since ", "| ready | yes |", f"| version | {sf.__version__} on Python "):
        assert line in made.summary
    assert "ValueError x1 (processing_error)" in made.summary
    assert "1 record was left out at 'refuse': processing_error" in made.summary
    assert "records read 0.0/s" in made.summary
    assert made.data("process.json")["pid"] == os.getpid()
    assert made.data("process.json")["limits"]["Max open files"]["soft"]
    assert made.data("state-directory.json")["bytes"] > 0
    assert made.data("state-directory.json")["disk"]["free_bytes"] > 0
    assert made.data("versions.json")["packages"]["pytest"] == pytest.__version__
    printed = capsys.readouterr()
    assert printed.out.splitlines()[0].startswith(f"{tmp_path}/made.zip (")
    assert printed.err == "keys and values of records are in it (--with-data)\n"


def test_a_bundle_lists_the_endpoints_of_the_application_and_calls_none(make: Make, tmp_path: Path) -> None:
    called: list[str] = []
    with make(shouting()) as app:
        app.endpoint("GET", "/orders")(lambda: called.append("orders"))
        made = bundle(tmp_path, app.admin_url, "--with-data", interval="0.2")
    assert "/app/orders" in made.texts["endpoints.json"]
    assert made.missing == {}
    assert called == []


def test_only_the_owner_can_read_the_file_and_no_other_file_is_left(
    broker: EmbeddedBroker, make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with make(shouting()) as app:
        works_off(app)
        url = str(app.admin_url)
        assert main(["bundle", url, "-o", str(folder), "--interval", "0", "--timeout", "60", "--json"]) == 0
        reported = json.loads(capsys.readouterr().out)
        (path,) = folder.iterdir()
        assert re.fullmatch(r"stoatflow-app-\d{8}T\d{6}Z\.zip", path.name)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert (reported["path"], reported["bytes"], reported["application"]) == (str(path), path.stat().st_size, "app")
        assert (reported["missing"], set(reported["files"])) == ([], ANSWERS | OF_MACHINE | {"SUMMARY.md"})
        assert main(["bundle", url, "-o", str(folder / "none" / "made.zip")]) == 2
        assert f"there is no folder {folder / 'none'}" in capsys.readouterr().err
    # It can't be renamed to an existing folder: the written file is removed.
    with pytest.raises(IsADirectoryError):
        write(folder, "inside", [], {})
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith(".")] == []


def test_rates_are_of_the_time_between(broker: EmbeddedBroker, make: Make, tmp_path: Path) -> None:
    done = threading.Event()

    def write() -> None:
        while not done.wait(0.02):
            broker.produce_many("in", [(0, b"k", b"v", 5)] * 20)

    writer = threading.Thread(target=write)
    with make(shouting()) as app:
        works_off(app)
        writer.start()
        try:
            until(lambda: app.metrics()["records_committed"] > 0)
            # A thousand per second, unless the machine is slow: then there are few, or those of some seconds
            # together.
            for _ in range(10):
                made = bundle(tmp_path, app.admin_url, interval="1")
                (rate,) = re.findall(r"records read ([\d.]+)/s", made.summary)
                if float(rate) > 50:
                    break
        finally:
            done.set()
            writer.join()
    assert 50 < float(rate) < 20_000


# Secrets ---------------------------------------------------------------------------------------------------

APP = """
import logging, os, sys
import stoatflow as sf

def say(value):
    for name in ("STOATFLOW_SASL_JAAS_CONFIG", "REGISTRY_ADDRESS", "MY_SERVICE_TOKEN"):
        print("plain", os.environ[name], file=sys.stderr)
    print("connecting with ssl.key.password=hidden-5 and", "postgres://ann:hidden-6@db/orders", file=sys.stderr)
    print("Authorization: Basic aGlkZGVuLTc6aGlkZGVuLTc=", file=sys.stderr)
    print("-----BEGIN PRIVATE KEY-----\\nMIIhidden8\\n-----END PRIVATE KEY-----", file=sys.stderr, flush=True)
    raise ValueError("password=hidden-9")

builder = sf.StreamsBuilder()
said = builder.stream("in", key=str, value=str).map_values(say, name="say", on_error=sf.log_and_continue())
said.group_by_key().count(store="counts")
topology = builder.build()
"""
VARIABLES = {
    "STOATFLOW_ADMIN_TOKEN": "hidden-token-0123456789",
    "STOATFLOW_SASL_JAAS_CONFIG": 'org.apache.Plain required username="ann" password="hidden-1;x";',
    "STOATFLOW_SASL_PASSWORD": "hidden-2",
    "STOATFLOW_SSL_KEY_PASSWORD": "hidden-3",
    "STOATFLOW_BASIC_AUTH_USER_INFO": "ann:hidden-4",
    "STOATFLOW_SASL_OAUTHBEARER_CLIENT_SECRET": "hidden-10",
    "REGISTRY_ADDRESS": "https://ann:hidden-11@registry/",
    "MY_SERVICE_TOKEN": "hidden-12",
}


@contextmanager
def running(folder: Path, variables: dict[str, str], *arguments: str) -> Iterator[str]:
    """`stoatflow run` on an embedded broker; yields its address. The log is `log.txt`."""
    with EmbeddedBroker(folder / "topics") as broker:
        broker.create_topic("in")
        broker.create_topic("out")
        broker.produce("in", "k", "v")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("STOATFLOW_")}
    given = [
        "--application-id",
        "ran",
        "--bootstrap",
        f"embedded:{folder}/topics",
        "--state-dir",
        str(folder / "state"),
    ]
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "stoatflow", "run", "app.py", *given, *arguments],
            cwd=folder, env=environment | variables, stderr=log, stdout=log,
        )  # fmt: skip
    try:
        address = re.compile(r'"admin":"([^"]*)"')
        until(lambda: process.poll() is not None or address.search((folder / "log.txt").read_text()) is not None)
        found = address.search((folder / "log.txt").read_text())
        assert found is not None, (folder / "log.txt").read_text()
        yield found[1]
    finally:
        process.terminate()
        process.wait(60)


def test_a_bundle_holds_no_secrets(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP, "utf-8")
    with running(tmp_path, VARIABLES, "--set", "ssl.keystore.password=hidden-13") as url:
        log = tmp_path / "log.txt"
        until(lambda: "a record was left out" in log.read_text())
        for more in ([], ["--with-data"]):
            made = bundle(tmp_path, url, "--token", VARIABLES["STOATFLOW_ADMIN_TOKEN"], "--log", str(log), *more)
            assert re.findall(r".*hidden.*", made.everything()) == []
            assert made.missing == {}
    # They were there to be masked.
    assert all(f"hidden-{n}" in log.read_text() for n in (1, 5, 6, 9, 11, 12))
    variables = made.data("environment.json")
    assert {variables[name] for name in VARIABLES if name.startswith("STOATFLOW_")} == {"***"}
    assert made.data("config.json")["settings"]["sasl.password"]["value"] == "***"
    assert "ssl.keystore.password=***" in made.data("process.json")["command"]
    assert "postgres://***@db/orders" in made.texts["log.txt"]


def test_the_address_may_hold_the_token(broker: EmbeddedBroker, make: Make, tmp_path: Path) -> None:
    with make(shouting(), **{"admin.token": TOKEN}) as app:
        works_off(app)
        made = bundle(tmp_path, str(app.admin_url).replace("://", f"://ann:{TOKEN}@"))
        assert made.missing == {}
        assert TOKEN not in made.everything()


# Misbehaving applications ----------------------------------------------------------------------------------


def test_while_a_function_hangs(broker: EmbeddedBroker, make: Make, tmp_path: Path) -> None:
    goes_on = threading.Event()
    builder = sf.StreamsBuilder()

    def hang(value: str) -> str:
        goes_on.wait(600)
        return value

    builder.stream("in", key=str, value=str).map_values(hang, name="hangs").foreach(lambda key, value: None)
    broker.produce_many("in", [(1, b"k", b"v", 5)])
    with make(builder.build()) as app:
        try:
            until(lambda: "hangs" in ask(app.admin_url, "/debug/threads").text)
            made = bundle(tmp_path, app.admin_url, interval="0.2")
        finally:
            goes_on.set()
    (reason,) = made.missing.values()
    assert reason == "there is none: the application has kept nothing"
    under_way = made.summary.partition("## Functions under way")[2]
    assert re.match(
        r"\s+- lane \d: `\S*test_bundle.py:\d+ hang` in node 'hangs' at in-1 offset 0 for \d+ ms", under_way
    )
    assert "1 record waits, and none was committed" in made.summary
    assert "- in-1: 1 record, 0 of 1 committed" in made.summary


def test_while_it_restores(broker: EmbeddedBroker, make: Make, tmp_path: Path) -> None:
    broker.produce_many("in", [(0, b"k%d" % n, b"v", 5) for n in range(50)])
    with make(shouting()) as app:
        works_off(app)
    waits = HeldUp()
    given = {"application.id": "app", "state.dir": str(tmp_path / "other"), "ensure.explicit.naming": False}
    with StoatFlow(shouting(), sf.Settings(given, environ={}), broker=broker, on_restore=waits) as again:
        try:
            assert waits.began.wait(60)
            made = bundle(tmp_path, again.admin_url)
        finally:
            waits.goes_on.set()
    assert made.missing == {}
    assert "| state | RESTORING since " in made.summary
    assert "| ready | no: restoring |" in made.summary
    assert re.search(r"\| restore \| counts \d+ of \d+ \|", made.summary)
    assert "(docs/guide/monitoring.md#stoatflowrestoretakeslong)" in made.summary


def test_a_hanging_endpoint_blocks_nothing(
    broker: EmbeddedBroker, make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = ("/topology", "/metrics", "/debug/threads", "/offsets")
    with make(shouting()) as app, port_proxy(app.admin_url, silent) as url:
        works_off(app)
        began = time.monotonic()
        made = bundle(tmp_path, url, "--timeout", "6")
        took = time.monotonic() - began
        with port_proxy(app.admin_url, ("/info", "/state")) as other:
            nameless = bundle(tmp_path, other, "--timeout", "5")
        paths = (*PATHS.values(), "/metrics", "/openapi.json")
        with port_proxy(app.admin_url, paths) as other:
            began = time.monotonic()
            silent_made = bundle(tmp_path, other, "--timeout", "2")
            all_of_it = time.monotonic() - began
    assert {path: made.missing[path] for path in silent} == dict.fromkeys(silent, "no whole answer within 6 s")
    assert set(made.texts) >= ANSWERS - {
        "topology.json",
        "metrics-1.txt",
        "metrics-2.txt",
        "threads.json",
        "offsets.json",
    }
    assert took < 35, "one after the other they take 36 s: metrics and threads are asked for twice"
    assert "- /topology: no whole answer within 6 s" in made.summary
    assert "not in it: /topology: no whole answer within 6 s" in capsys.readouterr().err
    assert nameless.manifest["application"] == "unknown"
    assert "errors.json" in nameless.texts
    assert set(silent_made.missing) >= set(paths)
    assert all_of_it < 30, "one after the other they take longer"
    assert "its port is open, and nothing answers: the process stands still" in silent_made.summary
    assert "machine.json" in silent_made.texts


def test_an_answer_that_never_ends_is_given_up(broker: EmbeddedBroker, make: Make, tmp_path: Path) -> None:
    with make(shouting()) as app, port_proxy(app.admin_url, drips="/watermarks") as url:
        works_off(app)
        made = bundle(tmp_path, url, "--timeout", "6")
    assert made.missing == {"/watermarks": "no whole answer within 6 s"}


def test_unknown_endpoints_are_treated_as_record_data(broker: EmbeddedBroker, make: Make, tmp_path: Path) -> None:
    with make(shouting()) as app:
        works_off(app)
        described = ask(app.admin_url, "/openapi.json").json()
        described["paths"]["/hot/keys"] = {"get": {}}
        own = {"/openapi.json": json.dumps(described).encode(), "/hot/keys": b'{"first": "ann"}'}
        with port_proxy(app.admin_url, own=own) as url:
            made = bundle(tmp_path, url)
            with_data = bundle(tmp_path, url, "--with-data")
    assert "--with-data takes it" in made.missing["/hot/keys"]
    assert "hot-keys.json" not in made.texts
    assert with_data.data("hot-keys.json") == {"first": "ann"}


def test_a_large_answer_is_truncated_and_noted(broker: EmbeddedBroker, make: Make, tmp_path: Path) -> None:
    large = json.dumps({"rows": ["x" * 1000] * 3000}).encode()
    with make(shouting()) as app, port_proxy(app.admin_url, own={"/stores": large}) as url:
        works_off(app)
        made = bundle(tmp_path, url)
    (entry,) = (each for each in made.manifest["parts"] if each["file"] == "stores.json")
    assert (entry["truncated"], entry["kept_bytes"]) == (True, KEEP_MOST)
    assert len(made.texts["stores.json"]) == KEEP_MOST < entry["bytes"]


# Unreachable applications ----------------------------------------------------------------------------------


def test_an_unreachable_port_names_the_next_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def result_of(*arguments: str) -> tuple[int, str]:
        code = main(["bundle", *arguments, "-o", str(tmp_path)])
        return code, capsys.readouterr().err

    code, error = result_of("http://127.0.0.1:1")
    assert code == 1
    assert error.startswith("stoatflow: http://127.0.0.1:1 doesn't answer: ")
    assert "kubectl port-forward" in error.partition(". Next: ")[2]
    code, error = result_of("127.0.0.1:8080")
    assert (code, "http://HOST:PORT" in error) == (2, True)
    with port_proxy(None, own={"/info": b"<html>", "/debug/threads": b""}) as url:
        code, error = result_of(url)
        assert (code, error.startswith(f"stoatflow: {url} is no admin port of an application. Next: ")) == (1, True)
    with port_proxy(None, own={"/info": b"[]", "/debug/threads": b""}) as url:
        assert "is no admin port" in result_of(url)[1]
    assert list(tmp_path.iterdir()) == []
    code, error = result_of("http://127.0.0.1:1", "--timeout", "0")
    assert (code, "give more than 0" in error) == (2, True)


def test_the_token_and_tls(
    broker: EmbeddedBroker,
    make: Make,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("server")
    given = {"admin.ssl.certificate": str(certificate), "admin.ssl.key": str(key), "admin.token": TOKEN}
    with make(shouting(), **given) as app:
        works_off(app)
        url = str(app.admin_url)
        assert main(["bundle", url, "--ca", str(authority.ca), "-o", str(tmp_path / "made.zip")]) == 1
        assert "admin.token" in capsys.readouterr().err
        assert main(["bundle", url, "--token", TOKEN, "-o", str(tmp_path / "made.zip")]) == 1
        assert "certificate" in capsys.readouterr().err
        assert not (tmp_path / "made.zip").exists()
        monkeypatch.setenv("STOATFLOW_ADMIN_TOKEN", TOKEN)
        made = bundle(tmp_path, url, "--ca", str(authority.ca))
    assert made.missing == {}
    assert TOKEN not in made.everything()


def test_the_address_that_is_asked_unless_one_is_given() -> None:
    assert usual_address({}) == "http://127.0.0.1:8080"
    assert usual_address({"STOATFLOW_ADMIN_LISTEN": "0.0.0.0:9000"}) == "http://127.0.0.1:9000"
    assert usual_address({"STOATFLOW_ADMIN_LISTEN": "9001"}) == "http://127.0.0.1:9001"
    assert usual_address({"STOATFLOW_ADMIN_LISTEN": "127.0.0.1:0"}) == "http://127.0.0.1:8080"
    encrypted = {"STOATFLOW_ADMIN_LISTEN": "shop:8443", "STOATFLOW_ADMIN_SSL_CERTIFICATE": "server.pem"}
    assert usual_address(encrypted) == "https://shop:8443"


def test_reports_of_the_watchdog_are_included(broker: EmbeddedBroker, make: Make, tmp_path: Path) -> None:
    with make(shouting()) as app:
        works_off(app)
        for number, text in ((1, "the older one"), (2, "lane 0 in f, sasl.password=hidden")):
            (tmp_path / "state" / "app" / f"stalled-{number}.txt").write_text(text)
            os.utime(tmp_path / "state" / "app" / f"stalled-{number}.txt", (number, number))
        made = bundle(tmp_path, app.admin_url)
    assert made.texts["stalled.txt"] == "lane 0 in f, sasl.password=***"
    assert "- it has stalled before: stalled.txt, from " in made.summary


# Logs and the doctor ---------------------------------------------------------------------------------------


def test_the_end_of_a_log(broker: EmbeddedBroker, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "app.log"
    log.write_text("".join(f"line {n}\n" for n in range(500_000)), "utf-8")
    with make(shouting()) as app:
        works_off(app)
        made = bundle(tmp_path, app.admin_url, "--log", str(log), "--log-lines", "3")
        assert made.texts["log.txt"] == "line 499997\nline 499998\nline 499999\n"
        (entry,) = (each for each in made.manifest["parts"] if each["file"] == "log.txt")
        assert entry["note"] == "the last 3 lines"
        made = bundle(tmp_path, app.admin_url, "--log", str(log), "--log-lines", "500000")
        assert KEEP_MOST - 100 < len(made.texts["log.txt"]) <= KEEP_MOST
        assert made.texts["log.txt"].endswith("line 499999\n")
        made = bundle(tmp_path, app.admin_url, "--log", str(tmp_path / "none.log"))
        assert made.missing == {f"the log {tmp_path / 'none.log'}": "No such file or directory"}
        made = bundle(tmp_path, app.admin_url, "--log", str(tmp_path))
        assert made.missing == {f"the log {tmp_path}": "Is a directory"}
        os.mkfifo(tmp_path / "pipe")
        made = bundle(tmp_path, app.admin_url, "--log", str(tmp_path / "pipe"))
        assert made.missing == {f"the log {tmp_path / 'pipe'}": "it is not a file; --log - reads standard input"}
        monkeypatch.setattr(sys, "stdin", io.StringIO("piped 1\npiped 2\npiped 3\n"))
        made = bundle(tmp_path, app.admin_url, "--log", "-", "--log-lines", "2")
        assert made.texts["log.txt"] == "piped 2\npiped 3\n"


def test_the_doctor_looks_at_the_topology(broker: EmbeddedBroker, make: Make, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "import time\nimport stoatflow as sf\nprint('[loads')\nbuilder = sf.StreamsBuilder()\n"
        "builder.stream('in').map_values(lambda value: time.sleep(1), name='sleeps').to('out', value=str)\n"
        "topology = builder.build()\n",
        "utf-8",
    )
    (tmp_path / "broken.py").write_text("1 / 0\n", "utf-8")
    with make(shouting()) as app:
        works_off(app)
        made = bundle(tmp_path, app.admin_url, "--app", str(tmp_path / "app.py"))
        assert [each["kind"] for each in made.data("doctor.json")] == ["blocking call"]
        assert "map_values 'sleeps': the lane waits in time.sleep(...)" in made.summary
        made = bundle(tmp_path, app.admin_url, "--app", str(tmp_path / "broken.py"))
        assert made.missing == {f"stoatflow doctor {tmp_path / 'broken.py'}": "ZeroDivisionError: division by zero"}


def test_an_application_on_another_machine(broker: EmbeddedBroker, make: Make, tmp_path: Path) -> None:
    with make(shouting()) as app:
        works_off(app)
        info = ask(app.admin_url, "/info").json()
        with port_proxy(app.admin_url, own={"/info": json.dumps({**info, "host": "another"}).encode()}) as url:
            made = bundle(tmp_path, url)
    assert set(made.missing) == {"its process", "its state directory"}
    assert "run the command there" in made.missing["its process"]
    assert "limits.json" in made.texts
    assert "## What could not be taken" not in made.summary


# Findings --------------------------------------------------------------------------------------------------


def test_every_finding_has_its_section() -> None:
    silent = findings({}, {}, {})
    answers: dict[str, Any] = {
        "health-ready": {"ready": False, "reason": "stalled", "detail": "d", "next_step": "n"},
        "threads": {"lanes": [{"lane": 0, "call": {"function": "f", "node": "n", "for_ms": 20_000}}]},
        "state": {"state": "RUNNING", "restarts": 2},
        "offsets": {"lag": 3},
        "barriers": {"failed": {"epoch": 4, "step": "Commit"}, "quantiles_us": {"p99": 6_000_000}},
        "topology": {"dropped": [{"node": "a", "reason": "late_dead_letter", "count": 1}]},
    }
    numbers = {
        "stoatflow_state_disk_free_bytes": 5.0, "stoatflow_state_disk_size_bytes": 100.0,
        "process_open_fds": 90.0, "process_max_fds": 100.0,
    }  # fmt: skip
    found = findings(answers, numbers, {"records committed": 0.0})
    assert [each.section for each in silent] == ["StoatFlowDown"]
    page = (ROOT / "docs" / "guide" / "monitoring.md").read_text("utf-8")
    assert [each.section for each in (*found, *silent) if f"### {each.section}\n" not in page] == []
    assert [each.section for each in found] == [
        "StoatFlowStalled", "StoatFlowStalled", "StoatFlowNothingCommitted", "StoatFlowRestartsByItself",
        "StoatFlowCommitsSlow", "StoatFlowRestartsByItself", "StoatFlowStateDiskNearlyFull", "StoatFlowFilesNearlyOut",
        "StoatFlowDeadLetters",
    ]  # fmt: skip
    for reason in ("open_transaction", "paused", "restoring", "broker_away", "failed"):
        (one,) = findings({"health-ready": {"ready": False, "reason": reason}}, {}, {})
        assert f"### {one.section}\n" in page
    assert findings({"health-ready": {"ready": True}}, {}, {"records committed": 0.0}) == []
