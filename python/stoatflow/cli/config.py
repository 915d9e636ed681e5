"""`stoatflow config explain NAME` and `config list`: settings, their values in force, and where these come from.

Takes what `stoatflow run` would take (a file, variables, `--set`), or asks a running application; prints the entries of
the engine's table. Without an address it never connects.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from stoatflow.cli.admin_port import RefusedError, add_access, admin_port, usual_address
from stoatflow.cli.commands import COMMANDS
from stoatflow.cli.json_output import add_json, print_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_UNKNOWN = 2


class InForce(NamedTuple):
    """A setting's value and its source."""

    value: object
    source: str


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "config",
        help=COMMANDS["config"],
        description="Settings: what they mean, the value in force, and where it comes from. Secrets are masked.",
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    explained = actions.add_parser("explain", help="explain a setting", description="Explain a setting.")
    explained.add_argument("name", metavar="NAME", help="a setting, its variable, or a name of Kafka Streams")
    listed = actions.add_parser("list", help="list settings", description="List settings that are not the default.")
    listed.add_argument("--all", action="store_true", help="also those with their default")
    for each in (explained, listed):
        each.add_argument("--config", metavar="FILE", help="settings: TOML, JSON or Java properties")
        each.add_argument(
            "--set", action="append", default=[], metavar="NAME=VALUE", help="any setting (may be given again)"
        )
        each.add_argument(
            "--url",
            metavar="APP_URL",
            nargs="?",
            const="",
            help="ask the running application at this admin port (default: that of STOATFLOW_ADMIN_LISTEN, else "
            "http://127.0.0.1:8080)",
        )
        add_access(each)
        add_json(each, "a JSON array" if each is explained else "a JSON object")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Find the values, print."""
    try:
        values = _values(given)
    except RefusedError as refused:
        print(f"stoatflow: {refused}", file=sys.stderr)
        return 1
    return _explain(given, values) if given.action == "explain" else _list(given, values)


def _explain(given: argparse.Namespace, values: Mapping[str, InForce]) -> int:
    from stoatflow.explain.catalog import entries, find, nearest
    from stoatflow.explain.text import shown

    known = [entry for entry in entries() if entry.sort in {"setting", "Kafka Streams"}]
    found = find(given.name, known)
    if not found:
        near = nearest(given.name, known)
        hint = f"the nearest: {', '.join(near)}" if near else "`stoatflow config list --all` lists all"
        print(f"stoatflow: no setting is called '{given.name}'. Next: {hint}", file=sys.stderr)
        return _UNKNOWN
    theirs = _kafka_streams()
    texts, rows = [], []
    for entry in found:
        lines = shown(entry).splitlines()
        row = entry.to_json()
        if entry.sort == "setting":
            in_force = values.get(entry.name, InForce(row["default"], "default"))
            more = {"in force": f"{_text(in_force.value)}, {_from(in_force.source)}"}
            row |= {"value": in_force.value, "source": in_force.source}
            if entry.name in theirs:
                row["kafka_streams"] = theirs[entry.name]
                more["Kafka Streams"] = f"the same name: {theirs[entry.name]}"
            lines[-1:-1] = [f"  {name}: {text}" for name, text in more.items()]
        texts.append("\n".join(lines))
        rows.append(row)
    if given.json:
        print_json(given, rows)
    else:
        print("\n\n".join(texts))
    return 0


def _list(given: argparse.Namespace, values: Mapping[str, InForce]) -> int:
    from stoatflow._runtime.bridge import settings_schema

    every = {name: InForce(default, "default") for name, _, default, _ in settings_schema()} | dict(values)
    chosen = {name: one for name, one in every.items() if given.all or one.source != "default"}
    if given.json:
        print_json(given, {name: {"value": one.value, "source": one.source} for name, one in chosen.items()})
        return 0
    if not chosen:
        print("every setting has its default (`--all` lists them)")
    wide = max(map(len, chosen), default=0)
    for name, one in chosen.items():
        print(f"{name:{wide}}  {_text(one.value)}  ({_from(one.source)})")
    return 0


def _values(given: argparse.Namespace) -> dict[str, InForce]:
    """Return the values that are set, or all of a running application."""
    if given.url is not None:
        port = admin_port(given.url or usual_address(os.environ), given)
        rows = port.get("/config")["settings"]
        return {name: InForce(row["value"], _origin(row)) for name, row in rows.items()}
    from stoatflow.cli.run import found_flags
    from stoatflow.settings import Settings, hidden

    flags = found_flags(given.set)
    settings = Settings(flags) if given.config is None else Settings.from_file(given.config, flags)
    return {
        name: InForce(hidden(name, settings.get(name)), "--set" if name in flags else settings.origin(name))
        for name in settings
    }


def _origin(row: Mapping[str, Any]) -> str:
    words = {"environment": "variable", "file": "file"}
    kind = words.get(row["source"])
    return f"{kind} {row['from']}" if kind else str(row["source"])


def _from(source: str) -> str:
    if source == "default":
        return "the default"
    if source == "code":
        return "from the application's code"
    return f"from the {source}" if source.startswith(("variable ", "file ")) else f"from {source}"


def _text(value: object) -> str:
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _kafka_streams() -> dict[str, str]:
    from stoatflow._runtime.bridge import streams_config_markdown

    rows = re.findall(r"^\| `([^`]+)` \| (.+) \|$", streams_config_markdown(), re.MULTILINE)
    return {name: text.replace("\\|", "|") for name, text in rows}
