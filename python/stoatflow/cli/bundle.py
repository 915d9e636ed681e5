"""`stoatflow bundle [APP_URL]`: a support archive of a running application, to be sent to a colleague."""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from stoatflow.cli.admin_port import USUAL_PORT, AdminPort, RefusedError, add_access, admin_port, usual_address
from stoatflow.cli.commands import COMMANDS
from stoatflow.cli.json_output import add_json, print_json
from stoatflow.errors import ConfigError

if TYPE_CHECKING:
    from typing import Any

    from stoatflow.bundle.collecting import Collected

_UNREACHABLE = (
    "take the address from the line 'running' of its log (\"admin\"); on another machine run the command there or "
    "forward the port (ssh -L, kubectl port-forward); if the process has ended, its log and exit code say why"
)


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "bundle",
        help=COMMANDS["bundle"],
        description="Take what the admin port of a running application tells, and what this machine knows of its "
        "process, its state and its log, into a zip file to be sent to somebody. Secrets are masked; keys and values "
        "of records are left out. Nothing in the application is changed.",
    )
    parser.add_argument(
        "url",
        metavar="APP_URL",
        nargs="?",
        help=f"the admin port (default: that of STOATFLOW_ADMIN_LISTEN, else http://127.0.0.1:{USUAL_PORT})",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="the archive, or a folder for it (default: this one)")
    parser.add_argument("--log", metavar="FILE", help="take the end of this log; - reads standard input")
    parser.add_argument("--log-lines", metavar="N", type=int, default=2000, help="so many lines (default: 2000)")
    parser.add_argument("--app", metavar="APP.py[:topology]", help="have the doctor look at this topology")
    parser.add_argument(
        "--with-data", action="store_true", help="take keys, values and texts of exceptions too: they may be personal"
    )
    parser.add_argument("--timeout", metavar="S", type=float, default=5.0, help="for each answer (default: 5)")
    parser.add_argument(
        "--interval", metavar="S", type=float, default=3.0, help="between two looks at the metrics (default: 3)"
    )
    add_access(parser)
    add_json(parser, "a JSON object with path, size and what is missing")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Collect everything, write the archive, print."""
    from stoatflow.bundle.archive import write
    from stoatflow.bundle.collecting import Wanted, collect
    from stoatflow.bundle.part import READ_MOST

    _check(given)
    port = admin_port(given.url or usual_address(os.environ), given)
    wanted = Wanted(
        address=port.url,
        ask=lambda path: _ask(port, path, given.timeout, READ_MOST + 1),
        token=port.token,
        seconds=given.timeout,
        interval=given.interval,
        log=given.log,
        log_lines=given.log_lines,
        app=given.app,
        with_data=given.with_data,
    )
    try:
        collected = collect(wanted)
    except RefusedError as refused:
        print(f"stoatflow: {_refusal(refused)}", file=sys.stderr)
        return 1
    except ConfigError:
        raise
    except ValueError:
        print(f"stoatflow: {port.url} is no admin port of an application. Next: {_UNREACHABLE}", file=sys.stderr)
        return 1
    stem = f"stoatflow-{_safe(collected.application)}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}"
    path = _path(given.output, stem)
    try:
        size = write(path, stem, collected.parts, collected.manifest)
    except OSError as error:
        raise ConfigError(
            f"{path} can't be written: {error.strerror or error}", next_step="name another place with -o"
        ) from None
    _print_summary(given, path, size, collected)
    return 0


def _refusal(refused: RefusedError) -> str:
    """Return what the port says; if nothing answers, say where to look."""
    if refused.status is not None:
        return str(refused)
    return f"{str(refused).partition('. Next: ')[0]}. Next: {_UNREACHABLE}"


def _check(given: argparse.Namespace) -> None:
    for name, value in (("--timeout", given.timeout), ("--log-lines", given.log_lines)):
        if not value > 0:
            raise ConfigError(f"{name} {value} is too little", next_step="give more than 0")
    if not given.interval >= 0:
        raise ConfigError(f"--interval {given.interval} is no time", next_step="give 0 or more seconds")
    folder = _path(given.output, "").parent
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}", next_step="make it, or name another place with -o")
    if not os.access(folder, os.W_OK):
        raise ConfigError(f"the folder {folder} can't be written to", next_step="name another place with -o")


def _path(output: str | None, stem: str) -> Path:
    path = Path(output or ".")
    return path / f"{stem}.zip" if path.is_dir() else path


def _safe(application: str) -> str:
    return re.sub(r"[^\w.-]", "_", application)


def _ask(port: AdminPort, path: str, seconds: float, most: int) -> bytes:
    """Send one request; raise `TimeoutError` if no answer arrives in time."""
    try:
        return port.read(path, seconds=seconds, most=most, unready=path.startswith("/health/"))[1]
    except RefusedError as refused:
        if refused.timed_out:
            raise TimeoutError from None
        raise


def _print_summary(given: argparse.Namespace, path: Path, size: int, collected: Collected) -> None:
    failed = [each for each in collected.missing if each.is_failure]
    if given.json:
        report = {
            "path": str(path),
            "bytes": size,
            "application": collected.application,
            "files": [part.name for part in collected.parts],
            "missing": [each.entry() for each in collected.missing],
            "findings": [{"text": each.text, "section": each.section} for each in collected.found],
        }
        print_json(given, report)
        return
    print(f"{path} ({size / 1024:.0f} KiB)")
    for each in failed:
        print(f"not in it: {each.of}: {each.reason}", file=sys.stderr)
    if given.with_data:
        print("keys and values of records are in it (--with-data)", file=sys.stderr)
