"""HTTP requests to a schema registry, through the standard library.

Takes an address, a path and a body; returns the answer, or why there is none. Credentials are sent only to the given
hosts: no redirect is followed. Errors of the network and the registry are returned, not raised, except for a
certificate that isn't trusted.
"""

from __future__ import annotations

import base64
import json
import os
import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import unquote, urlsplit, urlunsplit
from urllib.request import HTTPRedirectHandler, HTTPSHandler, OpenerDirector, Request, build_opener

from stoatflow.errors import ConfigError

_MOST = 16 << 20
"""Largest answer, in bytes."""
_LONGEST_MESSAGE = 400
"""Longest message, in characters."""


@dataclass(frozen=True)
class Answer:
    """The registry's answer; `failure` says why there is none."""

    status: int = 0
    body: Any = None
    failure: str | None = None
    text: str = ""

    @property
    def code(self) -> object:
        """The registry's error code."""
        return self.body.get("error_code") if isinstance(self.body, dict) else None

    @property
    def reason(self) -> str:
        """The registry's error message."""
        message = self.body.get("message") if isinstance(self.body, dict) else None
        return str(message or self.text or "no reason").strip()[:_LONGEST_MESSAGE]


class _NoRedirects(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


class Connection:
    """The registry's addresses, and the credentials of requests."""

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        user: str | None,
        password: str | None,
        token: str | Callable[[], str] | None,
        ca: str | os.PathLike[str] | None,
        certificate: str | os.PathLike[str] | None,
        key: str | os.PathLike[str] | None,
        key_password: str | None,
    ) -> None:
        """Check the arguments."""
        given = [url] if isinstance(url, str) else list(url)
        parts = [urlsplit(one.strip()) for text in given for one in text.split(",") if one.strip()]
        if not parts or any(one.scheme not in {"http", "https"} or not one.hostname for one in parts):
            # Show only what follows the user: without a scheme it isn't known which part is a password.
            shown = ", ".join(text.rpartition("@")[2].strip() for text in given) or repr(url)
            raise ConfigError(
                f"SchemaRegistry({shown}): that is no address of http or https",
                next_step='write SchemaRegistry("http://localhost:8081")',
            )
        self.urls = tuple(_without_user(one) for one in parts)
        named = next((one for one in parts if one.username), None)
        if named is not None and user is None:
            user, password = unquote(named.username or ""), unquote(named.password or "")
        if (user is None) != (password is None):
            raise ConfigError(
                "SchemaRegistry needs user and password together", next_step="give both, or neither with token="
            )
        if user is not None and token is not None:
            raise ConfigError("SchemaRegistry takes user and password, or a token", next_step="leave one of them out")
        basic = None if user is None else base64.b64encode(f"{user}:{password}".encode()).decode()
        self._token = token
        self._basic = None if basic is None else f"Basic {basic}"
        self._password = password
        self._opener = _opener(ca, certificate, key, key_password)

    def __repr__(self) -> str:
        """Show addresses only."""
        return f"<Connection {', '.join(self.urls)}>"

    def request(self, method: str, url: str, path: str, data: bytes | None, within_s: float) -> Answer:
        """Send one request."""
        until = time.monotonic() + within_s
        request = Request(url + path, data, {"Accept": _ACCEPT}, method=method)  # noqa: S310  # http or https: checked
        if data is not None:
            request.add_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        authorization = self._authorization()
        secrets = [] if self._password is None else [self._password]
        if authorization is not None:
            secrets.insert(0, authorization.partition(" ")[2])
            # An unredirected header is not sent to the target of a redirect.
            request.add_unredirected_header("Authorization", authorization)
        try:
            with self._opener.open(request, timeout=within_s) as answer:
                status, text = answer.status, _read(answer, until)
        except HTTPError as answer:
            with answer:
                status, text = answer.code, _read(answer, until)
        except URLError as failed:
            _check_trust(url, failed.reason)
            return Answer(failure=_hidden(str(failed.reason), secrets))
        except (OSError, HTTPException) as failed:
            _check_trust(url, failed)
            return Answer(failure=_hidden(f"{type(failed).__name__}: {failed}", secrets))
        except ValueError as failed:
            # The error's text may quote the header that can't be sent, with the secret in another notation.
            return Answer(failure=f"{type(failed).__name__}: the request can't be sent")
        shown = _hidden(text, secrets)
        try:
            # A schema is used unchanged, even if it contains the password; a refusal is only displayed, so
            # secrets are hidden in it.
            return Answer(status, json.loads(text if status < HTTPStatus.BAD_REQUEST else shown), text=shown)
        except ValueError:
            return Answer(status, text=shown)

    def _authorization(self) -> str | None:
        if self._token is None:
            return self._basic
        token = self._token if isinstance(self._token, str) else self._token()
        # A file with a token usually ends with a newline.
        return f"Bearer {token.strip()}"


_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


def _read(answer: Any, until: float) -> str:
    pieces: list[bytes] = []
    size = 0
    while piece := answer.read1(1 << 16):
        pieces.append(piece)
        size += len(piece)
        if size > _MOST or time.monotonic() > until:
            raise TimeoutError("the answer doesn't end")
    return b"".join(pieces).decode("utf-8", "replace")


def _hidden(text: str, secrets: Sequence[str]) -> str:
    for secret in secrets:
        if secret:
            text = text.replace(secret, "***")
    return text


def _without_user(url: Any) -> str:
    host = url.netloc.rpartition("@")[2]
    return str(urlunsplit((url.scheme, host, url.path.rstrip("/"), "", "")))


def _check_trust(url: str, reason: object) -> None:
    if isinstance(reason, ssl.SSLCertVerificationError):
        raise ConfigError(
            f"the certificate of the schema registry {url} isn't trusted: {reason.verify_message}",
            next_step='give the certificates that sign it: SchemaRegistry(..., ca="ca.pem")',
        )


def _opener(
    ca: str | os.PathLike[str] | None,
    certificate: str | os.PathLike[str] | None,
    key: str | os.PathLike[str] | None,
    key_password: str | None,
) -> OpenerDirector:
    try:
        context = ssl.create_default_context(cafile=None if ca is None else os.fspath(ca))
        if certificate is not None:
            context.load_cert_chain(certificate, key, key_password or "")
    except (OSError, ssl.SSLError) as wrong:
        raise ConfigError(
            f"SchemaRegistry(ca=, certificate=, key=): a file can't be used: {wrong}",
            next_step="give PEM files, and key_password= for an encrypted key",
        ) from wrong
    return build_opener(HTTPSHandler(context=context), _NoRedirects())
