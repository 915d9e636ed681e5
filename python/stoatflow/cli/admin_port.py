"""The admin port of a running application, as a command asks it: address, token, certificates.

Takes what was given on the command line; gives answers. A refusal, or none at all, is a `RefusedError` that says what
to do next.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

from stoatflow.errors import ConfigError

if TYPE_CHECKING:
    import argparse
    import ssl
    from collections.abc import Mapping
    from typing import Any

TOKEN = "STOATFLOW_ADMIN_TOKEN"  # noqa: S105  # the variable's name, that of the setting
USUAL_PORT = "8080"
_SECONDS = 120.0


class RefusedError(Exception):
    """The port says no, or nothing; `status` is that of its answer, `timed_out`: it didn't come."""

    def __init__(self, text: str, *, status: int | None = None, timed_out: bool = False) -> None:
        """Take the text, with its next step."""
        super().__init__(text)
        self.status = status
        self.timed_out = timed_out


class AdminPort(NamedTuple):
    """Where it is, and how to get in."""

    url: str
    token: str | None
    trust: ssl.SSLContext | None

    def get(self, path: str, query: dict[str, str] | None = None) -> dict[str, Any]:
        """Ask for JSON; raise `RefusedError`."""
        # Only what asks needs it.
        from urllib.parse import quote, urlencode

        text = path + ("?" + urlencode(query, quote_via=quote) if query else "")
        body = self.read(text)[1]
        try:
            found: dict[str, Any] = json.loads(body)
        except ValueError as error:
            raise self._silent(error) from None
        return found

    def read(
        self, path: str, *, seconds: float = _SECONDS, most: int | None = None, unready: bool = False
    ) -> tuple[int, bytes]:
        """Give the status and the bytes of an answer, no more than `most`; raise `RefusedError`.

        `unready`: the status 503 is an answer too, as of `/health/ready`.
        """
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError
        from urllib.request import Request, urlopen

        if not self.url.startswith(("http://", "https://")):
            raise ConfigError(
                f"{self.url} is no address of an admin port", next_step="write http://HOST:PORT, see app.admin_url"
            )
        headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        try:
            request = Request(self.url + path, headers=headers)  # noqa: S310  # checked above
            with urlopen(request, timeout=seconds, context=self.trust) as answer:  # noqa: S310
                return answer.status, answer.read() if most is None else answer.read(most)
        except HTTPError as error:
            body = error.read()
            if unready and error.code == 503:
                return error.code, body
            raise RefusedError(_problem(error.code, body), status=error.code) from None
        except (URLError, OSError, ValueError, HTTPException) as error:
            raise self._silent(error) from None

    def _silent(self, error: Exception) -> RefusedError:
        reason = getattr(error, "reason", error)
        return RefusedError(
            f"{self.url} doesn't answer: {reason}. Next: check the address and that it runs",
            timed_out=isinstance(reason, TimeoutError),
        )


def add_access(parser: argparse.ArgumentParser) -> None:
    """Add the options that let a command in."""
    parser.add_argument("--token", help=f"admin.token, or file:PATH (default: the variable {TOKEN})")
    parser.add_argument("--ca", metavar="FILE", help="PEM file with the certificates to trust")


def usual_address(environ: Mapping[str, str]) -> str:
    """Give the address of the application whose settings are in this environment."""
    scheme = "https" if environ.get("STOATFLOW_ADMIN_SSL_CERTIFICATE") else "http"
    host, _, port = environ.get("STOATFLOW_ADMIN_LISTEN", "").rpartition(":")
    if host in {"", "0.0.0.0", "[::]"}:  # noqa: S104  # all addresses: this one too
        host = "127.0.0.1"
    return f"{scheme}://{host}:{port if port.isdigit() and int(port) else USUAL_PORT}"


def admin_port(url: str, given: argparse.Namespace) -> AdminPort:
    """Give the port at this address, with what `add_access` has read."""
    scheme, mark, rest = url.rstrip("/").partition("://")
    # As in a browser: any name, and the token for the password.
    named, at, host = rest.rpartition("@")
    token = named.partition(":")[2] if at and given.token is None else _token(given.token)
    return AdminPort(f"{scheme}{mark}{host}", token, _trust(given.ca))


def _problem(code: int, body: bytes) -> str:
    try:
        problem = json.loads(body)
        return f"{problem['detail']}. Next: {problem['next_step']}"
    except (ValueError, KeyError, TypeError):
        return f"the answer has the status {code}. Next: check that this is an admin port"


def _token(given: str | None) -> str | None:
    token = os.environ.get(TOKEN) if given is None else given
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
