"""Schemathesis sends requests that the admin port's own OpenAPI description allows, and others that it doesn't.

With the token, the port keeps to the description: no crash, no answer that hangs, no status, header or body that isn't
described. Without it, or with another one, every answer but those of `/health/*` is 401. `make fuzz-admin MINUTES=30`
runs for long, with other requests each time.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from http_calls import ask

APP = Path(__file__).with_name("admin_app.py")
TOKEN = "a-token-for-fuzzing-0123456789"  # noqa: S105
SECONDS = int(os.environ.get("STOATFLOW_TEST_FUZZ_SECONDS", "0"))
"""0: about 600 requests, the same each time, among them one for each bound and each kind of value."""
SLOW_S = 20
"""A request without an answer for this long hangs."""
ENDLESS = "^/changes/"
"""Its answers end with the application, so they would all take that long."""
LEFT_OUT = ["positive_data_acceptance", "not_a_server_error"]
"""Which parameters a store takes depends on its kind, so valid values may be refused: only words can describe that. A
status of 503 is described: `/health/ready` while a request has paused the application."""


class Port(NamedTuple):
    """The admin port of an application in its own process."""

    url: str
    process: subprocess.Popen[str]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Port]:
    folder = tmp_path_factory.mktemp("fuzzed")
    log = folder / "log.txt"
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [sys.executable, str(APP), str(folder), TOKEN],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        try:
            assert url, log.read_text()
            yield Port(url, process)
        finally:
            process.communicate(timeout=60)
    assert process.returncode == 0, log.read_text()
    assert "panicked" not in log.read_text()


def fuzz(port: Port, folder: Path, *options: str) -> tuple[str, list[dict[str, Any]]]:
    """Send requests; return what Schemathesis found, and all requests with their answers."""
    description = folder / "openapi.json"
    description.write_text(ask(port.url, "/openapi.json", token=TOKEN).text, "utf-8")
    har = folder / "requests.har"
    command = [sys.executable, "-m", "schemathesis.cli", "run", str(description), "--url", port.url]
    command += ["--report", "har", "--report-har-path", str(har), "--request-timeout", str(SLOW_S), "--no-color"]
    # `/pause` answers after ten seconds if another client resumes meanwhile.
    command += [
        "--max-response-time",
        str(SLOW_S),
        "--continue-on-failure",
        "--warnings",
        "off",
        "--workers",
        "4",
        *options,
    ]
    command += ["--max-time", str(SECONDS)] if SECONDS else ["--phases", "coverage"]
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=SECONDS + 240)
    assert har.exists(), ran.stdout + ran.stderr
    entries: list[dict[str, Any]] = json.loads(har.read_text("utf-8"))["log"]["entries"]
    # Its summary of failures; without one, all that it has printed.
    found = "" if ran.returncode == 0 else re.split(r"=+ FAILURES =+\n", ran.stdout)[-1] + ran.stderr
    return found, entries


def path(entry: dict[str, Any]) -> str:
    return "/" + entry["request"]["url"].split("/", 3)[3].partition("?")[0]


def test_the_port_keeps_to_its_description(port: Port, tmp_path: Path) -> None:
    excluded = ["--exclude-path-regex", ENDLESS, "--exclude-checks", ",".join(LEFT_OUT)]
    found, entries = fuzz(port, tmp_path, "--checks", "all", *excluded, "-H", f"Authorization: Bearer {TOKEN}")
    assert not found, found
    described = json.loads((tmp_path / "openapi.json").read_text("utf-8"))["paths"]
    sent = {path(entry) for entry in entries}
    for each in described:
        pattern = re.sub(r"\{\w+\}", ".+", each)
        assert re.match(ENDLESS, each) or any(re.fullmatch(pattern, one) for one in sent), f"{each} wasn't requested"
    statuses = {entry["response"]["status"] for entry in entries}
    assert statuses >= {200, 400, 404, 405}
    assert not [status for status in statuses if status >= 500 and status != 503]
    assert port.process.poll() is None
    assert ask(port.url, "/health/live").status == 200


@pytest.mark.parametrize("given", ["none", "wrong"])
def test_without_the_token_only_health_is_answered(port: Port, tmp_path: Path, given: str) -> None:
    options = ["-H", "Authorization: Bearer another-token-9876543210"] if given == "wrong" else []
    checks = "content_type_conformance,response_schema_conformance,status_code_conformance"
    found, entries = fuzz(port, tmp_path, "--checks", checks, *options)
    assert not found, found
    answered = {
        (path(entry), entry["response"]["status"]) for entry in entries if not path(entry).startswith("/health/")
    }
    assert len(answered) > 20
    assert {status for _, status in answered} == {401}
    assert any(path(entry).startswith("/changes/") for entry in entries)
    health = {entry["response"]["status"] for entry in entries if path(entry).startswith("/health/")}
    assert 200 in health
