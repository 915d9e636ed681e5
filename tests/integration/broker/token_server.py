"""Tokens for SASL/OAUTHBEARER: a key set with which brokers verify them, and an HTTP endpoint that issues them.

The endpoint follows OAuth's client credentials grant on loopback. The path of the request selects the answer:
`/token` a good token; `/token/short` one that is valid for a few seconds; `/token/expired`, `/token/wrong-key`,
`/token/wrong-issuer` and `/token/wrong-audience` one that brokers reject; `/token/error` a server error.
"""

from __future__ import annotations

import base64
import json
import math
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, unquote_plus

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from broker.broker_config import HOST

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

AUDIENCE = "stoatflow-tests"
_KEY_ID = "test-key"
_GOOD = "good"
SHORT, SHORT_S = "short", 3.0
_FAULTS = (SHORT, "expired", "wrong-key", "wrong-issuer", "wrong-audience", "error")


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _number(value: int) -> str:
    return _base64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


class TokenServer:
    """`with TokenServer({"client": "secret"}) as tokens: ...`; a token's `sub` is the id of the client."""

    def __init__(self, clients: dict[str, str]) -> None:
        self.clients = clients
        self.served: list[str] = []
        """The issued tokens, in order: `good` or the fault."""
        self.trouble = ""
        """A fault for all requests, whatever their path; empty for none."""
        self._key = rsa.generate_private_key(65537, 2048)
        self._unknown = rsa.generate_private_key(65537, 2048)
        self._http = ThreadingHTTPServer((HOST, 0), type("Handler", (_Handler,), {"tokens": self}))
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True, name="token-server")

    def open(self) -> Self:
        """Starts to serve."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Stops serving."""
        if self._thread.is_alive():
            self._http.shutdown()
            self._thread.join(10)
        self._http.server_close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def issuer(self) -> str:
        """The issuer of the tokens, as brokers expect it."""
        return f"http://{HOST}:{self._http.server_port}"

    def endpoint(self, fault: str = "") -> str:
        """The URL where clients get a token; with a fault, one that brokers reject."""
        if fault and fault not in _FAULTS:
            raise ValueError(f"there is no fault {fault!r}; there are: {', '.join(_FAULTS)}")
        return f"{self.issuer}/token/{fault}".rstrip("/")

    def endpoints(self) -> dict[str, str]:
        """All URLs, by the kind of token they issue."""
        return {_GOOD: self.endpoint(), **{fault: self.endpoint(fault) for fault in _FAULTS}}

    def key_set(self) -> str:
        """The JWKS."""
        public = self._key.public_key().public_numbers()
        key = {
            "kty": "RSA",
            "use": "sig",
            "alg": "RS256",
            "kid": _KEY_ID,
            "n": _number(public.n),
            "e": _number(public.e),
        }
        return json.dumps({"keys": [key]})

    def token(self, subject: str, fault: str = "", lifetime_s: float = 600.0) -> str:
        """A signed token."""
        now = time.time() - (7200.0 if fault == "expired" else 1.0)
        claims = {
            "sub": subject,
            "iss": "http://elsewhere.example" if fault == "wrong-issuer" else self.issuer,
            "aud": "somebody-else" if fault == "wrong-audience" else AUDIENCE,
            "iat": int(now),
            # Whole seconds, rounded up: a client counts from when it receives the token.
            "exp": math.ceil(now + 1.0 + lifetime_s),
            "scope": "kafka",
        }
        header = {"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}
        signed = f"{_base64(json.dumps(header).encode())}.{_base64(json.dumps(claims).encode())}"
        key = self._unknown if fault == "wrong-key" else self._key
        return f"{signed}.{_base64(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


class _Handler(BaseHTTPRequestHandler):
    tokens: TokenServer

    def do_POST(self) -> None:
        form = parse_qs(self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode())
        path, _, fault = self.path.removeprefix("/").partition("/")
        if path != "token" or (fault and fault not in _FAULTS):
            return self._answer(404, {"error": "not_found"})
        fault = self.tokens.trouble or fault
        if fault == "error":
            return self._answer(500, {"error": "server_error"})
        if form.get("grant_type") != ["client_credentials"]:
            return self._answer(400, {"error": "unsupported_grant_type"})
        client = self._client(form)
        if client is None:
            return self._answer(401, {"error": "invalid_client", "error_description": "wrong client id or secret"})
        self.tokens.served.append(fault or _GOOD)
        lifetime_s = SHORT_S if fault == SHORT else 600.0
        token = self.tokens.token(client, fault, lifetime_s)
        return self._answer(200, {"access_token": token, "token_type": "Bearer", "expires_in": lifetime_s})

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name is the base class's)
        """Log nothing: the tests look at `served`."""

    def _client(self, form: dict[str, list[str]]) -> str | None:
        """The client, from the header (Basic) or the form; None if the secret is wrong."""
        kind, _, encoded = (self.headers.get("Authorization") or "").partition(" ")
        if kind.lower() == "basic":
            name, _, secret = base64.b64decode(encoded).decode().partition(":")
            name, secret = unquote_plus(name), unquote_plus(secret)
        else:
            name, secret = form.get("client_id", [""])[0], form.get("client_secret", [""])[0]
        return name if secret and self.tokens.clients.get(name) == secret else None

    def _answer(self, status: int, content: dict[str, object]) -> None:
        raw = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)
