"""Collects the parts of the archive; one that fails doesn't stop the others.

Takes a function that queries the admin port, and options; returns the parts of the archive, and the missing ones with
reasons. Secrets are removed from all texts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stoatflow._version import __version__
from stoatflow.bundle import machine
from stoatflow.bundle.endpoints import PATHS, Ask, Port, all_of, take, take_metrics, within
from stoatflow.bundle.findings import Finding, findings
from stoatflow.bundle.log_file import last_lines
from stoatflow.bundle.metrics import rates, totals
from stoatflow.bundle.part import Missing, Part, of_data, utc
from stoatflow.bundle.record_data import log_without_data
from stoatflow.bundle.secrets import Secrets
from stoatflow.bundle.summary import Seen, summary

_DOCTOR_S = 60.0
_REPORT = "stalled.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to collect, and how."""

    address: str
    ask: Ask
    token: str | None = None
    seconds: float = 5.0
    """Time limit of each answer."""
    interval: float = 3.0
    """Between the two readings of the metrics."""
    log: str | None = None
    log_lines: int = 2000
    app: str | None = None
    """A file with the topology, for the doctor."""
    with_data: bool = False


@dataclass(frozen=True, slots=True)
class Collected:
    """The content of the archive."""

    application: str
    parts: list[Part]
    missing: list[Missing]
    found: list[Finding]
    manifest: dict[str, Any]


def collect(wanted: Wanted) -> Collected:
    """Collect everything. Raises the error of `/info`, unless it timed out; `ValueError` if this is no admin port."""
    began = time.time()
    info, threads = all_of(lambda name: _first(wanted, name, is_needed=name == "info"), ("info", "threads"))
    if info is not None and not (isinstance(info, dict) and "application_id" in info):
        raise ValueError("the answer names no application")
    pid = int(info["pid"]) if info is not None and machine.is_here(info, threads) else None
    secrets = Secrets(_all_variables(pid), [wanted.token])
    port = Port(wanted.ask, secrets, wanted.with_data, wanted.seconds)
    taken = _answers(port, wanted.interval)
    config = next((each.answer for each in taken if isinstance(each, Part) and each.name == "config.json"), None)
    taken += _of_machine(secrets, pid, str((info or {}).get("application_id")), config)
    taken += [each for each in (_log(secrets, wanted), _doctor(secrets, wanted)) if each is not None]
    parts = [each for each in taken if isinstance(each, Part)]
    missing = [each for each in taken if isinstance(each, Missing)]
    answers = {each.name.removesuffix(".json"): each.answer for each in parts}
    numbers, grown = _numbers(parts)
    found = [*findings(answers, numbers, grown), *_last_report_findings(parts)]
    seen = Seen(answers, grown, found, _text_of_error(answers.get("doctor")), missing, wanted.with_data, began)
    parts.insert(0, Part("SUMMARY.md", "the other parts", secrets.text(summary(seen))))
    application = str((info or answers.get("state") or {}).get("application_id", "unknown"))
    manifest = {
        "application": application,
        "address": secrets.text(wanted.address),
        "made_by": f"stoatflow {__version__}",
        "began": utc(began),
        "ended": utc(time.time()),
        "with_data": wanted.with_data,
        "parts": [each.entry() for each in parts],
        "missing": [each.entry() for each in missing],
    }
    return Collected(application, parts, missing, found, manifest)


def _first(wanted: Wanted, name: str, *, is_needed: bool) -> Any:
    """Return an answer that decides what else is collected; `None` if it times out."""
    try:
        return json.loads(within(wanted.seconds, lambda: wanted.ask(PATHS[name])))
    except TimeoutError:
        return None
    except Exception:
        if is_needed:
            raise
        return None


def _all_variables(pid: int | None) -> list[tuple[str, str]]:
    """Return all variables that may hold a secret, of this command and of the application."""
    try:
        return [*os.environ.items(), *([] if pid is None else machine.variables(pid))]
    except OSError:
        return list(os.environ.items())


def _answers(port: Port, interval: float) -> list[Part | Missing]:
    began = time.monotonic()
    answers = take(port)
    # Collecting the others may have taken as long.
    time.sleep(max(0.0, began + interval - time.monotonic()))
    return [*answers, take_metrics(port, "metrics-2")]


def _numbers(parts: list[Part]) -> tuple[dict[str, float], dict[str, float]]:
    first, second = ([each for each in parts if each.name == f"metrics-{n}.txt"] for n in (1, 2))
    numbers = [totals(each.text) for each in (*first, *second)]
    grown = rates(numbers[0], numbers[1], second[0].at - first[0].at) if len(numbers) == 2 else {}
    return (numbers[-1] if numbers else {}), grown


