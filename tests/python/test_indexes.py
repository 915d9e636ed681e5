"""Secondary indexes, and `find` on stores from outside."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

import stoatflow as sf
from committed import Make, read
from concurrency import until
from stoatflow import ConfigError, EmbeddedBroker, Index, State, StoatFlow, Stores, TopologyError

BY_CITY = Index("by_city", sf.value["city"])
BY_MAIL = Index("by_mail", sf.value["mail"], unique=True)
BY_TAG = Index("by_tag", sf.value["tags"], each=True)
BY_CITY_AGE = Index("by_city_age", sf.value["city"], sf.value["age"])
ALL = (BY_CITY, BY_MAIL, BY_TAG, BY_CITY_AGE)

Document = dict[str, Any]


def put(broker: EmbeddedBroker, *documents: tuple[str, Document | None]) -> None:
    broker.produce_many(
        "in",
        (
            (None, key.encode(), None if document is None else json.dumps(document).encode(), at)
            for at, (key, document) in enumerate(documents)
        ),
    )


def table(*indexes: Index, on_error: Any = None, **how: Any) -> sf.Topology:
    builder = sf.StreamsBuilder()
    store = sf.Materialized("docs", key=str, value=dict, indexes=indexes, **how)
    builder.table("in", key=str, value=dict, store=store, on_error=on_error)
    return builder.build()


PEOPLE: list[tuple[str, Document]] = [
    ("ann", {"city": "Oslo", "age": 31, "mail": "ann@a", "tags": ["x", "y"]}),
    ("bob", {"city": "Oslo", "age": 27.5, "mail": "bob@b", "tags": ["y"]}),
    ("cyd", {"city": "Bergen", "age": 54, "mail": "cyd@c", "tags": []}),
    ("dan", {"city": None, "age": 9, "mail": None}),
    ("eve", {"age": 40, "mail": None, "tags": ["x"], "home": {"street": "Main"}}),
]


def keys(found: sf.Found[Any]) -> list[str]:
    return [key for key, _ in found]


@pytest.mark.parametrize("backend", ["rocksDB", "in_memory"])
def test_rows_are_found_along_indexes(broker: EmbeddedBroker, make: Make, backend: str) -> None:
    put(broker, *PEOPLE)
    with make(table(*ALL), **{"default.dsl.store": backend}) as app:
        read(app, broker)
        docs = app.store("docs")
        city, age, tags = sf.value["city"], sf.value["age"], sf.value["tags"]

        found = docs.find(city == "Oslo")
        assert found == [("ann", PEOPLE[0][1]), ("bob", PEOPLE[1][1])]
        assert found.cursor is None
        assert found.plan == sf.QueryPlan("index", "by_city", 1, False, False, 2, 0)
        assert docs.explain(city == "Oslo") == sf.QueryPlan("index", "by_city", 1, False, False, 0, 0)

        assert keys(docs.find(city.is_null())) == ["dan", "eve"]
        assert keys(docs.find(city.is_in(["Bergen", "Oslo"]) & (age > 28))) == ["cyd", "ann"]
        assert keys(docs.find(city.str.startswith("B"))) == ["cyd"]
        assert keys(docs.find((city == "Oslo") | (city == "Bergen"))) == ["cyd", "ann", "bob"]
        ranged = docs.find((city == "Oslo") & (age >= 27.5) & (age < 31))
        assert (keys(ranged), ranged.plan.index, ranged.plan.rows_read) == (["bob"], "by_city_age", 1)
        assert keys(docs.find(sf.value["mail"] == "cyd@c")) == ["cyd"]
        assert keys(docs.find(tags.list.contains("y"))) == ["ann", "bob"]
        assert keys(docs.find(tags.list.contains("y") & tags.list.contains("x"))) == ["ann"]
        assert keys(docs.find(tags.list.contains("y") | tags.list.contains("x"))) == ["ann", "bob", "eve"]

        down = docs.find(city == "Oslo", order_by=sf.desc(age))
        assert (keys(down), down.plan.sorted) == (["ann", "bob"], False)
        by_mail = docs.find(city == "Oslo", order_by=[sf.desc(sf.value["mail"])])
        assert (keys(by_mail), by_mail.plan.sorted) == (["bob", "ann"], True)
        assert docs.find(city == "Oslo", select={"who": sf.key, "age": age}, limit=1) == [{"who": "ann", "age": 31}]
        assert docs.find(city == "Oslo", select=[sf.key, tags]) == [("ann", ["x", "y"]), ("bob", ["y"])]
        assert docs.find(city == "Oslo", select=age) == [31, 27.5]

        assert keys(docs.find(sf.key == "eve")) == ["eve"]
        assert docs.find(sf.key.is_in(["ann", "zoe", "bob"])).plan.way == "keys"
        assert keys(docs.find((sf.key > "bob") & (sf.key <= "dan"))) == ["cyd", "dan"]
        assert keys(docs.find(limit=2)) == ["ann", "bob"]
        assert keys(docs.find(order_by=sf.desc(sf.key), limit=2)) == ["eve", "dan"]
        nested = docs.find(sf.value["home"]["street"] == "Main", allow_scan=True)
        assert (keys(nested), nested.plan.way, nested.plan.rows_read) == (["eve"], "scan", 5)
        timed = app.store("docs", timestamps=True).find(sf.key == "bob")
        assert timed[0][1].timestamp == 1


def test_a_covering_index_answers_without_reading_rows(broker: EmbeddedBroker, make: Make) -> None:
    city, age = sf.value["city"], sf.value["age"]
    put(broker, *PEOPLE)
    covering = Index("by_city", city, storing=[age, sf.value["home"]])
    with make(table(BY_CITY_AGE, covering)) as app:
        read(app, broker)
        docs = app.store("docs")
        found = docs.find(city == "Oslo", select={"who": sf.key, "age": age}, order_by=sf.desc(age))
        assert found == [{"who": "ann", "age": 31}, {"who": "bob", "age": 27.5}]
        # The other index has the order, which counts more than that no row is read.
        assert (found.plan.index, found.plan.covering, found.plan.sorted) == ("by_city_age", False, False)
        found = docs.find(city == "Oslo", select={"who": sf.key, "age": age})
        assert found == [{"who": "ann", "age": 31}, {"who": "bob", "age": 27.5}]
        assert (found.plan.index, found.plan.covering, found.plan.rows_read) == ("by_city", True, 2)
        streets = docs.find(city.is_null(), select=[sf.value["home"]["street"], sf.value["home"], city])
        assert streets == [(None, None, None), ("Main", {"street": "Main"}, None)]
        assert streets.plan.covering
        # What it doesn't store, and whole rows, are read from the rows.
        assert docs.find(city == "Bergen", select=sf.value["mail"]) == ["cyd@c"]
        for asked in ({"select": sf.value["mail"]}, {"select": sf.timestamp}, {"select": sf.value}, {}):
            assert not docs.explain(city == "Oslo", **asked).covering
        # An update of a stored value alone changes the entry.
        put(broker, ("ann", {"city": "Oslo", "age": 32}), ("bob", None))
        read(app, broker)
        assert docs.find(city == "Oslo", select=age) == [32]


def test_a_covering_index_is_built_from_rows_and_restored(broker: EmbeddedBroker, make: Make, tmp_path: Path) -> None:
    city, age = sf.value["city"], sf.value["age"]
    put(broker, *PEOPLE)
    with make(table(BY_CITY)) as app:
        read(app, broker)
    covering = table(Index("by_city", city, storing=age))
    for _ in range(2):
        with make(covering) as app:
            until(lambda: app.state is State.RUNNING)
            found = app.store("docs").find(city == "Oslo", select=age)
            assert (list(found), found.plan.covering) == ([31, 27.5], True)
        shutil.rmtree(tmp_path / "state")


def test_changes_and_deletions_are_followed(broker: EmbeddedBroker, make: Make) -> None:
    put(broker, *PEOPLE)
    with make(table(*ALL)) as app:
        read(app, broker)
        docs = app.store("docs")
        with app.snapshot() as before:
            put(broker, ("ann", {"city": "Bergen", "tags": ["z"]}), ("bob", None), ("fay", {"city": "Oslo"}))
            read(app, broker)
            assert keys(before.store("docs").find(sf.value["city"] == "Oslo")) == ["ann", "bob"]
        assert keys(docs.find(sf.value["city"] == "Oslo")) == ["fay"]
        assert keys(docs.find(sf.value["city"] == "Bergen")) == ["ann", "cyd"]
        assert keys(docs.find(sf.value["tags"].list.contains("y"))) == []
        with pytest.raises(ConfigError, match="snapshot is closed"):
            before.store("docs").find(sf.value["city"] == "Oslo")


@pytest.mark.parametrize("order", [None, sf.value["n"], sf.desc(sf.value["n"])])
@pytest.mark.parametrize("indexed", [True, False])
def test_pages_have_each_row_once(broker: EmbeddedBroker, make: Make, order: Any, indexed: bool) -> None:
    rows = [(f"k{at:03}", {"group": "g", "n": at * 7 % 50}) for at in range(250)]
    put(broker, *rows)
    indexes = [Index("by_n", sf.value["group"], sf.value["n"])] if indexed else []
    with make(table(*indexes)) as app:
        read(app, broker)
        pages, cursor = [], None
        while True:
            # Each page of the live handle is from another snapshot.
            page = app.store("docs").find(
                sf.value["group"] == "g", order_by=order, limit=40, cursor=cursor, allow_scan=not indexed
            )
            assert len(page) <= 40
            pages += list(page)
            cursor = page.cursor
            if cursor is None:
                break
        assert sorted(pages, key=lambda row: row[0]) == rows
        numbers = [document["n"] for _, document in pages]
        if order is not None:
            assert numbers == sorted(numbers, reverse=isinstance(order, sf.Descending))


def test_a_read_that_would_scan_names_the_index(broker: EmbeddedBroker, make: Make) -> None:
    put(broker, *PEOPLE)
    with make(table(BY_CITY)) as app:
        read(app, broker)
        docs = app.store("docs")
        with pytest.raises(ConfigError, match=r'sf.Index\("by_age", sf.value\["age"\]\)') as error:
            docs.find(sf.value["age"] > 30)
        assert error.value.next_step is not None
        assert "allow_scan=True" in error.value.next_step
        with pytest.raises(ConfigError, match="all rows would be read"):
            docs.find()
        cursor = docs.find(limit=1).cursor
        with pytest.raises(ConfigError, match="another query"):
            docs.find(sf.value["city"] == "Oslo", limit=1, cursor=cursor)
        with pytest.raises(ConfigError, match="no cursor"):
            docs.find(limit=1, cursor="?")
        with pytest.raises(ConfigError, match="limit=0"):
            docs.find(limit=0)
        with pytest.raises(ConfigError, match="takes expressions"):
            docs.find(lambda row: True)


def test_the_cursor_of_another_store(broker: EmbeddedBroker, make: Make) -> None:
    builder = sf.StreamsBuilder()
    builder.table("in", key=str, value=dict, store=sf.Materialized("docs", key=str, value=dict))
    broker.create_topic("other", 1)
    builder.table("other", key=str, value=dict, store=sf.Materialized("others", key=str, value=dict))
    put(broker, *PEOPLE)
    with make(builder.build()) as app:
        read(app, broker)
        cursor = app.store("docs").find(limit=1).cursor
        with pytest.raises(ConfigError, match="of another store than 'others'"):
            app.store("others").find(limit=1, cursor=cursor)


def test_an_invalid_index_is_refused() -> None:
    def refused(*indexes: Any, **how: Any) -> str:
        with pytest.raises(TopologyError) as error:
            table(*indexes, **how).describe()
        return str(error.value)

    assert "two indexes are named 'by_city'" in refused(BY_CITY, BY_CITY)
    assert "has 0 fields" in refused(Index("empty"))
    assert "just one with each=True" in refused(Index("two", sf.value["a"], sf.value["b"], each=True))
    assert "both each=True and unique=True" in refused(Index("both", sf.value["a"], each=True, unique=True))
    assert "an index is made of a row" in refused(Index("constant", sf.lit(1)))
    assert "can't be named" in refused(Index("a/b", sf.value["a"]))
    assert "versioned table has no indexes" in refused(BY_CITY, history="1h")
    assert "takes Index objects" in refused("by_city")
    with pytest.raises(TypeError, match=r"a function has changed. Next: .* with map_values\(...\) before the store"):
        Index("by", lambda row: row)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"a function has changed"):
        Index("by", sf.value["a"], storing=[len])  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"not 'city'. Next: write the field as an expression of sf.key"):
        Index("by", "city")  # type: ignore[arg-type]
    builder = sf.StreamsBuilder()
    grouped = builder.stream("in", key=str, value=dict).group_by_key()
    grouped.count(store=sf.Materialized("n", key=str, indexes=[Index("by", sf.value, unique=True)]))
    with pytest.raises(TopologyError, match="index of an aggregate can't be unique"):
        builder.build().describe()


def test_a_field_that_the_schema_lacks_is_refused() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "city", "type": "string"}]}
    serde = sf.Serdes.avro(schema)
    builder = sf.StreamsBuilder()
    store = sf.Materialized("docs", key=str, value=serde, indexes=[Index("by_town", sf.value["town"])])
    builder.table("in", key=str, value=serde, store=store)
    with pytest.raises(TopologyError, match="town"):
        builder.build().describe()


def test_a_second_row_with_a_unique_value_fails(broker: EmbeddedBroker, make: Make) -> None:
    put(broker, *PEOPLE, ("fay", {"mail": "ann@a"}), ("gus", {"mail": "gus@g"}))
    with pytest.raises(sf.ProcessingError) as error, make(table(BY_MAIL)) as app:
        until(lambda: app.state is State.ERROR)
    for part in ('"ann"', '"fay"', "by_mail", "unique"):
        assert part in str(error.value)


def test_a_handler_drops_records_that_violate_a_unique_index(broker: EmbeddedBroker, make: Make) -> None:
    put(broker, *PEOPLE)
    with make(table(BY_MAIL, on_error="continue")) as app:
        read(app, broker)
        put(broker, ("fay", {"mail": "ann@a"}), ("gus", {"mail": "gus@g"}))
        read(app, broker)
        docs = app.store("docs")
        assert docs.get("fay") is None
        assert keys(docs.find(sf.value["mail"] == "ann@a")) == ["ann"]
        assert keys(docs.find(sf.value["mail"] == "gus@g")) == ["gus"]
        put(broker, ("ann", None))
        read(app, broker)
        put(broker, ("fay", {"mail": "ann@a"}))
        read(app, broker)
        assert keys(docs.find(sf.value["mail"] == "ann@a")) == ["fay"]


class Keep(sf.Processor[str, Document, str, Document]):
    """Stores documents, and reports those that it may not store."""

    store: sf.KeyValueStore[str, Document]

    def init(self, context: sf.ProcessorContext[str, Document]) -> None:
        """Get the store."""
        self.context = context
        self.store = context.state_store("docs")

    def process(self, record: sf.Record[str, Document]) -> None:
        """Store it."""
        try:
            self.store.put(record.key or "", record.value or {})
        except sf.ProcessingError as error:
            self.context.forward(sf.Record(record.key, {"refused": "unique" in str(error)}, record.timestamp))


def test_stores_of_processors_have_indexes(broker: EmbeddedBroker, make: Make) -> None:
    broker.create_topic("out", 1)
    builder = sf.StreamsBuilder()
    builder.add_state_store(Stores.key_value("docs", key=str, value=dict, indexes=[BY_CITY, BY_MAIL]))
    builder.stream("in", key=str, value=dict).process(Keep, stores=["docs"]).to("out", key=str, value=dict)
    put(broker, *PEOPLE)
    with make(builder.build(), **{"ensure.explicit.naming": False}) as app:
        read(app, broker)
        # Only now: it is in another partition, and could be processed before the row with its value.
        put(broker, ("fay", {"mail": "ann@a"}))
        read(app, broker)
        assert keys(app.store("docs").find(sf.value["city"] == "Oslo")) == ["ann", "bob"]
        refused = [(record.key, json.loads(record.value or b"")) for record in broker.read("out")]
        assert refused == [(b"fay", {"refused": True})]


def states(app: StoatFlow) -> dict[str, Any]:
    with urlopen(f"{app.admin_url}state") as answer:  # noqa: S310  # our own
        return {each["index"]: each for each in json.load(answer)["indexes"]}


def test_an_index_is_added_and_dropped_without_reading_again(broker: EmbeddedBroker, make: Make) -> None:
    put(broker, *PEOPLE)
    admin = {"admin.listen": "127.0.0.1:0"}
    with make(table()) as app:
        read(app, broker)
    with make(table(BY_CITY, BY_MAIL), **admin) as app:
        read(app, broker)
        until(lambda: states(app)["by_city"]["state"] == "readable")
        assert keys(app.store("docs").find(sf.value["city"] == "Oslo")) == ["ann", "bob"]
        assert states(app)["by_mail"] == {
            "store": "docs",
            "index": "by_mail",
            "state": "readable",
            "unreadable_rows": 0,
        }
    with make(table()) as app:
        read(app, broker)
        put(broker, ("bob", None), ("fay", {"city": "Oslo"}))
        read(app, broker)
        with pytest.raises(ConfigError, match="no index finds"):
            app.store("docs").find(sf.value["city"] == "Oslo")
    # Nothing of the old index is left in it.
    with make(table(BY_CITY)) as app:
        read(app, broker)
        assert keys(app.store("docs").find(sf.value["city"] == "Oslo")) == ["ann", "fay"]


def test_an_index_is_restored_with_its_store(broker: EmbeddedBroker, make: Make, tmp_path: Path) -> None:
    put(broker, *PEOPLE)
    with make(table(*ALL)) as app:
        read(app, broker)
    import shutil

    shutil.rmtree(tmp_path / "state")
    with make(table(*ALL)) as app:
        read(app, broker)
        assert keys(app.store("docs").find(sf.value["city"] == "Oslo")) == ["ann", "bob"]
        assert keys(app.store("docs").find(sf.value["tags"].list.contains("x"))) == ["ann", "eve"]


def test_a_large_index_is_built_while_the_application_runs(broker: EmbeddedBroker, make: Make) -> None:
    count = 12_000
    put(broker, *((f"k{at:05}", {"n": at % 10}) for at in range(count)))
    with make(table(), **{"commit.interval.ms": 20}) as app:
        read(app, broker)
    with make(table(Index("by_n", sf.value["n"])), **{"commit.interval.ms": 20, "admin.listen": "127.0.0.1:0"}) as app:
        until(lambda: app.state is State.RUNNING)
        # Rows change meanwhile.
        put(broker, *((f"k{at:05}", {"n": 11}) for at in range(0, count, 10)))
        read(app, broker)
        until(lambda: states(app)["by_n"]["state"] == "readable")
        with app.snapshot() as at:
            docs = at.store("docs")
            for number in (0, 1, 9, 11):
                along = docs.find(sf.value["n"] == number)
                assert along.plan.way == "index"
                wanted = [key for key, document in docs.all() if document["n"] == number]
                assert keys(along) == wanted


def test_rows_that_can_not_be_indexed_are_counted(broker: EmbeddedBroker, make: Make) -> None:
    builder = sf.StreamsBuilder()
    index = Index("by_len", sf.value["name"].str.upper())
    builder.table("in", key=str, value=dict, store=sf.Materialized("docs", key=str, value=dict, indexes=[index]))
    put(broker, ("a", {"name": "x"}), ("b", {"name": 5}), ("c", {}))
    with make(builder.build(), **{"admin.listen": "127.0.0.1:0"}) as app:
        read(app, broker)
        assert states(app)["by_len"]["unreadable_rows"] == 1
        docs = app.store("docs")
        assert keys(docs.find(sf.value["name"].str.upper() == "X")) == ["a"]
        assert keys(docs.find(sf.value["name"].str.upper().is_null())) == ["c"]
        scanned = docs.find(sf.value["name"].str.lower() == "x", allow_scan=True)
        assert (keys(scanned), scanned.plan.unreadable) == (["a"], 1)


def test_a_row_that_does_not_decode_is_an_error_only_where_it_is_read(broker: EmbeddedBroker, make: Make) -> None:
    """Something else has written to the changelog."""
    broker.create_topic("changed-docs-changelog")
    broker.produce("changed-docs-changelog", b"bad", b"\xff{no json", 0)
    broker.produce("changed-docs-changelog", b"good", b'{"city": "Oslo"}', 0)
    with make(table(BY_CITY), **{"application.id": "changed", "admin.listen": "127.0.0.1:0"}) as app:
        read(app, broker)
        assert states(app)["by_city"]["unreadable_rows"] == 1
        docs = app.store("docs")
        assert keys(docs.find(sf.value["city"] == "Oslo")) == ["good"]
        found = docs.find(sf.value["town"].is_null(), allow_scan=True)
        assert (keys(found), found.plan.unreadable) == (["good"], 1)
        with pytest.raises(sf.errors.SerdeError, match=r"not JSON .*Next: fix the producer"):
            docs.get("bad")
        with pytest.raises(sf.errors.SerdeError, match=r"not JSON"):
            list(docs.all())
        assert docs.get("good") == {"city": "Oslo"}


def test_windows_are_not_searched(broker: EmbeddedBroker, make: Make) -> None:
    builder = sf.StreamsBuilder()
    windowed = (
        builder.stream("in", key=str, value=dict).group_by_key().windowed_by(sf.TimeWindows.of_size_with_no_grace("1m"))
    )
    windowed.count(store=sf.Materialized("n", key=str))
    with make(builder.build()) as app:
        until(lambda: app.state is State.RUNNING)
        with pytest.raises(AttributeError, match="find"):
            app.store("n").find()
