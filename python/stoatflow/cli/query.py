"""`stoatflow query URL [store [key]]`: what a running application's stores hold.

Takes the address of an admin port; gives entries as text, or with `--json` one JSON object per line. Pages are of one
commit, however many there are. Never reads state by itself.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, NamedTuple

from stoatflow.errors import ConfigError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from typing import Any

_PAGE = 1000
_TOKEN = "STOATFLOW_ADMIN_TOKEN"  # noqa: S105  # the variable's name, that of the setting


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser(
        "query",
        help="read the stores of a running application",
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
    parser.add_argument("--reverse", action="store_true", help="the last one first")
    parser.add_argument("--limit", type=int, default=100, help="most entries (default: 100; 0: all of them)")
    parser.add_argument("--key-format", choices=["text", "base64"])
    parser.add_argument("--at-least", metavar="TOPIC:PARTITION:OFFSET,...", help="wait until this input is committed")
    parser.add_argument("--token", help=f"admin.token, or file:PATH (default: the variable {_TOKEN})")
    parser.add_argument("--ca", metavar="FILE", help="PEM file with the certificates to trust")
    parser.add_argument("--json", action="store_true", help="print a JSON object per line")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Ask, print."""
    port = _Port(given.url.rstrip("/"), _token(given.token), _trust(given.ca))
    try:
        if given.store is None:
            for store in port.get("/stores")["stores"]:
                print(json.dumps(store) if given.json else _listed(store))
            return 0
        for entry in _entries(port, given):
            print(json.dumps(entry, ensure_ascii=False) if given.json else _line(entry))
    except _RefusedError as refused:
        print(f"stoatflow: {refused}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # `| head` has what it wants
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # until the process ends
    return 0


class _RefusedError(Exception):
    """The port says no, or nothing."""


class _Port(NamedTuple):
    url: str
    token: str | None
    trust: ssl.SSLContext | None

    def get(self, path: str, query: dict[str, str] | None = None) -> dict[str, Any]:
        """Ask for JSON."""
        # Only this command needs them.
        from urllib.error import HTTPError, URLError
        from urllib.parse import quote, urlencode
        from urllib.request import Request, urlopen

        if not self.url.startswith(("http://", "https://")):
            raise ConfigError(
                f"{self.url} is no address of an admin port", next_step="write http://HOST:PORT, see app.admin_url"
            )
        text = self.url + path + ("?" + urlencode(query, quote_via=quote) if query else "")
        headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        request = Request(text, headers=headers)  # noqa: S310  # checked above
        try:
            with urlopen(request, timeout=120, context=self.trust) as answer:  # noqa: S310
                found: dict[str, Any] = json.load(answer)
                return found
        except HTTPError as error:
            raise _RefusedError(_problem(error.code, error.read())) from None
        except (URLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            raise _RefusedError(
                f"{self.url} doesn't answer: {reason}. Next: check the address and that it runs"
            ) from None


def _problem(code: int, body: bytes) -> str:
    try:
        problem = json.loads(body)
        return f"{problem['detail']}. Next: {problem['next_step']}"
    except (ValueError, KeyError, TypeError):
        return f"the answer has the status {code}. Next: check that this is an admin port"


def _entries(port: _Port, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
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
    """Is the answer one value, whatever the kind of the store? A limit would be refused."""
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


def _token(given: str | None) -> str | None:
    token = os.environ.get(_TOKEN) if given is None else given
    if token is None or not token.startswith("file:"):
        return token
    path = token.removeprefix("file:")
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().rstrip("\r\n")
    except OSError as cause:
        raise ConfigError(f"the token can't be read: {cause}", next_step="check the path behind file:") from cause


def _trust(ca: str | None) -> ssl.SSLContext | None:
    if ca is None:
        return None
    import ssl  # only for TLS

    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as cause:
        raise ConfigError(f"--ca {ca}: {cause}", next_step="give a PEM file with certificates") from cause
