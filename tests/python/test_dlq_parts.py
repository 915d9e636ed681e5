"""The pure parts of `stoatflow dlq`: letters by their headers, selections, marks, and output for readers."""

from __future__ import annotations

import argparse
import random
import time
from itertools import pairwise

import pytest

from stoatflow import ConfigError
from stoatflow.cli.dlq import place, since
from stoatflow.dlq import text
from stoatflow.dlq.dead_letter import DeadLetter, Header, Place, read
from stoatflow.dlq.marks import Mark, Replayed, ranges_of
from stoatflow.dlq.selection import Seen, Selection
from stoatflow.errors import IncompatibleStateError

OURS: list[Header] = [
    ("__stoatflow.errors.application", b"shop"),
    ("__stoatflow.errors.kind", b"processing"),
    ("__stoatflow.errors.node", b"parse"),
    ("__stoatflow.errors.exception", b"ValueError"),
    ("__stoatflow.errors.message", b"no number: x"),
    ("__stoatflow.errors.topic", b"orders"),
    ("__stoatflow.errors.partition", b"2"),
    ("__stoatflow.errors.offset", b"17"),
]
# As ExceptionHandlerUtils of Kafka Streams 4.2 writes them.
STREAMS: list[Header] = [
    ("__streams.errors.exception", b"java.lang.IllegalStateException: a: b"),
    ("__streams.errors.message", b"a: b"),
    ("__streams.errors.stacktrace", b"java.lang.IllegalStateException: a: b\n\tat Shop.parse(Shop.java:7)\n"),
    ("__streams.errors.topic", b"orders"),
    ("__streams.errors.partition", b"2"),
    ("__streams.errors.offset", b"17"),
]


def letter(
    headers: list[Header], at: tuple[int, int] = (0, 5), time: int = 1000, value: bytes | None = b"v"
) -> DeadLetter:
    found = read(*at, time, b"k", value, headers)
    assert found is not None
    return found


def test_a_dead_letter_of_stoatflow() -> None:
    found = letter([("trace", b"1"), ("trace", None), *OURS])
    assert found.headers == (("trace", b"1"), ("trace", None))
    assert found.source == Place("orders", 2, 17)
    assert tuple(found.cause) == ("shop", "parse", "processing", "ValueError", "orders")
    assert found.error["message"] == "no number: x"
    assert not found.is_gone
    assert letter([*OURS, ("__stoatflow.errors.gone", b"true")]).is_gone


def test_a_dead_letter_of_kafka_streams() -> None:
    found = letter(STREAMS)
    assert found.headers == ()
    assert found.source == Place("orders", 2, 17)
    assert tuple(found.cause) == (None, None, None, "java.lang.IllegalStateException", "orders")
    assert found.error["message"] == "a: b"
    assert "Shop.java:7" in found.error["traceback"]


def test_a_dead_letter_with_both_kinds_of_headers() -> None:
    """With `errors.dead.letter.queue.headers=kafka-streams` the same facts are in two kinds of headers."""
    both = letter([("trace", b"1"), OURS[0], *STREAMS, *OURS[1:]])
    assert both == letter([("trace", b"1"), *OURS])
    assert letter([*STREAMS, OURS[0], *STREAMS, *OURS[1:]]).headers == tuple(STREAMS), "its record was a letter too"


@pytest.mark.parametrize(
    "changed",
    [
        {"__streams.errors.topic": None},
        {"__streams.errors.partition": b"-1", "__streams.errors.offset": b"-1"},
        {"__streams.errors.offset": "\u0663".encode()},
        {"__streams.errors.partition": b""},
    ],
)
def test_a_dead_letter_without_a_source(changed: dict[str, bytes | None]) -> None:
    assert letter([(name, changed.get(name, value)) for name, value in STREAMS]).source is None


def test_a_record_without_such_headers_is_no_dead_letter() -> None:
    assert read(0, 0, 0, b"k", b"v", []) is None
    assert read(0, 0, 0, b"k", b"v", [("stoatflow.errors.topic", b"x"), ("__stoatflow.replay.topic", b"y")]) is None


@pytest.mark.parametrize(("inner", "outer"), [(OURS, OURS), (STREAMS, OURS), (OURS, STREAMS)])
def test_a_dead_letter_that_was_replayed_and_failed_again(inner: list[Header], outer: list[Header]) -> None:
    """The letter's own form is unchanged, including the headers of the first failure."""
    last = [(name, b"letters" if name.endswith(".topic") else value) for name, value in outer]
    found = letter([("trace", b"1"), *inner, *last])
    assert found.headers == (("trace", b"1"), *inner)
    assert found.source == Place("letters", 2, 17)


def test_a_late_record_has_its_own_cause() -> None:
    late = [(name, b"late" if name.endswith("kind") else value) for name, value in OURS if "exception" not in name]
    assert letter(late).cause.exception == "late"


def test_how_often_a_record_was_replayed() -> None:
    assert letter(OURS).replays == 0
    assert letter([("__stoatflow.replay.attempt", b"3"), *OURS]).replays == 3
    assert letter([("__stoatflow.replay.attempt", b"?"), *OURS]).replays == 0


def test_the_id_of_a_cause_is_stable() -> None:
    # The id is in users' shell histories and tickets, so it must not change.
    assert letter(OURS).cause.id == letter([("other", b""), *OURS], (1, 9), 7).cause.id == "79364f54"
    assert letter(STREAMS).cause.id != letter(OURS).cause.id


