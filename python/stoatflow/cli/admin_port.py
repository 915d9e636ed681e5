"""Client of a running application's admin port, for commands: address, token, certificates.

Takes the command line's options; returns answers. A refusal, or no answer, is a `RefusedError` that says what to do
next.
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

TOKEN = "STOATFLOW_ADMIN_TOKEN"  # noqa: S105  # the name of the variable, which is that of the setting
USUAL_PORT = "8080"
_SECONDS = 120.0


class RefusedError(Exception):
    """The port refuses or doesn't answer; `status` is that of the answer, `timed_out`: none arrived in time."""

    def __init__(self, text: str, *, status: int | None = None, timed_out: bool = False) -> None:
        """Take the message, with its next step."""
        super().__init__(text)
        self.status = status
        self.timed_out = timed_out


class AdminPort(NamedTuple):
    """Address and credentials of the port."""

    url: str
    token: str | None
    trust: ssl.SSLContext | None

    def get(self, path: str, query: dict[str, str] | None = None) -> dict[str, Any]:
        """Request JSON; raise `RefusedError`."""
        # Imported only for requests.
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
        """Return the status and the bytes of an answer, no more than `most`; raise `RefusedError`.

        `unready`: status 503 counts as an answer, as for `/health/ready`.
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
    """Add the options for authentication."""
    parser.add_argument("--token", help=f"admin.token, or file:PATH (default: the variable {TOKEN})")
    parser.add_argument("--ca", metavar="FILE", help="PEM file with the certificates to trust")


def usual_address(environ: Mapping[str, str]) -> str:
    """Return the address of the application that has the settings of this environment."""
    scheme = "https" if environ.get("STOATFLOW_ADMIN_SSL_CERTIFICATE") else "http"
    host, _, port = environ.get("STOATFLOW_ADMIN_LISTEN", "").rpartition(":")
    if host in {"", "0.0.0.0", "[::]"}:  # noqa: S104  # all addresses, so this one too
        host = "127.0.0.1"
    return f"{scheme}://{host}:{port if port.isdigit() and int(port) else USUAL_PORT}"


def admin_port(url: str, given: argparse.Namespace) -> AdminPort:
    """Return the port at this address, with the options of `add_access`."""
    scheme, mark, rest = url.rstrip("/").partition("://")
    # As in a browser: any user name, with the token as password.
    named, at, host = rest.rpartition("@")
    token = named.partition(":")[2] if at and given.token is None else read_token(given.token)
    return AdminPort(f"{scheme}{mark}{host}", token, _trust(given.ca))


def _problem(code: int, body: bytes) -> str:
    try:
        problem = json.loads(body)
        return f"{problem['detail']}. Next: {problem['next_step']}"
    except (ValueError, KeyError, TypeError):
        return f"the answer has the status {code}. Next: check that this is an admin port"


def read_token(given: str | None) -> str | None:
    """Return the token that is given, or in a file, or in the environment."""
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
