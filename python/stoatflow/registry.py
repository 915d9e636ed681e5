"""A client of a schema registry with Confluent's API: ids, schemas and subjects.

Takes addresses and credentials, returns schemas by id and ids by subject. Retries while the registry is unavailable,
until a deadline; results are cached, since the schema of an id never changes. Never shows a credential.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from stoatflow.durations import Duration, duration_ms
from stoatflow.errors import AuthorizationError, BrokerUnavailableError, ConfigError, SerdeError, TopologyError

if TYPE_CHECKING:
    import os

    from stoatflow._runtime.registry_http import Answer

SubjectNames = Literal["topic", "record", "topic_record"]
"""How subjects are named: `orders-value`, `shop.Order`, `orders-shop.Order`."""

UNKNOWN_FOR_S = 5.0
"""How long an id that the registry doesn't know is not requested again."""
_PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0)
_NOT_THERE = (40401, 40402, 40403)


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema as it is registered.

    >>> schema = sf.RegisteredSchema(id=7, type="AVRO", schema='"string"')
    >>> schema.id, schema.type
    (7, 'AVRO')
    """

    id: int
    schema: str
    """Text of the schema."""
    type: str = "AVRO"
    """`AVRO`, `PROTOBUF` or `JSON`."""
    references: tuple[tuple[str, str, int], ...] = ()
    """Schemas that it imports: names, each with a subject and a version."""
    subject: str | None = None
    version: int | None = None


class SchemaRegistry:
    """A schema registry with Confluent's API (Confluent, Karapace, Apicurio's `/apis/ccompat/v7`).

    `SchemaRegistry("https://registry:8081", user="orders", password=secret, ca="ca.pem")`

    Several addresses are tried in turn. `ca`, `certificate` and `key` are PEM files. `token` is a bearer token, or a
    function that returns one for each request. `subjects` says how subjects are named; `auto_register` registers
    schemas that are written; with `use_latest`, the latest version of the subject must be the schema that is written.
    While the registry is unavailable, requests are retried for `timeout` in all.

    >>> registry = sf.SchemaRegistry("http://localhost:8081")
    >>> registry.urls
    ('http://localhost:8081',)
    """

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        user: str | None = None,
        password: str | None = None,
        token: str | Callable[[], str] | None = None,
        ca: str | os.PathLike[str] | None = None,
        certificate: str | os.PathLike[str] | None = None,
        key: str | os.PathLike[str] | None = None,
        key_password: str | None = None,
        subjects: SubjectNames = "topic",
        auto_register: bool = True,
        use_latest: bool = False,
        normalize: bool = False,
        timeout: Duration = "30s",
        request_timeout: Duration = "5s",
    ) -> None:
        """Check the arguments; no request is sent yet."""
        from stoatflow._runtime.registry_http import Connection  # importing `urllib` and `ssl` takes time

        if subjects not in {"topic", "record", "topic_record"}:
            raise ConfigError(
                f"SchemaRegistry(subjects={subjects!r}): there is no such strategy of subject names",
                next_step='write subjects="topic", "record" or "topic_record"',
            )
        self._http = Connection(
            url, user=user, password=password, token=token, ca=ca, certificate=certificate, key=key,
            key_password=key_password,
        )  # fmt: skip
        self.subjects: SubjectNames = subjects
        self.auto_register = auto_register
        self.use_latest = use_latest
        self.normalize = normalize
        self._timeout_s = _seconds("timeout", timeout)
        self._request_timeout_s = _seconds("request_timeout", request_timeout)
        self._lock = threading.Lock()
        self._by_id: dict[int, RegisteredSchema] = {}
        self._versions: dict[tuple[str, int], RegisteredSchema] = {}
        self._unknown: dict[int, float] = {}
        self._ids: dict[tuple[object, ...], int] = {}

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> SchemaRegistry:
        """Create a registry from the settings of Confluent's serdes: `schema.registry.url`, `basic.auth.user.info`, ...

        Other settings in the mapping are ignored, so it may be the whole configuration of an application.

        >>> config = {"schema.registry.url": "http://localhost:8081", "auto.register.schemas": False}
        >>> registry = sf.SchemaRegistry.from_config(config)
        >>> registry.urls, registry.auto_register
        (('http://localhost:8081',), False)
        """
        from stoatflow._runtime.registry_config import arguments

        return cls(**arguments(config))

    @property
    def urls(self) -> tuple[str, ...]:
        """Its addresses, without credentials.

        >>> sf.SchemaRegistry("http://orders:secret@localhost:8081").urls
        ('http://localhost:8081',)
        """
        return self._http.urls

    def __repr__(self) -> str:
        """Show its addresses."""
        return f"<SchemaRegistry {', '.join(self.urls)}>"

    def __reduce__(self) -> tuple[object, ...]:
        """Raise an error: a copy would carry credentials along."""
        raise TopologyError(
            "a SchemaRegistry can't be sent to another process: it holds credentials",
            next_step='give the serde ids instead: framing="confluent", schema_id=..., and writer_schemas= of Avro or '
            "schema_ids= of the others",
        )

    def schema(self, schema_id: int) -> RegisteredSchema:
        """Return the schema with an id. It is cached; `SerdeError` for an id that the registry doesn't know.

        >>> registry = sf.SchemaRegistry("http://localhost:8081")
        >>> schema_id = registry.register("orders-value", '"string"')
        >>> registry.schema(schema_id).schema
        '"string"'
        """
        known = self._by_id.get(schema_id)
        if known is not None:
            return known
        until = time.monotonic() + self._timeout_s
        with self._turn(until):
            known = self._by_id.get(schema_id)
            if known is not None:
                return known
            if time.monotonic() < self._unknown.get(schema_id, 0.0):
                raise self._unknown_id(schema_id)
            found = self._ask("GET", f"/schemas/ids/{schema_id}", None, until)
            if found is None:
                self._unknown[schema_id] = time.monotonic() + UNKNOWN_FOR_S
                raise self._unknown_id(schema_id)
            self._unknown.pop(schema_id, None)
            return self._by_id.setdefault(schema_id, _registered(found, id=schema_id))

    def latest(self, subject: str) -> RegisteredSchema:
        """Return the latest version of a subject. Sends a request each time.

        >>> registry = sf.SchemaRegistry("http://localhost:8081")
        >>> for schema in ('"int"', '"long"'):
        ...     _ = registry.register("orders-value", schema)
        >>> registry.latest("orders-value").schema
        '"long"'
        """
        found = self._ask("GET", f"/subjects/{_quoted(subject)}/versions/latest", None)
        if found is None:
            raise self._no_subject(subject)
        return _registered(found)

    def version(self, subject: str, number: int) -> RegisteredSchema:
        """Return a version of a subject. It is cached.

        >>> registry = sf.SchemaRegistry("http://localhost:8081")
        >>> for schema in ('"int"', '"long"'):
        ...     _ = registry.register("orders-value", schema)
        >>> registry.version("orders-value", 1).schema
        '"int"'
        """
        known = self._versions.get((subject, number))
        if known is not None:
            return known
        found = self._ask("GET", f"/subjects/{_quoted(subject)}/versions/{number}", None)
        if found is None:
            raise self._no_subject(subject, f" in version {number}")
        return self._versions.setdefault((subject, number), _registered(found))

    def register(
        self, subject: str, schema: str, schema_type: str = "AVRO", references: Sequence[tuple[str, str, int]] = ()
    ) -> int:
        """Register a schema under a subject, if it isn't registered yet; return its id.

        >>> registry = sf.SchemaRegistry("http://localhost:8081")
        >>> registry.register("orders-value", '"string"')
        1
        """
        return self._id_of("/versions", subject, schema, schema_type, references)

    def lookup(
        self, subject: str, schema: str, schema_type: str = "AVRO", references: Sequence[tuple[str, str, int]] = ()
    ) -> int:
        """Return the id of a schema that is registered under a subject; `TopologyError` if it isn't.

        >>> registry = sf.SchemaRegistry("http://localhost:8081")
        >>> registry.register("orders-value", '"string"') == registry.lookup("orders-value", '"string"')
        True
        """
        return self._id_of("", subject, schema, schema_type, references)

    def registered(
        self, subject: str, schema: str, schema_type: str = "AVRO", references: Sequence[tuple[str, str, int]] = ()
    ) -> RegisteredSchema:
        """Return a schema as it is registered under a subject, with its version; `TopologyError` if it isn't.

        >>> registry = sf.SchemaRegistry("http://localhost:8081")
        >>> schema_id = registry.register("orders-value", '"string"')
        >>> registry.registered("orders-value", '"string"').version
        1
        """
        path = f"/subjects/{_quoted(subject)}{self._normalize}"
        found = self._ask("POST", path, _body(schema, schema_type, references))
        if found is None:
            raise self._not_registered(subject)
        return _registered({"schema": schema, "schemaType": schema_type, **found})

    def _id_of(
        self, path: str, subject: str, schema: str, schema_type: str, references: Sequence[tuple[str, str, int]]
    ) -> int:
        asked = (path, subject, schema, schema_type, tuple(references))
        known = self._ids.get(asked)
        if known is not None:
            return known
        body = _body(schema, schema_type, references)
        until = time.monotonic() + self._timeout_s
        # One request at a time: all lanes start with the same one.
        with self._turn(until):
            known = self._ids.get(asked)
            if known is not None:
                return known
            found = self._ask("POST", f"/subjects/{_quoted(subject)}{path}{self._normalize}", body, until)
            if found is None:
                raise self._not_registered(subject)
            return self._ids.setdefault(asked, int(found["id"]))

    @property
    def _normalize(self) -> str:
        return "?normalize=true" if self.normalize else ""

    def _turn(self, until: float) -> _Turn:
        return _Turn(self, until)

    def _ask(
        self, method: str, path: str, body: Mapping[str, object] | None, until: float | None = None
    ) -> dict[str, Any] | None:
        """Send requests until there is an answer; `None` means not found. Any other answer than success raises."""
        until = time.monotonic() + self._timeout_s if until is None else until
        data = None if body is None else json.dumps(body).encode()
        why, attempt = "no time was left", 0
        while True:
            for url in self.urls:
                left = until - time.monotonic()
                if left <= 0:
                    raise self.away(why)
                answer = self._http.request(method, url, path, data, min(left, self._request_timeout_s))
                if answer.failure is None and answer.status < 500 and answer.status != 429:
                    return self._said(answer, url, path)
                why = answer.failure or f"{answer.status}: {answer.reason}"
            pause = _PAUSES_S[min(attempt, len(_PAUSES_S) - 1)]
            time.sleep(max(0.0, min(pause, until - time.monotonic())))
            attempt += 1

    def _said(self, answer: Answer, url: str, path: str) -> dict[str, Any] | None:
        status, body = answer.status, answer.body
        if status == 200 and isinstance(body, dict):
            return body
        if status == 404 and answer.code in _NOT_THERE:
            return None
        if status in {401, 403}:
            raise AuthorizationError(
                f"the schema registry {url} refuses this client ({status}: {answer.reason})",
                next_step="check user, password or token of SchemaRegistry(...), and what the registry allows them",
            )
        if status == 409:
            raise TopologyError(
                f"the schema registry doesn't take the schema ({path.split('?', maxsplit=1)[0]}): {answer.reason}",
                next_step="make the schema compatible with the versions before (a new field needs a default), "
                "or change the compatibility of the subject",
            )
        if status == 422:
            raise TopologyError(
                f"the schema registry takes it for no valid schema ({path.split('?', maxsplit=1)[0]}): {answer.reason}",
                next_step="correct the schema, or its references",
            )
        raise ConfigError(
            f"{url} answers {path.split('?', maxsplit=1)[0]} with {status} "
            f"({answer.reason}), as no schema registry does",
            next_step="check the address: Confluent's API is at the root of Confluent's registry and of Karapace, and "
            "at /apis/ccompat/v7 of Apicurio's",
        )

    def away(self, why: str) -> BrokerUnavailableError:
        """Return the error about an unavailable registry.

        >>> registry = sf.SchemaRegistry("http://localhost:8081", timeout="5s")
        >>> registry.away("connection refused").message
        'the schema registry http://localhost:8081 gave no answer within 5 s (connection refused)'
        """
        return BrokerUnavailableError(
            f"the schema registry {', '.join(self.urls)} gave no answer within {self._timeout_s:g} s ({why})",
            next_step="check its address and the network, then start again: the record is read again. "
            "SchemaRegistry(..., timeout=...) is how long it may be away",
        )

    def _unknown_id(self, schema_id: int) -> SerdeError:
        return SerdeError(
            f"the schema registry {', '.join(self.urls)} doesn't know the schema id {schema_id}",
            next_step="check that the producer registers its schemas in the same registry; "
            "records that can't be read go to the handler of deserialization errors",
        )

    def _not_registered(self, subject: str) -> TopologyError:
        return TopologyError(
            f"the schema registry has no such schema under the subject '{subject}'",
            next_step="register it before the start (SchemaRegistry.register(subject, schema)), correct the "
            "subject, or allow it: SchemaRegistry(..., auto_register=True)",
        )

    def _no_subject(self, subject: str, more: str = "") -> TopologyError:
        return TopologyError(
            f"the schema registry {', '.join(self.urls)} has no subject '{subject}'{more}",
            next_step="register a schema under it, or correct the name: "
            "values of a topic are under '<topic>-value' unless their producer says otherwise",
        )


class _Turn:
    """One request at a time; a thread that waits longer than the request may take gets no answer either."""

    def __init__(self, registry: SchemaRegistry, until: float) -> None:
        self._registry, self._until = registry, until

    def __enter__(self) -> None:
        if not self._registry._lock.acquire(timeout=max(0.0, self._until - time.monotonic())):
            raise self._registry.away("other questions wait too")

    def __exit__(self, *_: object) -> None:
        self._registry._lock.release()


def _body(schema: str, schema_type: str, references: Sequence[tuple[str, str, int]]) -> dict[str, object]:
    body: dict[str, object] = {"schema": schema}
    if schema_type != "AVRO":
        body["schemaType"] = schema_type
    if references:
        body["references"] = [{"name": n, "subject": s, "version": v} for n, s, v in references]
    return body


def _registered(body: Mapping[str, Any], **known: Any) -> RegisteredSchema:
    references = tuple((one["name"], one["subject"], int(one["version"])) for one in body.get("references") or ())
    given = {"id": body.get("id"), "subject": body.get("subject"), "version": body.get("version"), **known}
    return RegisteredSchema(
        schema=body["schema"], type=body.get("schemaType") or "AVRO", references=references, **given
    )


def _quoted(subject: str) -> str:
    return quote(subject, safe="")


def _seconds(name: str, given: Duration) -> float:
    try:
        ms = duration_ms(given)
    except (ValueError, TypeError) as wrong:
        raise ConfigError(f"SchemaRegistry({name}=...): {wrong}", next_step='write timeout="30s"') from None
    if ms < 1:
        raise ConfigError(f"SchemaRegistry({name}={given!r}) leaves no time", next_step='write timeout="30s"')
    return ms / 1000
