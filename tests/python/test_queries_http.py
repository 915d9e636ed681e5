"""Committed state over HTTP: `/stores` of the admin port."""

from __future__ import annotations

import base64
import itertools
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jsonschema
import openapi_spec_validator
import pytest
import referencing
import referencing.jsonschema

import stoatflow as sf
from committed import Make, read
from concurrency import until
from http_calls import Answer, ask
from stoatflow import EmbeddedBroker, State
from stoatflow.cli import main


def put(broker: EmbeddedBroker, *records: tuple[str, int, int]) -> None:
    """Records of key, value and timestamp."""
    broker.produce_many("in", ((None, key.encode(), value.to_bytes(8, "big"), at) for key, value, at in records))


def table() -> sf.Topology:
    builder = sf.StreamsBuilder()
    builder.table("in", key=str, value=int, store=sf.Materialized("rows", key=str, value=int))
    return builder.build()


def entries(answer: Answer) -> list[tuple[Any, Any]]:
    assert answer.status == 200, answer
    return [(each["key"], each["value"]) for each in answer.json()["entries"]]


@pytest.mark.parametrize("backend", ["rocksDB", "in_memory"])
def test_keys_ranges_and_prefixes(broker: EmbeddedBroker, make: Make, backend: str) -> None:
    put(broker, ("a", 1, 10), ("ab", 2, 20), ("b", 3, 30), ("c/d e", 4, 40), ("", 5, 50))
    with make(table(), **{"default.dsl.store": backend}) as app:
        read(app, broker)
        url = app.admin_url
        one = ask(url, "/stores/rows/ab")
        assert one.status == 200
        found = one.json()
        assert (found["key"], found["value"], found["timestamp"]) == ("ab", 2, 20)
        assert (found["store"], found["kind"], found["key_format"]) == ("rows", "key-value", "text")
        assert sum(found["positions"]["in"].values()) == 5
        assert found["epoch"] >= 1
        assert ask(url, "/stores/rows/c/d%20e").json()["value"] == 4
        assert ask(url, "/stores/rows/c%2Fd%20e").json()["value"] == 4
        assert ask(url, "/stores/rows/").json()["value"] == 5
        packed = base64.urlsafe_b64encode(b"ab").decode()
        assert ask(url, f"/stores/rows/{packed}", key_format="base64").json()["value"] == 2
        everything = [("", 5), ("a", 1), ("ab", 2), ("b", 3), ("c/d e", 4)]
        assert entries(ask(url, "/stores/rows")) == everything
        assert entries(ask(url, "/stores/rows?reverse")) == everything[::-1]
        assert entries(ask(url, "/stores/rows", **{"from": "ab", "to": "b"})) == everything[2:4]
        assert entries(ask(url, "/stores/rows", prefix="a")) == everything[1:3]
        assert entries(ask(url, "/stores/rows", **{"from": "x"})) == []
        missing = ask(url, "/stores/rows/zz")
        assert (missing.status, missing.json()["type"]) == (404, "urn:stoatflow:unknown_key")
        unknown = ask(url, "/stores/row")
        assert unknown.status == 404
        assert "rows" in unknown.json()["next_step"]
        listed = ask(url, "/stores").json()["stores"]
        assert listed == [
            {
                "name": "rows",
                "kind": "key-value",
                "readable": True,
                "key": {"serde": "string", "format": "text"},
                "value": {"serde": "int64", "format": "number"},
            }
        ]


def test_an_etag_is_of_an_epoch(broker: EmbeddedBroker, make: Make) -> None:
    put(broker, ("a", 1, 10))
    with make(table()) as app:
        read(app, broker)
        first = ask(app.admin_url, "/stores/rows/a")
        tag = first.headers["etag"]
        same = ask(app.admin_url, "/stores/rows/a", headers={"If-None-Match": f'"x", {tag}'})
        assert (same.status, same.text, same.headers["etag"]) == (304, "", tag)
        put(broker, ("a", 2, 20))
        read(app, broker)
        other = ask(app.admin_url, "/stores/rows/a", headers={"If-None-Match": tag})
        assert (other.status, other.json()["value"]) == (200, 2)
        assert other.headers["etag"] != tag
    with make(table()) as app:
        read(app, broker)
        again = ask(app.admin_url, "/stores/rows/a", headers={"If-None-Match": other.headers["etag"]})
        assert (again.status, again.json()["epoch"]) == (200, 0)


