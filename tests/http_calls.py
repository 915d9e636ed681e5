"""Requests to an admin port, without a client library, so that malformed ones can be sent too."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit


class Answer(NamedTuple):
    """The response."""

    status: int
    headers: dict[str, str]
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


def ask(
    url: str | None,
    path: str,
    *,
    method: str = "GET",
    token: str | None = None,
    tls: ssl.SSLContext | None = None,
    headers: dict[str, str] | None = None,
    timeout: float = 30,
    **query: object,
) -> Answer:
    """Send one request on its own connection."""
    assert url is not None
    to = urlsplit(url)
    kind = http.client.HTTPSConnection if to.scheme == "https" else http.client.HTTPConnection
    extra: dict[str, Any] = {} if tls is None else {"context": tls}
    connection = kind(str(to.hostname), to.port, timeout=timeout, **extra)
    try:
        text = path + ("?" + urlencode(query, quote_via=quote) if query else "")
        given = {} if token is None else {"Authorization": f"Bearer {token}"}
        connection.request(method, text, headers={**given, **(headers or {})})
        answer = connection.getresponse()
        names = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, names, answer.read().decode())
    finally:
        connection.close()
