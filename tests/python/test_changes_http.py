"""Following stores over HTTP: `/changes` of the admin port."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import jsonschema
import pytest
import referencing
import referencing.jsonschema

import stoatflow as sf
from committed import Make, read
from concurrency import until
from http_calls import ask
from stoatflow import EmbeddedBroker


class Event(NamedTuple):
    """An event of the stream."""

    name: str
    data: Any
    id: str | None


@contextmanager
def follow(url: str | None, path: str, token: str | None = None) -> Iterator[Iterator[Event]]:
    """Events as they arrive; the first one is the head of the response."""
    to = urlsplit(url or "")
    connection = http.client.HTTPConnection(str(to.hostname), to.port, timeout=60)
    try:
        connection.request("GET", path, headers={} if token is None else {"Authorization": f"Bearer {token}"})
        answer = connection.getresponse()
        assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream"), answer.read()
        yield events(answer)
    finally:
        connection.close()


def events(answer: http.client.HTTPResponse) -> Iterator[Event]:
    fields: dict[str, str] = {}
    for line in answer:
        text = line.decode().rstrip("\n")
        if text and not text.startswith(":"):
            name, _, value = text.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield Event(fields["event"], json.loads(fields["data"]), fields.get("id"))
            fields = {}


def put(broker: EmbeddedBroker, *records: tuple[str, int | None, int]) -> None:
    """Records of key, value (`None` deletes) and timestamp."""
    encoded = ((key, None if value is None else value.to_bytes(8, "big"), at) for key, value, at in records)
    broker.produce_many("in", ((None, key.encode(), value, at) for key, value, at in encoded))


def table() -> sf.Topology:
    builder = sf.StreamsBuilder()
    builder.table("in", key=str, value=int, store=sf.Materialized("rows", key=str, value=int))
    return builder.build()


def pairs(event: Event) -> list[tuple[Any, Any]]:
    return [(row["key"], row["value"]) for row in event.data["rows"]]


def test_rows_then_changes_then_the_end(broker: EmbeddedBroker, make: Make) -> None:
    put(broker, ("a", 1, 10), ("b", 2, 20))
    with ExitStack() as clients:
        with make(table()) as app:
            read(app, broker)
            url = app.admin_url
            all_of_them = clients.enter_context(follow(url, "/changes/rows"))
            of_b = clients.enter_context(follow(url, "/changes/rows?prefix=b"))
            later = clients.enter_context(follow(url, "/changes/rows?snapshot=false"))
            first = next(all_of_them)
            assert (first.name, pairs(first), first.data["complete"]) == ("snapshot", [("a", 1), ("b", 2)], True)
            assert first.id == str(first.data["epoch"])
            assert first.data["rows"][0]["timestamp"] == 10
            assert sum(first.data["positions"]["in"].values()) == 2
            assert pairs(next(of_b)) == [("b", 2)]
            put(broker, ("a", None, 30))
            second = next(all_of_them)
            assert (second.name, pairs(second)) == ("changes", [("a", None)])
            assert second.data["epoch"] > first.data["epoch"]
            assert pairs(next(later)) == [("a", None)]
            put(broker, ("b", 3, 40))
            assert pairs(next(of_b)) == [("b", 3)]
            described = ask(url, "/openapi.json").json()
            resource = referencing.Resource(described, referencing.jsonschema.DRAFT202012)
            registry = referencing.Registry().with_resource("urn:api", resource)
            schema = {"$ref": "urn:api#/components/schemas/Changes"}
            for event in (first, second):
                jsonschema.Draft202012Validator(schema, registry=registry).validate(event.data)
        # Committed rows precede the end.
        assert [(event.name, event.data.get("rows", [{}])[0].get("key")) for event in all_of_them] == [
            ("changes", "b"),
            ("end", None),
        ]
        assert [event.name for event in of_b] == ["end"]


def test_a_large_store_is_sent_in_several_events(broker: EmbeddedBroker, make: Make) -> None:
    put(broker, *((f"k{n:05}", n, n) for n in range(2_500)))
    with make(table()) as app:
        read(app, broker)
        with follow(app.admin_url, "/changes/rows") as reported:
            parts = [next(reported) for _ in range(3)]
            assert [(part.data["complete"], part.id is None) for part in parts] == [
                (False, True),
                (False, True),
                (True, False),
            ]
            assert [pair for part in parts for pair in pairs(part)] == [(f"k{n:05}", n) for n in range(2_500)]


def test_windows_and_serdes(broker: EmbeddedBroker, make: Make) -> None:
    class Upside(sf.Serde[str]):
        def serialize(self, value: str) -> bytes:
            return value[::-1].encode()

        def deserialize(self, data: bytes) -> str:
            return data.decode()[::-1]

    upside = Upside()
    builder = sf.StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    by_time = grouped.windowed_by(sf.TimeWindows.of_size_with_no_grace("10ms"))
    by_time.count(store=sf.Materialized("windows", key=str, retention="1h"))
    broker.create_topic("texts", 1)
    builder.table("texts", key=str, value=upside, store=sf.Materialized("texts", key=str, value=upside))
    broker.create_topic("documents", 1)
    builder.table("documents", key=str, value=dict, store=sf.Materialized("documents", key=str, value=dict))
    put(broker, ("a", 1, 3))
    broker.produce("texts", b"k", b"cba")
    broker.produce("documents", b"k", b'{"text":\n "a\\nb",\r\n "n": 1}')
    with make(builder.build()) as app:
        read(app, broker, "in", "texts", "documents")
        with follow(app.admin_url, "/changes/windows") as reported:
            (row,) = next(reported).data["rows"]
            assert (row["key"], row["start"], row["end"], row["value"]) == ("a", 0, 10, 1)
        with follow(app.admin_url, "/changes/texts") as reported:
            assert pairs(next(reported)) == [("k", base64.b64encode(b"cba").decode())]
        with follow(app.admin_url, "/changes/documents") as reported:
            assert pairs(next(reported)) == [("k", {"text": "a\nb", "n": 1})]


def test_invalid_arguments_are_refused(broker: EmbeddedBroker, make: Make) -> None:
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    stream.group_by_key().reduce(lambda _old, new: new, store=sf.Materialized("old", key=str, value=int, history="1h"))
    stream.group_by_key().count(store=sf.Materialized("counts", key=str))
    with make(builder.build(), **{"admin.token": "a-long-secret-token"}) as app:
        app.wait_until("RUNNING")

        def reported(path: str, **headers: str) -> tuple[int, str]:
            answer = ask(app.admin_url, path, token="a-long-secret-token", headers=headers)  # noqa: S106
            return answer.status, answer.json()["type"].removeprefix("urn:stoatflow:")

        assert ask(app.admin_url, "/changes/counts").status == 401
        assert reported("/changes/count") == (404, "unknown_store")
        assert reported("/changes/old") == (400, "bad_request")
        assert reported("/changes/counts?limit=3") == (400, "bad_request")
        assert reported("/changes/counts?snapshot=maybe") == (400, "bad_request")
        assert reported("/changes/counts?at_least=in:0:99&timeout_ms=20") == (503, "not_committed_in_time")
        assert reported("/changes/counts?snapshot=false", **{"Last-Event-ID": "7"}) == (410, "changes_lost")
        with follow(app.admin_url, "/changes/counts", token="a-long-secret-token") as events:  # noqa: S106
            assert next(events).data["rows"] == []


def test_a_closed_connection_frees_its_slot(broker: EmbeddedBroker, make: Make) -> None:
    with make(table()) as app:
        read(app, broker)
        with ExitStack() as clients:
            for _ in range(32):
                next(clients.enter_context(follow(app.admin_url, "/changes/rows")))
            full = ask(app.admin_url, "/changes/rows")
            assert (full.status, full.json()["type"]) == (503, "urn:stoatflow:too_many_followers")
            assert ask(app.admin_url, "/stores/rows").status == 200, "others find the port open"

        def is_free() -> bool:
            try:
                with follow(app.admin_url, "/changes/rows") as reported:
                    return next(reported).name == "snapshot"
            except AssertionError:
                return False

        until(is_free)


def test_a_client_that_does_not_read_loses_changes_and_blocks_nobody(broker: EmbeddedBroker, make: Make) -> None:
    builder = sf.StreamsBuilder()
    builder.table("in", key=str, value=str, store=sf.Materialized("rows", key=str, value=str))
    large = b"x" * 500_000
    with make(builder.build()) as app:
        read(app, broker)
        with follow(app.admin_url, "/changes/rows") as reported:
            heard = [next(reported)]
            for n in range(0, 80, 4):
                broker.produce_many("in", ((0, f"{at:03}".encode(), large, at) for at in range(n, n + 4)))
                read(app, broker)
            heard += reported
        assert len(heard) < 40
        last = heard.pop()
        assert {event.name for event in heard} == {"snapshot", "changes"}
        assert (last.name, last.data["type"], last.data["status"]) == ("problem", "urn:stoatflow:changes_lost", 410)
        assert "follow the store again" in last.data["next_step"]
        assert last.data["epoch"] == [event.data["epoch"] for event in heard if event.data["complete"]][-1]


@pytest.mark.parametrize("at_least", ["in:0:1", "in:0:2"])
def test_a_stream_begins_after_the_given_position(broker: EmbeddedBroker, make: Make, at_least: str) -> None:
    with make(table()) as app:
        read(app, broker)
        broker.produce_many("in", ((0, b"k", n.to_bytes(8, "big"), n) for n in (1, 2)))
        with follow(app.admin_url, f"/changes/rows?at_least={at_least}") as reported:
            assert next(reported).data["positions"]["in"]["0"] >= int(at_least[-1])