def test_a_writer_finds_what_it_wrote(broker: EmbeddedBroker, make: Make) -> None:
    with make(table()) as app:
        read(app, broker)
        for number in range(20):
            put(broker, ("k", number, number))
            wanted = ",".join(f"in:{partition}:{end}" for partition, end in broker.end_offsets("in").items())
            found = ask(app.admin_url, "/stores/rows/k", at_least=wanted)
            assert found.json()["value"] == number
        late = ask(app.admin_url, "/stores/rows/k", at_least="in:0:1000", timeout_ms=50)
        assert (late.status, late.json()["type"]) == (503, "urn:stoatflow:not_committed_in_time")
        assert late.headers["retry-after"] == "1"
        other = ask(app.admin_url, "/stores/rows/k", at_least="other:0:1")
        assert other.status == 400
        assert "other" in other.json()["detail"]


def test_windows_sessions_and_versions(broker: EmbeddedBroker, make: Make) -> None:
    builder = sf.StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    by_time = grouped.windowed_by(sf.TimeWindows.of_size_with_no_grace("10ms"))
    by_time.count(store=sf.Materialized("windows", key=str, retention="1h"))
    by_gap = grouped.windowed_by(sf.SessionWindows.of_inactivity_gap_with_no_grace("5ms"))
    by_gap.count(store=sf.Materialized("sessions", key=str, retention="1h"))
    grouped.reduce(lambda _old, new: new, store=sf.Materialized("versions", key=str, value=int, history="1h"))
    put(broker, ("a", 1, 3), ("a", 2, 5), ("b", 3, 12), ("a", 4, 21))
    with make(builder.build()) as app:
        read(app, broker)
        url = app.admin_url

        def times(path: str, **query: object) -> list[tuple[str, int, int, int]]:
            answer = ask(url, path, **query)
            assert answer.status == 200, answer
            return [(e["key"], e["start"], e["end"], e["value"]) for e in answer.json()["entries"]]

        assert times("/stores/windows") == [("a", 0, 10, 2), ("a", 20, 30, 1), ("b", 10, 20, 1)]
        assert times("/stores/windows", reverse=1) == [("b", 10, 20, 1), ("a", 20, 30, 1), ("a", 0, 10, 2)]
        assert times("/stores/windows/a") == [("a", 0, 10, 2), ("a", 20, 30, 1)]
        assert times("/stores/windows/a", from_time=1, to_time=20) == [("a", 20, 30, 1)]
        assert times("/stores/windows", **{"from": "b", "to_time": 10}) == [("b", 10, 20, 1)]
        one = ask(url, "/stores/windows/a", time=0).json()
        assert (one["start"], one["end"], one["value"], one["timestamp"]) == (0, 10, 2, 5)
        assert ask(url, "/stores/windows/a", time=10).status == 404
        assert times("/stores/sessions") == [("a", 3, 5, 2), ("a", 21, 21, 1), ("b", 12, 12, 1)]
        assert times("/stores/sessions/a", time=4) == [("a", 3, 5, 2)]
        assert times("/stores/sessions", from_time=6, to_time=20) == [("b", 12, 12, 1)]
        version = ask(url, "/stores/versions/a").json()
        assert (version["value"], version["timestamp"], version["valid_to"]) == (4, 21, None)
        version = ask(url, "/stores/versions/a", as_of=10).json()
        assert (version["value"], version["timestamp"], version["valid_to"]) == (2, 5, 21)
        assert ask(url, "/stores/versions/a", as_of=2).status == 404
        history = ask(url, "/stores/versions/a", from_time=4, to_time=21).json()["versions"]
        assert [each["value"] for each in history] == [1, 2, 4]
        assert ask(url, "/stores/versions").status == 400


def walk(url: str | None, path: str, limit: int, between: Callable[[], object] = lambda: None, **query: object) -> Any:
    """Every entry, page by page."""
    page = ask(url, path, limit=limit, **query).json()
    epochs, found = {page["epoch"]}, page["entries"]
    while page["cursor"] is not None:
        between()
        answer = ask(url, path, limit=limit, cursor=page["cursor"])
        assert answer.status == 200, answer
        page = answer.json()
        epochs.add(page["epoch"])
        found += page["entries"]
    assert len(epochs) == 1
    return found


