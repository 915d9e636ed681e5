"""`stoatflow query URL [store [key]]`: read the stores of a running application.

Takes the address of an admin port; prints entries as text, or with `--json` one JSON object per line. All pages are of
one commit. Reads state only through the port.
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
    from collections.abc import Callable, Iterator
    from typing import Any

    from stoatflow.cli.admin_port import AdminPort

_PAGE = 1000


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "query",
        help=COMMANDS["query"],
        description="Read the stores of a running application through its admin port, as of the last commit. "
        "Without a store: list them.",
    )
    parser.add_argument("url", metavar="URL", help="the admin port, such as http://127.0.0.1:8080")
    parser.add_argument("store", nargs="?")
    parser.add_argument("key", nargs="?", help="text, a number or JSON, as the store's serde says")
    parser.add_argument("--prefix", help="keys that begin with it")
    parser.add_argument("--from", dest="frm", metavar="KEY", help="the first key")
    parser.add_argument("--to", metavar="KEY", help="the last key")
    parser.add_argument("--time", metavar="MS", help="the window that starts then, the sessions that hold this time")
    parser.add_argument("--from-time", metavar="MS", help="windows that start, sessions that end then or later")
    parser.add_argument("--to-time", metavar="MS", help="windows and sessions that start then or earlier")
    parser.add_argument("--as-of", metavar="MS", help="the version that held then")
    parser.add_argument("--where", metavar="CONDITION", help="such as \"city = 'Oslo' and age > 30\"")
    parser.add_argument("--order-by", metavar="NAME [desc],...", help='such as "age desc, _key"')
    parser.add_argument(
        "--allow-scan", action="store_true", help="read the whole store where no key and no index helps"
    )
    parser.add_argument("--reverse", action="store_true", help="the last one first")
    parser.add_argument("--limit", type=int, default=100, help="most entries (default: 100; 0: all of them)")
    parser.add_argument("--key-format", choices=["text", "base64"])
    parser.add_argument("--at-least", metavar="TOPIC:PARTITION:OFFSET,...", help="wait until this input is committed")
    add_access(parser)
    add_json(parser, "a JSON object per line")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Query, print."""
    port = admin_port(given.url, given)
    try:
        if given.store is None:
            for store in port.get("/stores")["stores"]:
                _print(given, store, _listed)
            return 0
        for entry in _entries(port, given):
            _print(given, entry, _line)
    except RefusedError as refused:
        print(f"stoatflow: {refused}", file=sys.stderr)
        return 1
    return 0


def _print(given: argparse.Namespace, row: dict[str, Any], text: Callable[[dict[str, Any]], str]) -> None:
    if given.json:
        print_json_line(given, row)
    else:
        print(text(row))


def _entries(port: AdminPort, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    from urllib.parse import quote

    path = f"/stores/{quote(given.store, safe='')}"
    if given.key is not None:
        path += f"/{quote(given.key, safe='')}"
    query = _query(given)
    left = given.limit or sys.maxsize
    page = port.get(path, query if _has_one(given) else {**query, "limit": str(min(left, _PAGE))})
    if "entries" not in page:
        yield from page.get("versions", [page])
        return
    while True:
        yield from page["entries"][:left]
        left -= len(page["entries"])
        if left <= 0 or page["cursor"] is None:
            return
        page = port.get(path, {"cursor": page["cursor"], "limit": str(min(left, _PAGE))})


def _has_one(given: argparse.Namespace) -> bool:
    """Whether the answer is a single value, whatever the kind of the store; a limit would be refused."""
    return given.key is not None and given.from_time is None and given.to_time is None


def _query(given: argparse.Namespace) -> dict[str, str]:
    names = {
        "prefix": given.prefix,
        "from": given.frm,
        "to": given.to,
        "time": given.time,
        "from_time": given.from_time,
        "to_time": given.to_time,
        "as_of": given.as_of,
        "where": given.where,
        "order_by": given.order_by,
        "allow_scan": "true" if given.allow_scan else None,
        "key_format": given.key_format,
        "at_least": given.at_least,
        "reverse": "true" if given.reverse else None,
    }
    return {name: value for name, value in names.items() if value is not None}


def _line(entry: dict[str, Any]) -> str:
    parts = [_text(entry["key"])] if "key" in entry else [str(entry["timestamp"])]
    if "start" in entry:
        parts.append(f"{entry['start']}..{entry['end']}")
    return "\t".join([*parts, _text(entry["value"])])


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _listed(store: dict[str, Any]) -> str:
    if not store["readable"]:
        return f"{store['name']}\t{store['kind']}\tnot readable: {store['why']}"
    return f"{store['name']}\t{store['kind']}\t{store['key']['serde']} -> {store['value']['serde']}"
