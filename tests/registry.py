"""A schema registry in memory, for the examples of docstrings: it answers only what they need.

Takes requests to http://localhost:8081, returns responses in the form of Confluent's API. Never replaces a real
registry in a test of the client: tests/integration has one.
"""

from __future__ import annotations

import json
from http import HTTPStatus

from stoatflow._runtime.registry_http import Answer, Connection

_NO_VERSION, _NO_SCHEMA = 40402, 40403


class Registry:
    """Schemas under subjects; the number of a schema is its id. There is no authentication."""

    def __init__(self) -> None:
        self._schemas: list[str] = []
        self._subjects: dict[str, list[str]] = {}

    def request(self, connection: Connection, url: str, path: str, data: bytes | None) -> Answer:
        """Answer; replaces `Connection.request`."""
        if url != "http://localhost:8081":
            return Answer(failure="[Errno 111] Connection refused")
        if connection._authorization() is not None:
            return _refused(HTTPStatus.UNAUTHORIZED, HTTPStatus.UNAUTHORIZED, "Unauthorized")
        kind, name, *rest = path.strip("/").split("/")
        if kind == "schemas":
            return Answer(HTTPStatus.OK, {"schema": self._schemas[int(rest[0]) - 1]})
        versions = self._subjects.setdefault(name, [])
        if data is not None:
            return self._posted(name, json.loads(data)["schema"], register=bool(rest))
        number = len(versions) if rest[1] == "latest" else int(rest[1])
        if not 1 <= number <= len(versions):
            return _refused(HTTPStatus.NOT_FOUND, _NO_VERSION, "Version not found")
        return self._version(name, number)

    def _posted(self, subject: str, schema: str, *, register: bool) -> Answer:
        versions = self._subjects[subject]
        if schema not in versions:
            if not register:
                return _refused(HTTPStatus.NOT_FOUND, _NO_SCHEMA, "Schema not found")
            versions.append(schema)
            if schema not in self._schemas:
                self._schemas.append(schema)
        return self._version(subject, versions.index(schema) + 1)

    def _version(self, subject: str, number: int) -> Answer:
        schema = self._subjects[subject][number - 1]
        numbers = {"id": self._schemas.index(schema) + 1, "version": number}
        return Answer(HTTPStatus.OK, {"subject": subject, "schema": schema, **numbers})


def _refused(status: int, code: int, message: str) -> Answer:
    return Answer(status, {"error_code": code, "message": message})