@pytest.mark.parametrize("backend", ["rocksDB", "in_memory"])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_returns_each_key_once_during_commits(
    broker: EmbeddedBroker, make: Make, backend: str, reverse: bool
) -> None:
    count = 3_000
    put(broker, *((f"k{n:05}", n, n) for n in range(count)))
    with make(table(), **{"default.dsl.store": backend}) as app:
        read(app, broker)
        commits = app.metrics()["commits"]
        rounds = itertools.count(1)
        went: set[str] = set()

        def change() -> None:
            # New keys between the others, values that change, keys that are deleted.
            number = next(rounds)
            many = [(f"k{n:05}+{number}", 1, 0) for n in range(0, count, 50)]
            put(broker, *many, *((f"k{n:05}", number, 0) for n in range(0, count, 7)))
            # Never all of them, however long the iteration takes.
            gone = [f"k{n:05}" for n in range(number % 60, count, 100)]
            went.update(gone)
            broker.produce_many("in", [(None, key.encode(), None, 0) for key in gone])

        writer_ends = threading.Event()

        def write() -> None:
            while not writer_ends.wait(0.01):
                change()

        waits = iter(range(4))

        def commit() -> None:
            # After each of the first pages.
            if next(waits, None) is not None:
                known = app.metrics()["commits"]
                until(lambda: app.metrics()["commits"] > known)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            # The first page determines the snapshot: all of its keys are returned once, and no other.
            with_cursor = walk(app.admin_url, "/stores/rows", 100, commit, reverse=str(reverse).lower())
        finally:
            writer_ends.set()
            writer.join()
        keys = [each["key"] for each in with_cursor]
        assert keys == sorted(set(keys), reverse=reverse)
        assert app.metrics()["commits"] > commits + 3, "nothing was committed meanwhile"
        stayed = {f"k{n:05}" for n in range(count)} - went
        assert len(stayed) > 100
        assert stayed <= set(keys)


def test_pages_of_windows(broker: EmbeddedBroker, make: Make) -> None:
    builder = sf.StreamsBuilder()
    grouped = builder.stream("in", key=str, value=int).group_by_key()
    by_time = grouped.windowed_by(sf.TimeWindows.of_size_with_no_grace("1m"))
    by_time.count(store=sf.Materialized("windows", key=str, retention="100h"))
    by_gap = grouped.windowed_by(sf.SessionWindows.of_inactivity_gap_with_no_grace("30s"))
    by_gap.count(store=sf.Materialized("sessions", key=str, retention="100h"))
    keys = ["a", "a\0", "a\0\0\0\0\0", "ab", "b", "bb", "c" * 300]
    put(broker, *((key, 1, minute * 60_000 * 7) for minute in range(60) for key in keys))
    with make(builder.build()) as app:
        read(app, broker)
        for store in ("windows", "sessions"):
            handle = app.store(store)
            whole = [(w.key, w.window.start, w.window.end) for w, _ in handle.all()]
            assert len(whole) == 60 * len(keys)
            for reverse in ("false", "true"):
                pages = walk(app.admin_url, f"/stores/{store}", 37, reverse=reverse)
                found = [(e["key"], e["start"], e["end"]) for e in pages]
                assert found == (whole if reverse == "false" else whole[::-1])
            for key in keys:
                pages = walk(app.admin_url, f"/stores/{store}/{quote(key, safe='')}", 11)
                assert [(e["key"], e["start"], e["end"]) for e in pages] == [w for w in whole if w[0] == key]
            for lo, hi in [("a", "a\0"), ("a\0", "ab"), ("ab", "b"), ("b", "a"), ("0", "z")]:
                times = {"from_time": 900_000, "to_time": 9_000_000}
                pages = walk(app.admin_url, f"/stores/{store}", 23, **{"from": lo, "to": hi, **times})
                wanted = [w for w in whole if lo <= w[0] <= hi]
                wanted = [w for w in wanted if (w[1] if store == "windows" else w[2]) >= 900_000 and w[1] <= 9_000_000]
                assert [(e["key"], e["start"], e["end"]) for e in pages] == wanted


def test_cursors_end(broker: EmbeddedBroker, make: Make, tmp_path: Path) -> None:
    put(broker, *((f"k{n}", n, n) for n in range(9)))
    with make(table()) as app:
        read(app, broker)
        url = app.admin_url
        page = ask(url, "/stores/rows", limit=4).json()
        assert page["cursor_lifetime_ms"] == 60_000
        second = ask(url, "/stores/rows", limit=4, cursor=page["cursor"])
        assert entries(second) == [(f"k{n}", n) for n in range(4, 8)]
        # A lost page may be requested again.
        assert entries(ask(url, "/stores/rows", limit=4, cursor=page["cursor"])) == entries(second)
        last = ask(url, "/stores/rows", limit=4, cursor=second.json()["cursor"]).json()
        assert (len(last["entries"]), last["cursor"], last["cursor_lifetime_ms"]) == (1, None, None)
        assert ask(url, "/stores/rows", limit=4, cursor=page["cursor"] + "!").status == 400
        old = page["cursor"].replace("-", "x-", 1)
        gone = ask(url, "/stores/rows", cursor=old)
        assert (gone.status, gone.json()["type"]) == (410, "urn:stoatflow:cursor_expired")
        assert "begin the walk again" in gone.json()["next_step"]
        # Each unfinished iteration holds a snapshot, so there is a limit.
        opened = [ask(url, "/stores/rows", limit=1) for _ in range(65)]
        assert [each.status for each in opened[-2:]] == [200, 503] or opened[-1].status == 503
        assert opened[-1].json()["type"] == "urn:stoatflow:too_many_cursors"
        # Requests without a cursor are still answered.
        assert ask(url, "/stores/rows/k1").status == 200


