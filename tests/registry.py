"""A schema registry in memory, for the examples of docstrings: it answers what stands in them, and nothing else.

Takes requests to http://localhost:8081, gives answers in the words of Confluent's API. What it says is held against a
real registry by tests/integration.
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from stoatflow._runtime.registry_http import Answer, Connection

_NO_SUBJECT, _NO_SCHEMA = 40401, 40403


class Registry:
    """Schemas under subjects; the number of a schema is its id. Nobody has a password here."""

    def __init__(self) -> None:
        self._schemas: list[str] = []
        self._subjects: dict[str, list[str]] = {}

    def request(self, connection: Connection, url: str, path: str, data: bytes | None) -> Answer:
        """Answer; stands for `Connection.request`."""
        if url != "http://localhost:8081":
            return Answer(failure="connection refused")
        if connection._authorization() is not None:
            return _refused(HTTPStatus.UNAUTHORIZED, HTTPStatus.UNAUTHORIZED, "Unauthorized")
        kind, name, *rest = path.strip("/").split("/")
        if kind == "schemas":
            return Answer(HTTPStatus.OK, {"schema": self._schemas[int(rest[0]) - 1]})
        versions = self._subjects.setdefault(name, [])
        if data is None:
            number = len(versions) if rest[1] == "latest" else int(rest[1])
            return (
                self._version(name, number) if versions else _refused(HTTPStatus.NOT_FOUND, _NO_SUBJECT, "no subject")
            )
        schema = json.loads(data)["schema"]
        if schema not in versions:
            if not rest:
                return _refused(HTTPStatus.NOT_FOUND, _NO_SCHEMA, "no such schema")
            versions.append(schema)
            self._schemas += [] if schema in self._schemas else [schema]
        return self._version(name, versions.index(schema) + 1)

    def _version(self, subject: str, number: int) -> Answer:
        schema = self._subjects[subject][number - 1]
        numbers = {"id": self._schemas.index(schema) + 1, "version": number}
        return Answer(HTTPStatus.OK, {"subject": subject, "schema": schema, **numbers})


def _refused(status: int, code: int, message: str) -> Answer:
    body: dict[str, Any] = {"error_code": code, "message": message}
    return Answer(status, body)
