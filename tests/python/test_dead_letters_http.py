"""`/dead-letters` of the admin port: the latest letters of a running application, as they were committed."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import referencing

import stoatflow as sf
from concurrency import until
from http_calls import ask

TOKEN = "sixteen-or-more-characters"  # noqa: S105
EVIL = "<img src=x onerror=alert(1)>"
Make = Callable[..., sf.StoatFlow]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[sf.EmbeddedBroker]:
    with sf.EmbeddedBroker(tmp_path / "broker") as made:
        for topic, partitions in (("in", 2), ("marked", 1), ("out", 1), ("bad", 1)):
            made.create_topic(topic, partitions)
        yield made


@pytest.fixture
def make(broker: sf.EmbeddedBroker, tmp_path: Path) -> Make:
    def application(topology: sf.Topology, **settings: object) -> sf.StoatFlow:
        given = {"application.id": "app", "state.dir": str(tmp_path / "state"), "lanes.count": 2, **settings}
        return sf.StoatFlow(topology, sf.Settings(given, environ={}), broker=broker)

    return application


def refuse(value: bytes) -> bytes:
    if not value.startswith(b"good"):
        raise ValueError(f"it begins with {value[:9]!r}")
    return value


def refusing(function: Callable[[bytes], bytes] = refuse) -> sf.Topology:
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=bytes)
    stream.map_values(function, name="refuse", on_error=sf.DLQ("bad")).to("out", key=str, value=bytes)
    return builder.build()


def letters(app: sf.StoatFlow, **query: object) -> dict[str, Any]:
    answer = ask(app.admin_url, "/dead-letters", **query)
    assert answer.status == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def test_a_dead_letter_has_its_record_and_error(broker: sf.EmbeddedBroker, make: Make) -> None:
    broker.produce("in", "k", b"good", 1_000, partition=1)
    broker.produce("in", EVIL, b'{"n": 12345678901234567890, "html": "<b>"}', 2_000, partition=1)
    with make(refusing()) as app:
        app.wait_until(caught_up=True)
        reported = letters(app)
        (letter,) = reported["letters"]
    assert (reported["application_id"], reported["topics"], reported["count"], reported["next"]) == (
        "app",
        ["bad"],
        1,
        None,
    )
    assert (letter["topic"], letter["partition"], letter["offset"], letter["to"]) == ("in", 1, 1, "bad")
    assert (letter["exception"], letter["kind"], letter["node"]) == ("ValueError", "processing", "refuse")
    assert letter["message"].startswith("it begins with b'")
    assert "in refuse" in letter["traceback"]
    assert "test_dead_letters_http.py" in letter["function"]
    assert (letter["timestamp_ms"], letter["attempts"], letter["gone"]) == (2_000, 1, False)
    assert reported["since_ms"] <= letter["at_ms"] <= reported["at_ms"]
    assert letter["key"] == {"format": "text", "content": EVIL, "bytes": len(EVIL), "cut": False}
    assert (letter["value"]["format"], letter["value"]["content"][:26]) == ("json", '{"n": 12345678901234567890')
    (written,) = broker.read("bad")
    assert letter["value"]["content"].encode() == written.value


def test_payloads_are_bounded_and_any_bytes_can_be_shown(broker: sf.EmbeddedBroker, make: Make) -> None:
    values = [b"\x00\xff\x01", "grüße".encode(), b"x" * 100_000, bytes(range(256)) * 40]
    broker.produce_many("in", [(0, b"k", value, 5) for value in values])
    with make(refusing()) as app:
        app.wait_until(caught_up=True)
        found = [letter["value"] for letter in reversed(letters(app)["letters"])]
    assert [(each["format"], each["bytes"], each["cut"]) for each in found] == [
        ("base64", 3, False), ("text", 7, False), ("text", 100_000, True), ("base64", 10_240, True),
    ]  # fmt: skip
    assert base64.b64decode(found[0]["content"]) == values[0]
    assert found[1]["content"] == "grüße"
    assert found[2]["content"] == "x" * 4_096
    assert base64.b64decode(found[3]["content"]) == values[3][:4_096]


def test_headers_are_those_of_the_record(broker: sf.EmbeddedBroker, make: Make) -> None:
    class Mark(sf.ContextualProcessor[str, bytes, str, bytes]):
        def process(self, record: sf.Record[str, bytes]) -> None:
            headers = (("from", b"shop"), ("html", EVIL.encode()), ("raw", b"\xfe"), ("long", b"y" * 3_000))
            self.context.forward(sf.Record(record.key, record.value, record.timestamp, headers))

    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=bytes).process(Mark).to("marked", key=str, value=bytes)
    marked = builder.stream("marked", key=str, value=bytes)
    marked.map_values(refuse, on_error=sf.DLQ("bad")).to("out", key=str, value=bytes)
    broker.produce("in", "k", b"bad")
    with make(builder.build(), **{"ensure.explicit.naming": False}) as app:
        until(lambda: letters(app)["count"] == 1)
        (letter,) = letters(app)["letters"]
    shown = {header["name"]: header["value"] for header in letter["headers"]}
    assert list(shown) == ["from", "html", "raw", "long"]
    assert shown["html"]["content"] == EVIL
    assert (shown["raw"]["format"], shown["raw"]["content"]) == ("base64", "/g==")
    assert (len(shown["long"]["content"]), shown["long"]["bytes"], shown["long"]["cut"]) == (1_024, 3_000, True)
    assert letter["headers_left_out"] == 0


def test_undecodable_records_are_dead_letters_too(broker: sf.EmbeddedBroker, make: Make) -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=dict, on_error=sf.DLQ("bad"), name="orders").to("out", value=dict)
    broker.produce("in", "k", b'{"cents": 12', 7)
    with make(builder.build()) as app:
        app.wait_until(caught_up=True)
        (letter,) = letters(app)["letters"]
    assert (letter["kind"], letter["exception"], letter["node"]) == ("deserialization", "SerdeError", "orders")
    assert (letter["traceback"], letter["value"]["format"]) == (None, "text")


def test_dead_letters_are_read_in_pages(broker: sf.EmbeddedBroker, make: Make) -> None:
    broker.produce_many("in", [(0, b"k", f"bad {n}".encode(), n) for n in range(130)])
    with make(refusing()) as app:
        app.wait_until(caught_up=True)
        seen: list[str] = []
        page = letters(app, limit=30)
        while True:
            seen += [letter["value"]["content"] for letter in page["letters"]]
            if page["next"] is None:
                break
            page = letters(app, limit=30, before=page["next"])
        assert page["count"] == 130
        assert seen == [f"bad {n}" for n in range(129, 29, -1)], "the last hundred, the newest first"
        refused = ask(app.admin_url, "/dead-letters", limit=1000)
        assert (refused.status, refused.json()["type"]) == (400, "urn:stoatflow:bad_request")
        assert "?limit=" in refused.json()["next_step"]


def test_a_dead_letter_of_an_aborted_epoch_is_shown_once(broker: sf.EmbeddedBroker, make: Make) -> None:
    fails = [3]

    def sometimes(value: bytes) -> bytes:
        if fails[0] > 0:
            fails[0] -= 1
            raise OSError("away")
        return value

    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=bytes)
    checked = stream.map_values(refuse, name="refuse", on_error=sf.DLQ("bad"))
    # No handler: its exception rolls back to the last commit, and the letter before it is written again.
    checked.map_values(sometimes, name="sometimes").to("out", key=str, value=bytes)
    app = make(builder.build(), **{"lanes.count": 1})
    app.set_uncaught_exception_handler(lambda _error: "REPLACE_THREAD")
    with app:
        app.wait_until("RUNNING")
        broker.produce_many("in", [(0, b"k", b"bad", 1), (0, b"k", b"good", 2)])
        app.wait_until(caught_up=True)
        assert app.metrics()["restarts"] == 3
        reported = letters(app)
    assert (reported["count"], len(reported["letters"])) == (1, 1)
    assert len(list(broker.read("bad"))) == 1


def test_data_requires_the_token(broker: sf.EmbeddedBroker, make: Make) -> None:
    broker.produce("in", "ann", b"secret")
    with make(refusing(), **{"admin.token": TOKEN}) as app:
        app.wait_until(caught_up=True)
        for path in ("/dead-letters", "/doctor"):
            refused = ask(app.admin_url, path)
            assert (refused.status, refused.json()["type"]) == (401, "urn:stoatflow:unauthorized")
            assert "secret" not in refused.text
        assert ask(app.admin_url, "/dead-letters", token=TOKEN).json()["letters"][0]["value"]["content"] == "secret"


def test_the_doctor_reports_findings_or_none(broker: sf.EmbeddedBroker, make: Make) -> None:
    # These findings depend on the test machine.
    elsewhere = {"disk_nearly_full", "files_nearly_out", "slow_commit"}

    def findings(app: sf.StoatFlow) -> list[dict[str, str]]:
        answer = ask(app.admin_url, "/doctor").json()
        assert abs(answer["at_ms"] - time.time() * 1000) < 60_000
        return [each for each in answer["findings"] if each["code"] not in elsewhere]

    with make(refusing()) as app:
        app.wait_until(caught_up=True)
        assert findings(app) == []
        broker.produce("in", "k", b"bad")
        app.wait_until(caught_up=True)
        until(lambda: letters(app)["count"] == 1)
        app.pause()
        until(lambda: app.state is sf.State.PAUSED)
        first, second = findings(app)
    assert [(each["severity"], each["code"]) for each in (first, second)] == [
        ("warning", "paused"), ("warning", "dead_letters"),
    ]  # fmt: skip
    assert "1 record was sent to a topic of dead letters by 'refuse'" in second["message"]
    assert "stoatflow dlq list" in second["next_step"]


def test_both_answers_match_the_openapi_description(broker: sf.EmbeddedBroker, make: Make) -> None:
    broker.produce_many("in", [(0, b"k", b"bad", 1), (0, None, b"\x00", 2)])
    with make(refusing()) as app:
        app.wait_until(caught_up=True)
        described = ask(app.admin_url, "/openapi.json").json()
        registry = referencing.Registry().with_resource(
            "urn:api", referencing.Resource(described, referencing.jsonschema.DRAFT202012)
        )
        for path, schema in (("/dead-letters", "DeadLetters"), ("/doctor", "Findings")):
            answer = ask(app.admin_url, path).json()
            assert answer["letters" if path == "/dead-letters" else "findings"]
            at = {"$ref": f"urn:api#/components/schemas/{schema}"}
            jsonschema.Draft202012Validator(at, registry=registry).validate(answer)