class Pickled(sf.Serde[str]):
    """A user's serde that must never be called for a query."""

    def serialize(self, value: str) -> bytes:
        return b"<" + value.encode() + b">"

    def deserialize(self, data: bytes) -> str:
        assert threading.current_thread().name != "stoatflow-admin"
        return data.decode()[1:-1]


def test_values_of_all_serdes(broker: EmbeddedBroker, make: Make) -> None:
    for name in ("texts", "numbers", "raw", "objects", "plain", "own"):
        broker.create_topic(name, 1)
    builder = sf.StreamsBuilder()
    kinds: dict[str, Any] = {
        "texts": sf.Serdes.string(),
        "numbers": sf.Serdes.double(),
        "raw": sf.Serdes.bytes(),
        "objects": sf.Serdes.json(),
        "plain": sf.Serdes.json(decode="dict"),
        "own": Pickled(),
    }
    for name, serde in kinds.items():
        builder.table(name, key=serde, value=serde, store=sf.Materialized(f"{name}-rows", key=serde, value=serde))
    written = {
        "texts": b"\xc3\xa9/",
        "raw": b"\x00\xff",
        "objects": b'{"a":[1,null]}',
        "plain": b'{"a":1.0}',
        "own": b"<x>",
    }
    for name, text in written.items():
        broker.produce(name, text, text, 5)
    broker.produce("numbers", b"\x3f\xf8" + bytes(6), b"\x3f\xf8" + bytes(6), 5)
    with make(builder.build()) as app:
        read(app, broker, *kinds)
        url = app.admin_url

        def value(name: str, key: str, **query: object) -> Any:
            answer = ask(url, f"/stores/{name}-rows/{key}", **query)
            assert answer.status == 200, answer
            found = answer.json()
            return found["key"], found["value"], found["key_format"], found["value_format"]

        assert value("texts", "%C3%A9/") == ("é/", "é/", "text", "text")
        assert value("numbers", "1.5") == (1.5, 1.5, "number", "number")
        assert value("raw", "%00%FF") == ("AP8=", "AP8=", "base64", "base64")
        given = quote('{"a": [1, null]}')
        assert value("objects", given) == ({"a": [1, None]}, {"a": [1, None]}, "json", "json")
        assert value("plain", quote('{"a":1.0}')) == ({"a": 1.0}, {"a": 1.0}, "json", "json")
        packed = base64.b64encode(b"<x>").decode()
        assert value("own", quote(packed, safe=""), key_format="base64") == (packed, packed, "base64", "base64")
        own = ask(url, "/stores/own-rows").json()
        assert "Python serde Pickled" in own["note"]
        refused = ask(url, "/stores/own-rows/x")
        assert refused.status == 400
        assert "key_format=base64" in refused.json()["next_step"]


def test_while_it_restores_and_after_the_end(broker: EmbeddedBroker, make: Make, tmp_path: Path) -> None:
    put(broker, *((f"k{n}", n, n) for n in range(100)))
    with make(table()) as app:
        read(app, broker)
        assert ask(app.admin_url, "/stores/rows", limit=3).status == 200
    app = make(table())
    app.clean_up()
    asked: list[Answer] = []

    def listen(new: State, _old: State) -> None:
        if new is State.RESTORING and not asked:
            asked.extend(ask(app.admin_url, path) for path in ("/stores/rows", "/stores/rows/k1", "/stores"))

    app.add_state_listener(listen)
    with app:
        read(app, broker)
        rows, one, listed = asked
        for answer in (rows, one):
            assert (answer.status, answer.json()["type"]) == (503, "urn:stoatflow:restoring"), answer
            assert answer.headers["retry-after"] == "1"
        assert (listed.status, listed.json()["state"]) == (200, "RESTORING")
        assert len(entries(ask(app.admin_url, "/stores/rows"))) == 100