def _last_report_findings(parts: list[Part]) -> list[Finding]:
    reports = (each.of for each in parts if each.name == _REPORT)
    return [Finding(f"it has stalled before: {_REPORT}, from {of}", "StoatFlowStalled") for of in reports]


def _of_machine(secrets: Secrets, pid: int | None, application: str, config: Any) -> list[Part | Missing]:
    """Return what this machine knows; of the application only if it runs here."""
    own = "this command"
    whose = own if pid is None else f"process {pid}"
    taken = [
        _kept("versions.json", own, lambda: secrets.data(machine.versions())),
        _kept("machine.json", "this machine", lambda: secrets.data(machine.system())),
        _kept("environment.json", f"the environment of {whose}", lambda: secrets.data(_environment(pid))),
    ]
    if pid is None:
        taken.append(_kept("limits.json", f"the limits of {own}", machine.own_limits))
        elsewhere = "the application is not a process of this machine that can be looked at; run the command there"
        return [
            *taken,
            *(Missing(what, elsewhere, is_failure=False) for what in ("its process", "its state directory")),
        ]
    taken.append(_kept("process.json", whose, lambda: _process(secrets, pid)))
    return [*taken, *_state(secrets, machine.state_folder(config, application, pid))]


def _environment(pid: int | None) -> dict[str, str]:
    return machine.that_matter(os.environ.items() if pid is None else machine.variables(pid))


def _process(secrets: Secrets, pid: int) -> dict[str, Any]:
    found = machine.process(pid)
    shown: dict[str, Any] = secrets.data({**found, "command": []})
    return {**shown, "command": secrets.arguments(found["command"])}


def _state(secrets: Secrets, folder: Path | None) -> list[Part | Missing]:
    if folder is None:
        return [Missing("its state directory", "the settings don't say where it is")]
    what = secrets.text(f"state directory {folder}")
    if not folder.is_dir():
        return [Missing(what, "there is none: the application has kept nothing", is_failure=False)]
    taken = [_kept("state-directory.json", what, lambda: secrets.data(machine.state(folder)))]
    report = machine.last_report(folder)
    if report is not None:
        taken.append(_text_of(_REPORT, str(report), lambda: secrets.text(report.read_text("utf-8", "replace"))))
    return taken


def _kept(name: str, of: str, look: Callable[[], Any]) -> Part | Missing:
    try:
        return of_data(name, of, look())
    except OSError as error:
        return Missing(of, error.strerror or str(error))


def _text_of(name: str, of: str, read: Callable[[], str]) -> Part | Missing:
    try:
        return Part(name, of, read())
    except OSError as error:
        return Missing(of, error.strerror or str(error))


def _log(secrets: Secrets, wanted: Wanted) -> Part | Missing | None:
    if wanted.log is None:
        return None
    of = f"the log {wanted.log}"
    try:
        text, note = last_lines(wanted.log, wanted.log_lines)
    except OSError as error:
        return Missing(of, error.strerror or str(error))
    return Part("log.txt", of, secrets.text(text if wanted.with_data else log_without_data(text)), None, note, True)


def _doctor(secrets: Secrets, wanted: Wanted) -> Part | Missing | None:
    """Run the doctor on the topology in a separate process: loading a file executes it."""
    if wanted.app is None:
        return None
    of = f"stoatflow doctor {wanted.app}"
    command = [sys.executable, "-m", "stoatflow", "doctor", wanted.app, "--json"]
    try:
        done = subprocess.run(  # noqa: S603  # the file is the user's own
            command, capture_output=True, text=True, timeout=_DOCTOR_S, check=False, stdin=subprocess.DEVNULL
        )
        # Output of the file itself precedes that of the doctor.
        begin = ("\n" + done.stdout).rfind("\n[")
        return of_data("doctor.json", of, secrets.data(json.loads(done.stdout[begin:])))
    except subprocess.TimeoutExpired:
        return Missing(of, f"it took longer than {_DOCTOR_S:g} s")
    except ValueError:
        output_lines = done.stderr.strip().splitlines() or [f"it ended with exit code {done.returncode}"]
        return Missing(of, secrets.text(output_lines[-1]))


def _text_of_error(findings: Any) -> list[str]:
    return [
        f"{each['line'] or 'the topology'}: {each['op']} '{each['node']}': {each['message']}. Next: {each['next_step']}"
        for each in findings or ()
    ]
