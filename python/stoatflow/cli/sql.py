"""`stoatflow sql URL "select ..."`: SQL over the stores of a running application.

Takes the address of an admin port and a SELECT; prints the rows as text, or with `--json` one JSON object per line.
What the query needs is read over the port; DuckDB runs here.
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from stoatflow.cli.admin_port import RefusedError, add_access, admin_port
from stoatflow.cli.commands import COMMANDS
from stoatflow.cli.json_output import add_json, print_json_line

if TYPE_CHECKING:
    from typing import Any

    from stoatflow.sql import SqlResult


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "sql",
        help=COMMANDS["sql"],
        description="Run a SELECT over the stores of a running application through its admin port, as of one commit. "
        "Keys, ranges of keys, times of windows and LIMIT are left to the stores. Needs stoatflow[sql].",
    )
    parser.add_argument("url", metavar="URL", help="the admin port, such as http://127.0.0.1:8080")
    parser.add_argument("query", metavar="SELECT", help="the query; -: read it from standard input")
    parser.add_argument("--allow-scan", action="store_true", help="read whole stores if need be")
    parser.add_argument("--explain", action="store_true", help="say on standard error how the stores were read")
    add_access(parser)
    add_json(parser, "a JSON object per line")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Query, compute, print."""
    query = sys.stdin.read() if given.query == "-" else given.query
    try:
        result = _result(given, query)
    except RefusedError as refused:
        print(f"stoatflow: {refused}", file=sys.stderr)
        return 1
    if given.explain:
        print(f"epoch {result.epoch}\n{result.explain()}", file=sys.stderr)
    if not given.json:
        print("\t".join(result.columns))
    for row in result:
        if given.json:
            print_json_line(given, row, _shown)
        else:
            print("\t".join(_text(each) for each in row.values()))
    return 0


def _result(given: argparse.Namespace, query: str) -> SqlResult:
    # Only this command needs it.
    from stoatflow.sql.over_http import TRIES, MovedError, run_over_http

    try:
        return run_over_http(admin_port(given.url, given).get, query, allow_scan=given.allow_scan)
    except MovedError:
        raise RefusedError(
            f"the application committed between the reads of the query's stores, {TRIES} times. "
            "Next: read one store, or fewer keys, or use app.sql, which holds a snapshot"
        ) from None


def _text(value: object) -> str:
    return value if isinstance(value, str) else _shown(value) if hasattr(value, "isoformat") else _json(value)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=_shown)


def _shown(value: Any) -> str:
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)
