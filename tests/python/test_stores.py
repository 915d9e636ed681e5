"""Stores of processors: every kind, through a processor that runs a script."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import stoatflow as sf
from stoatflow import Record, Stores, ValueAndTimestamp, Window, Windowed
from stoatflow.testing import TopologyTestDriver


def play(store: sf.StoreBuilder[Any, Any], *steps: Callable[[Any], Any], crash: bool = False) -> list[Any]:
    """Run a step per record (an epoch each); returns the results of the steps."""
    given: list[Any] = []

    class Plays(sf.ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            given.append(steps[int(record.value or 0)](self.context.state_store(store.name)))

    builder = sf.StreamsBuilder()
    builder.add_state_store(store)
    builder.stream("in", key=str, value=str).process(Plays, stores=[store.name])
    with TopologyTestDriver(builder.build()) as driver:
        topic = driver.input("in", str, str)
        for at in range(len(steps)):
            topic.pipe("k", str(at), timestamp=at)
            if crash:
                driver.crash()
                driver.restart(lanes=2)
    return given


KINDS = [Stores.persistent_key_value, Stores.in_memory_key_value]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("crash", [False, True])
def test_key_value(kind: Any, crash: bool) -> None:
    given = play(
        kind("s", key=str, value=int),
        lambda s: s.put_all({"a": 1, "ab": 2, "b": 3, "c": 4}),
        lambda s: (s.get("a"), s["ab"], s.get("z"), s.get("z", 0), "b" in s, "z" in s),
        lambda s: (list(s.all()), list(s.reverse_all()), list(s)),
        lambda s: (
            [list(s.range(*ends)) for ends in (("ab", "b"), (None, "a"), ("c", "a"))] + [list(s.reverse_range("b"))]
        ),
        lambda s: (list(s.prefix_scan("a")), list(s.prefix_scan(b"b"))),
        lambda s: (s.put_if_absent("a", 9), s.put_if_absent("d", 5), s.delete("b"), s.delete("z"), s.put("c", None)),
        lambda s: (list(s.all()), s.approximate_len() > 0),
        crash=crash,
    )
    assert given[1] == (1, 2, None, 0, True, False)
    everything = [("a", 1), ("ab", 2), ("b", 3), ("c", 4)]
    assert given[2] == (everything, everything[::-1], ["a", "ab", "b", "c"])
    assert given[3] == [everything[1:3], everything[:1], [], [("c", 4), ("b", 3)]]
    assert given[4] == (everything[:2], [("b", 3)])
    assert given[5] == (1, None, 3, None, None)
    assert given[6] == ([("a", 1), ("ab", 2), ("d", 5)], True)


def test_a_value_that_was_read_may_be_changed() -> None:
    def change(store: Any) -> Any:
        store.put("k", {"n": 1})
        store.get("k")["n"] = 2
        return store.get("k"), store.get("k") is store.get("k")

    plain = sf.Serdes.json(decode="dict")
    assert play(Stores.persistent_key_value("s", key=str, value=plain), change, lambda s: s.get("k")) == [
        ({"n": 1}, False),
        {"n": 1},
    ]


def test_timestamped() -> None:
    given = play(
        Stores.persistent_timestamped_key_value("s", key=str, value=int),
        lambda s: s.put("a", ValueAndTimestamp(1, 7)),
        lambda s: (s.get("a"), list(s.all()), s.delete("a"), s.get("a"), isinstance(s, sf.TimestampedKeyValueStore)),
    )
    assert given[1] == ((1, 7), [("a", (1, 7))], (1, 7), None, True)
    with pytest.raises(sf.ProcessingError, match="ValueAndTimestamp"):
        play(Stores.persistent_timestamped_key_value("s", key=str, value=int), lambda s: s.put("a", 1))


@pytest.mark.parametrize("crash", [False, True])
def test_window(crash: bool) -> None:
    given = play(
        Stores.persistent_window("s", retention="100ms", size="20ms", key=str, value=int),
        lambda s: [s.put("a", 1, 10), s.put("a", 2, 30), s.put("b", 3, 30), s.put("a", None, 50)],
        lambda s: (s.fetch("a", 10), s.fetch("a", 11), list(s.fetch("a", frm=0, to=30)), list(s.backward_fetch("a"))),
        lambda s: (list(s.fetch_all(20, 40)), list(s.all()), list(s.fetch_range("b", None))),
        lambda s: [s.put("a", 4, 120), s.put("a", 5, 15)],
        lambda s: list(s.all()),
        crash=crash,
    )
    assert given[1] == (1, None, [(10, 1), (30, 2)], [(30, 2), (10, 1)])
    a10, a30, b30 = ((Windowed(k, Window(at, at + 20)), v) for k, at, v in (("a", 10, 1), ("a", 30, 2), ("b", 30, 3)))
    assert given[2] == ([a30, b30], [a10, a30, b30], [b30])
    assert given[4] == [a30, (Windowed("a", Window(120, 140)), 4), b30]


def test_window_with_duplicates() -> None:
    given = play(
        Stores.persistent_window("s", "1h", "10ms", retain_duplicates=True, key=str, value=int),
        lambda s: [s.put("a", 1, 10), s.put("a", 1, 10), s.put("a", 2, 10)],
        lambda s: list(s.fetch("a", frm=10, to=10)),
    )
    assert given[1] == [(10, 1), (10, 1), (10, 2)]


def test_session() -> None:
    a, b = Windowed("a", Window(10, 15)), Windowed("a", Window(30, 35))
    given = play(
        Stores.persistent_session("s", "1h", key=str, value=int),
        lambda s: [s.put(a, 1), s.put(b, 2), s.put(Windowed("b", Window(1, 2)), 3)],
        lambda s: (list(s.find_sessions("a", earliest_end=15, latest_start=30)), s.fetch_session("a", 10, 15)),
        lambda s: (list(s.find_sessions("a", earliest_end=16, latest_start=99)), list(s.fetch("a", reverse=True))),
        lambda s: (s.remove(a), list(s.fetch("a")), len(list(s.fetch("a", "b")))),
    )
    assert given[1:] == [([(a, 1), (b, 2)], 1), ([(b, 2)], [(b, 2), (a, 1)]), (None, [(b, 2)], 2)]


def test_versioned() -> None:
    given = play(
        Stores.persistent_versioned("s", "100ms", key=str, value=str),
        lambda s: (s.put("a", "x", 10), s.put("a", "y", 30), s.put("a", "w", 20), s.put("a", None, 40)),
        lambda s: (s.get("a"), s.get("a", as_of=35), s.get("a", as_of=15), s.get("a", as_of=5)),
        lambda s: (s.put("b", "z", 300), s.put("a", "late", 100), s.get("b"), s.delete("b", 310), s.get("b")),
    )
    assert given[0] == (sf.VALID_TO_UNDEFINED, sf.VALID_TO_UNDEFINED, 30, sf.VALID_TO_UNDEFINED)
    assert [v and v[:2] for v in given[1]] == [None, ("y", 30), ("x", 10), None]
    assert given[2][:2] == (sf.VALID_TO_UNDEFINED, sf.NOT_PUT)
    assert given[2][2] == given[2][3] == ("z", 300, None)
    assert given[2][4] is None


def test_iterators() -> None:
    def look(store: Any) -> Any:
        store.put_all([("a", 1), ("b", 2)])
        with store.all() as entries:
            first = entries.peek(), next(entries)
        return first, list(entries), entries.peek()

    entry = ("a", 1)
    assert play(Stores.key_value("s", key=str, value=int), look) == [((entry, entry), [], None)]


def test_invalid_calls_of_a_store_are_refused() -> None:
    store = Stores.persistent_key_value("s", key=str, value=int)
    for step, words in (
        (lambda s: s.put("a", "text"), "int64"),
        (lambda s: s.put(None, 1), "no null keys"),
        (lambda s: s.get(5), "string"),
        (lambda s: s["z"], "KeyError"),
    ):
        with pytest.raises(sf.ProcessingError, match=words):
            play(store, step)


def test_tables_are_read_only() -> None:
    class Writes(sf.ContextualProcessor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            store = self.context.state_store("table")
            assert store.get("t") == ValueAndTimestamp("row", 1)
            store.put("t", ValueAndTimestamp("mine", 1))

    builder = sf.StreamsBuilder()
    builder.table("rows", key=str, value=str, store="table")
    builder.stream("in", key=str, value=str).process(Writes, stores=["table"])
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("rows", str, str).pipe("t", "row", timestamp=1)
        with pytest.raises(sf.ProcessingError, match="may only read"):
            driver.input("in", str, str).pipe("k", "v", timestamp=2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Stores.persistent_key_value(""),
        lambda: Stores.persistent_window("s", "1ms", "2ms"),
        lambda: Stores.persistent_session("s", "0ms"),
        lambda: Stores.key_value("s", logging="yes"),  # type: ignore[arg-type]
        lambda: sf.StreamsBuilder().add_state_store("s"),  # type: ignore[arg-type]
    ],
)
def test_wrong_declarations_are_refused(make: Any) -> None:
    with pytest.raises(sf.TopologyError):
        make()


def test_the_same_name_twice_is_refused() -> None:
    class Brings(sf.ContextualProcessor[str, str, str, str]):
        @classmethod
        def stores(cls) -> list[Any]:
            return [Stores.key_value("s", key=str, value=int)]

        def process(self, record: Record[str, str]) -> None: ...

    class BringsAnother(Brings):
        @classmethod
        def stores(cls) -> list[Any]:
            return [Stores.key_value("s", key=str, value=str)]

    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=str)
    stream.process(Brings)
    stream.process(Brings)
    with pytest.raises(sf.TopologyError, match="two different stores are named 's'"):
        stream.process(BringsAnother)
