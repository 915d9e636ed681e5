"""Random queries find the same rows with indexes as without them, in the same order, and page by page."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import stoatflow as sf
from concurrency import until
from stoatflow import EmbeddedBroker, Index, State, StoatFlow

CITY, N, TAGS = sf.value["city"], sf.value["n"], sf.value["tags"]
INDEXES = [
    Index("by_city", CITY),
    Index("by_city_n", CITY, N),
    Index("by_n_city", N, CITY),
    Index("by_tag", TAGS, each=True),
    Index("covering_city", CITY, storing=[N, TAGS]),
    Index("covering_tag", TAGS, each=True, storing=[CITY, N]),
]


def document(rng: random.Random) -> dict[str, Any]:
    """Fields of several types, some missing."""
    whole: dict[str, Any] = {
        "city": rng.choice(["a", "ab", "b", "", None, 3, True, {}]),
        "n": rng.choice([-2, 0, 1, 1.5, 2, 2**60, None, "x", []]),
        "tags": rng.choice([[], ["s"], ["s", "t"], ["t", 1, "t"], [None], None, "s"]),
    }
    return {name: content for name, content in whole.items() if rng.random() < 0.9}


def condition(rng: random.Random, depth: int = 2) -> sf.Expression:
    """A condition with nested parts."""
    if depth and rng.random() < 0.5:
        one, other = condition(rng, depth - 1), condition(rng, depth - 1)
        return one & other if rng.random() < 0.6 else one | other
    number, text = rng.choice([-2, 0, 1, 1.5, 2, 2**60]), rng.choice(["", "a", "ab", "b"])
    value = rng.choice([number, text, None, True])
    key = f"k{rng.randrange(120):03}"
    city, n = sf.value["city"], sf.value["n"]
    parts: list[sf.Expression] = [
        *(
            city == value,
            city != value,
            ~(city == value),
            n == number,
            n < number,
            n <= number,
            n > number,
            n >= number,
        ),
        *(city < text, city >= text, city.is_in([text, "b", 3]), n.between(0, number), city.str.startswith(text)),
        *(city.is_null(), ~city.is_null(), TAGS.list.contains("s"), TAGS.list.contains(value)),
        *(sf.key == key, sf.key < key, sf.key.str.startswith("k0"), sf.key.is_in([key, "k001"])),
    ]
    return rng.choice(parts)


def order(rng: random.Random) -> list[Any]:
    """Expressions to order by."""
    by = rng.sample([CITY, N, sf.key], k=rng.randrange(4))
    return [sf.desc(each) if rng.random() < 0.4 else each for each in by]


def pages(store: Any, limit: int, **asked: Any) -> list[Any]:
    """All pages, one after the other."""
    found: list[Any] = []
    cursor = None
    while True:
        page = store.find(limit=limit, cursor=cursor, allow_scan=True, **asked)
        assert len(page) <= limit
        found += page
        cursor = page.cursor
        if cursor is None:
            return found


def test_indexes_change_no_answer(tmp_path: Path) -> None:
    rng = random.Random(11)  # noqa: S311  # the same queries each time
    rows = {f"k{at:03}": document(rng) for at in range(120)}
    builder = sf.StreamsBuilder()
    ways = set()
    with EmbeddedBroker(tmp_path / "broker") as broker:
        for name, indexes in (("indexed", INDEXES), ("plain", [])):
            broker.create_topic(name, 1)
            # Overwritten, so that old entries must be deleted.
            for documents in ({key: document(rng) for key in rows}, rows):
                broker.produce_many(
                    name, [(0, key.encode(), json.dumps(each).encode(), 0) for key, each in documents.items()]
                )
            store = sf.Materialized(name, key=str, value=dict, indexes=indexes)
            builder.table(name, key=str, value=dict, store=store)
        config = {"application.id": "app", "state.dir": str(tmp_path / "state")}
        with StoatFlow(builder.build(), config, broker=broker) as app:
            until(lambda: app.state is State.RUNNING and app.lag() == 0)
            with app.snapshot() as at:
                indexed, plain = at.store("indexed"), at.store("plain")
                assert dict(plain.all()) == dict(indexed.all()) == rows
                for _ in range(200):
                    # Rows with equal values are ordered by key.
                    by = [*order(rng), sf.key]
                    asked = {"where": condition(rng), "order_by": by}
                    wanted = list(plain.find(allow_scan=True, **asked))
                    found = indexed.find(allow_scan=True, **asked)
                    ways.add((found.plan.way, found.plan.index, found.plan.sorted))
                    assert list(found) == wanted, asked
                    assert pages(indexed, rng.randrange(1, 30), **asked) == wanted, asked
                    select = [N, sf.key, TAGS, CITY]
                    wanted_columns = plain.find(allow_scan=True, select=select, **asked)
                    columns = indexed.find(allow_scan=True, select=select, **asked)
                    ways.add((columns.plan.way, columns.plan.index, columns.plan.covering))
                    assert columns == list(wanted_columns), asked
                    loose = indexed.find(asked["where"], allow_scan=True)
                    ways.add((loose.plan.way, loose.plan.index, loose.plan.sorted))
                    assert sorted(key for key, _ in loose) == sorted(key for key, _ in wanted), asked
                    assert sorted(key for key, _ in pages(indexed, 7, where=asked["where"])) == sorted(
                        key for key, _ in wanted
                    )
    assert {way for way, _, _ in ways} == {"keys", "key_range", "index", "scan"}
    assert {index for _, index, _ in ways if index} == {index.name for index in INDEXES}
    assert ("index", "covering_city", True) in ways
