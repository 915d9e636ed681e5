"""Requests and answers of an application's own endpoints: `@app.endpoint(...)`.

Takes what the admin port has received, returns what it sends: a status, a type and bytes. Opens no connection.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

from stoatflow.lazy import to_python

__all__ = ["HttpError", "HttpRequest", "HttpResponse"]

_JSON = "application/json"
_TEXT = "text/plain; charset=utf-8"
_BYTES = "application/octet-stream"
_PROBLEM = "application/problem+json"


class HttpError(Exception):
    """Raised by an endpoint's function to answer with this status and text.

    >>> raise sf.HttpError(404, "there is no order 7")
    Traceback (most recent call last):
        ...
    stoatflow.endpoints.HttpError: 404: there is no order 7
    """

    def __init__(self, status: int, detail: str, next_step: str = "change the request") -> None:
        """`next_step` says what the client can do."""
        if not 400 <= status <= 599:
            raise ValueError(f"HttpError({status}): give a status from 400 to 599")
        super().__init__(f"{status}: {detail}")
        self.status = status
        self.detail = detail
        self.next_step = next_step


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A request for an endpoint, as its function gets it.

    >>> request = sf.HttpRequest("GET", "/app/orders/7", parameters={"id": "7"}, query_string="full=yes&tag=a&tag=b")
    >>> request.parameters["id"], request.query["full"], request.query_values("tag")
    ('7', 'yes', ['a', 'b'])
    """

    method: str
    path: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    """The values of `{name}` in the endpoint's path."""
    query_string: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Headers by their lower-case names, without `Authorization` and `Cookie`."""
    body: bytes = b""

    @property
    def query(self) -> dict[str, str]:
        """The query parameters; of several with one name, the last."""
        return dict(parse_qsl(self.query_string, keep_blank_values=True))

    def query_values(self, name: str) -> list[str]:
        """Return all query parameters of this name.

        >>> sf.HttpRequest("GET", "/app/orders", query_string="id=1&id=2").query_values("id")
        ['1', '2']
        """
        return [value for key, value in parse_qsl(self.query_string, keep_blank_values=True) if key == name]

    def json(self) -> Any:
        """Parse the body; raise `HttpError` (400) if it is not JSON.

        >>> sf.HttpRequest("POST", "/app/orders", body=b'{"id": 7}').json()
        {'id': 7}
        """
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise HttpError(400, f"the body is not JSON: {error}", "send a JSON text in UTF-8") from error


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """An answer with a status or a content type of its own.

    A body that is not text or bytes is sent as JSON.

    >>> sf.HttpResponse({"id": 7}, status=201).encoded()
    (201, 'application/json', b'{"id": 7}')
    """

    body: Any = None
    status: int = 200
    content_type: str | None = None

    def __post_init__(self) -> None:
        """Check the status and the type."""
        if not 200 <= self.status <= 599:
            raise ValueError(f"HttpResponse(status={self.status}): give a status from 200 to 599")
        if self.content_type is not None and not (self.content_type.isascii() and self.content_type.isprintable()):
            raise ValueError(f"HttpResponse(content_type={self.content_type!r}): give a type such as text/csv")

    def encoded(self) -> tuple[int, str, bytes]:
        """Return status, type and body as they are sent.

        >>> sf.HttpResponse("ok").encoded()
        (200, 'text/plain; charset=utf-8', b'ok')
        """
        body = self.body
        if isinstance(body, str):
            kind, data = _TEXT, body.encode()
        elif isinstance(body, bytes | bytearray | memoryview):
            kind, data = _BYTES, bytes(body)
        elif body is None:
            kind, data = _TEXT, b""
        else:
            kind, data = _JSON, json.dumps(to_python(body), ensure_ascii=False, allow_nan=False).encode()
        return self.status, self.content_type or kind, data


def encoded(result: object) -> tuple[int, str, bytes]:
    """Return what is sent for the result of a function: `None` is 204, anything but a response is its body."""
    if isinstance(result, HttpResponse):
        return result.encoded()
    return HttpResponse(result, status=204 if result is None else 200).encoded()


def problem(status: int, word: str, detail: str, next_step: str) -> tuple[int, str, bytes]:
    """Return an error answer in the form of the admin port's own."""
    from http import HTTPStatus

    title = HTTPStatus(status).phrase if status in set(HTTPStatus) else "error"
    body = {
        "type": f"urn:stoatflow:{word}",
        "title": title,
        "status": status,
        "detail": detail,
        "next_step": next_step,
    }
    return status, _PROBLEM, json.dumps(body, ensure_ascii=False).encode()