def test_large_values_make_shorter_pages(broker: EmbeddedBroker, make: Make) -> None:
    builder = sf.StreamsBuilder()
    builder.table("in", key=str, value=str, store=sf.Materialized("rows", key=str, value=str))
    large = "x" * 300_000
    broker.produce_many("in", ((0, f"{n:03}".encode(), large.encode(), n) for n in range(100)))
    with make(builder.build()) as app:
        read(app, broker)
        page = ask(app.admin_url, "/stores/rows", limit=1000).json()
        assert 0 < len(page["entries"]) < 100
        assert page["cursor"] is not None
        everything = walk(app.admin_url, "/stores/rows", 1000)
        assert [each["key"] for each in everything] == [f"{n:03}" for n in range(100)]
        assert json.dumps(everything[0]["value"]) == json.dumps(large)


def test_on_the_command_line(
    broker: EmbeddedBroker, make: Make, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    token = "a-token-that-nobody-guesses"  # noqa: S105
    put(broker, *((f"k{n:04}", n, n) for n in range(1500)))
    builder = sf.StreamsBuilder()
    rows = builder.table("in", key=str, value=int, store=sf.Materialized("rows", key=str, value=int))
    grouped = rows.to_stream().group_by_key()
    windows = grouped.windowed_by(sf.TimeWindows.of_size_with_no_grace("1s"))
    windows.count(store=sf.Materialized("windows", key=str, retention="1h"))

    def call(*arguments: str) -> tuple[int, list[str], str]:
        code = main(["query", *arguments])
        printed = capsys.readouterr()
        return code, printed.out.splitlines(), printed.err

    with make(builder.build(), **{"admin.token": token}) as app:
        read(app, broker)
        url = str(app.admin_url)
        code, _, error = call(url, "rows", "k0007")
        assert code == 1
        assert "admin.token" in error
        assert call(url, "rows", "k0007", "--token", token)[:2] == (0, ["k0007\t7"])
        monkeypatch.setenv("STOATFLOW_ADMIN_TOKEN", token)
        assert call(url)[1] == ["rows\tkey-value\tstring -> int64", "windows\twindow\tstring -> int64"]
        assert call(url, "rows", "--prefix", "k000", "--limit", "3")[1] == [f"k000{n}\t{n}" for n in range(3)]
        assert call(url, "rows", "--from", "k0003", "--to", "k0004", "--reverse")[1] == ["k0004\t4", "k0003\t3"]
        assert len(call(url, "rows")[1]) == 100
        everything = call(url, "rows", "--limit", "0", "--json")[1]
        assert [json.loads(line)["value"] for line in everything] == list(range(1500))
        assert call(url, "windows", "k0007")[1] == ["k0007\t0..1000\t1"]
        assert call(url, "windows", "--from-time", "1000", "--limit", "1")[1] == ["k1000\t1000..2000\t1"]
        code, _, error = call(url, "row")
        assert code == 1
        assert "there is no store named 'row'" in error
        assert "rows" in error
    code, _, error = call(url)
    assert code == 1
    assert "doesn't answer" in error
    assert call("127.0.0.1:1")[0] == 2


def test_the_openapi_description_is_valid_and_correct(broker: EmbeddedBroker, make: Make) -> None:
    put(broker, *((f"k{n}", n, n) for n in range(3)))
    with make(table()) as app:
        read(app, broker)
        described = ask(app.admin_url, "/openapi.json").json()
        openapi_spec_validator.validate(described)
        assert described["info"]["version"] == sf.__version__
        registry = referencing.Registry().with_resource(
            "urn:api", referencing.Resource(described, referencing.jsonschema.DRAFT202012)
        )

        def check(answer: Answer, schema: str) -> None:
            at = {"$ref": f"urn:api#/components/schemas/{schema}"}
            jsonschema.Draft202012Validator(at, registry=registry).validate(answer.json())

        check(ask(app.admin_url, "/stores"), "Stores")
        check(ask(app.admin_url, "/stores/rows", limit=2), "Page")
        check(ask(app.admin_url, "/stores/rows/k1"), "Found")
        check(ask(app.admin_url, "/stores/rows/none"), "Problem")
        check(ask(app.admin_url, "/offsets"), "Offsets")
        check(ask(app.admin_url, "/errors"), "Errors")
        check(ask(app.admin_url, "/pause", method="POST"), "Pause")
        check(ask(app.admin_url, "/none"), "Problem")