@pytest.mark.parametrize(
    ("chosen", "takes"),
    [
        (Selection(), True),
        (Selection(causes=("ValueError",)), True),
        (Selection(causes=("other", letter(OURS).cause.id)), True),
        (Selection(causes=("other",)), False),
        (Selection(nodes=("parse",), sources=("orders",)), True),
        (Selection(nodes=("parse",), sources=("clicks",)), False),
        (Selection(since=1000), True),
        (Selection(since=1001), False),
        (Selection(places=frozenset({(0, 5), (7, 7)})), True),
        (Selection(places=frozenset({(5, 0)})), False),
    ],
)
def test_a_selection(chosen: Selection, takes: bool) -> None:
    assert chosen.takes(letter(OURS)) is takes


def test_unknown_selection_words_are_named() -> None:
    chosen = Selection(("ValueError", "x"), ("parse", "n"), ("orders", "s"), None, frozenset({(0, 5), (0, 6)}))
    seen = Seen()
    seen.note(letter(OURS), chosen)
    with pytest.raises(ConfigError, match=r"matches --cause x, --node n, --source s, offset 0:6\. Next: see"):
        seen.check(chosen, "bad")


def test_marks_encode_the_replayed_dead_letters() -> None:
    rng = random.Random(7)  # noqa: S311  # no secret
    for _ in range(200):
        batches = [
            {(rng.randrange(3), rng.randrange(60)) for _ in range(rng.randrange(40))} for _ in range(rng.randrange(4))
        ]
        made = [Mark("id", ranges_of(batch)) for batch in batches]
        for ranges in (ranges for mark in made for ranges in mark.ranges.values()):
            assert all(last + 1 < first for (_, last), (first, _) in pairwise(ranges)), "as few as can be"
        replayed = Replayed([Mark.decode(mark.encode(), "here") for mark in made], "id")
        places = {(partition, offset) for partition in range(4) for offset in range(-1, 62)}
        assert {place for place in places if place in replayed} == set().union(*batches)


def test_marks_of_a_deleted_topic_of_the_same_name_are_ignored() -> None:
    marked = Mark("old", {0: [(0, 9)]})
    assert (0, 5) not in Replayed([marked], "new")
    assert (0, 5) in Replayed([marked], "old")
    assert (0, 5) in Replayed([marked], None), "a broker that gives topics no id"
    assert (0, 5) in Replayed([marked._replace(topic_id=None)], "new")


def test_a_mark_behind_the_end_is_found() -> None:
    marked = Replayed([Mark(None, {1: [(0, 3), (8, 9)], 2: []})], None)
    assert marked.beyond([0, 10, 0]) is None
    assert marked.beyond([0, 9, 0]) == (1, 9)
    assert marked.beyond([0]) == (1, 9)


@pytest.mark.parametrize(
    "value", [None, b"", b"{", b"[]", b"7", b'{"format":2,"topic_id":null,"ranges":{}}', b'{"format":1}']
)
def test_an_invalid_mark_is_refused(value: bytes | None) -> None:
    with pytest.raises(IncompatibleStateError, match="here is no mark"):
        Mark.decode(value, "here")


def test_payloads_are_readable() -> None:
    shown = text.shown(letter(OURS, value=b'{"id": 1.10, "tags": ["a:b", "\\"{"], "none": {}}'), replayed=False)
    assert (
        'value\n  {\n    "id": 1.10,\n    "tags": [\n      "a:b",\n      "\\"{"\n    ],\n    "none": {}\n  }' in shown
    )
    assert "value\n  [\n    1\n" not in text.shown(letter(OURS, value=b"[1"), replayed=False)
    assert "value\n  null" in text.shown(letter(OURS, value=None), replayed=False)
    assert "value\n  (empty)" in text.shown(letter(OURS, value=b""), replayed=False)
    deep = b"[" * 100_000
    assert "[[[" in text.shown(letter(OURS, value=deep), replayed=False)


def test_bytes_are_shown_as_bytes_and_move_no_cursor() -> None:
    hostile: list[Header] = [("h\x1b[2J", b"\x1b]0;x\x07"), *OURS]
    hostile.append(("__stoatflow.errors.traceback", b"one\n\x1b[31mtwo"))
    found = letter(hostile, value=b"a\x1b[2J\xff" + bytes(2000))
    shown = text.shown(found, replayed=True)
    assert all(sign == "\n" or sign.isprintable() for sign in shown)
    assert "  00000000  61 1b 5b 32 4a ff 00" in shown
    assert "a.[2J..........." in shown
    assert "and 982 bytes more" in shown
    assert "h\\x1b[2J: 0x1b5d303b7807" in shown


def test_json_has_every_byte() -> None:
    reported = text.shown_json(letter([("h", None), *OURS], value=b"\xff\x00"), replayed=True)
    assert reported["value"] == {"base64": "/wA="}
    assert reported["key"] == {"text": "k"}
    assert reported["headers"] == [{"name": "h", "value": None}]
    assert reported["source"] == {"topic": "orders", "partition": 2, "offset": 17}
    assert reported["replayed"] is True


def test_timestamps_beyond_the_calendar() -> None:
    assert text.time_of(1_769_860_800_999) == "2026-01-31T12:00:00Z"
    assert text.time_of(2**62) == str(2**62)


def test_places_and_times_of_the_command_line() -> None:
    assert place("3:17") == (3, 17)
    assert since("2026-01-31T12:00:00Z") == 1_769_860_800_000
    now = time.time() * 1000
    assert 7_200_000 <= now - since("2h") + 1 <= 7_260_000
    assert 7_200_000 <= now - since("-2h") + 1 <= 7_260_000
    for wrong in ("3", "3:", "-1:2", "a:b"):
        with pytest.raises(argparse.ArgumentTypeError, match="such as 0:17"):
            place(wrong)
    for wrong in ("yesterday", "2026-01-31T12:00:00", "5", "2w"):
        with pytest.raises(argparse.ArgumentTypeError, match="is no time"):
            since(wrong)
