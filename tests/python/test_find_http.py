"""`/stores/<name>?where=...&order_by=...`: conditions as SQL writes them, with DuckDB as the judge."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import duckdb
import pytest

import stoatflow as sf
from committed import Make, read
from http_calls import ask
from stoatflow import EmbeddedBroker
from stoatflow.cli import main

Document = dict[str, Any]


class Reversed(sf.Serde[str]):
    """A serde in Python."""

    def serialize(self, value: str) -> bytes:
        return value.encode()[::-1]

    def deserialize(self, data: bytes) -> str:
        return data[::-1].decode()


CITIES = ("Bergen", "Oslo", "O'Hara", "Ås", "", "oslo_west")
TAGS = ("chess", "go", "tea")


def topology() -> sf.Topology:
    builder = sf.StreamsBuilder()
    indexes = [
        sf.Index("by_city_age", sf.value["city"], sf.value["age"]),
        sf.Index("by_tag", sf.value["tags"], each=True),
    ]
    builder.table("in", key=str, value=dict, store=sf.Materialized("people", key=str, value=dict, indexes=indexes))
    return builder.build()


def people(dice: random.Random, count: int) -> dict[str, Document]:
    """Some members are null, some are missing."""

    def maybe(member: Callable[[], Any]) -> Any:
        return None if dice.random() < 0.2 else member()

    found = {}
    for number in range(count):
        document = {
            "city": maybe(lambda: dice.choice(CITIES)),
            "age": maybe(lambda: dice.randint(-2, 8)),
            "score": maybe(lambda: dice.randint(-4, 4) / 2),
            "vip": maybe(lambda: dice.random() < 0.5),
            "tags": maybe(lambda: dice.sample(TAGS, dice.randint(0, 3))),
            "home": maybe(lambda: {"street": maybe(lambda: dice.choice(CITIES))}),
        }
        left_out = [name for name, value in document.items() if value is None and dice.random() < 0.5]
        found[f"k{number:03}"] = {name: value for name, value in document.items() if name not in left_out}
    return found


def put(broker: EmbeddedBroker, documents: dict[str, Document]) -> None:
    rows = ((None, key.encode(), json.dumps(document).encode(), 7) for key, document in documents.items())
    broker.produce_many("in", rows)


def text(dice: random.Random) -> str:
    return "'" + dice.choice(CITIES).replace("'", "''") + "'"


def condition(dice: random.Random, depth: int) -> str:
    """Any that both understand."""
    if depth:
        left, right = condition(dice, depth - 1), condition(dice, depth - 1)
        return dice.choice([f"({left} and {right})", f"({left} or {right})", f"not ({left})", f"not {left}", left])
    texts, number = dice.choice(["city", "home.street", "_key"]), dice.choice(["age", "score"])
    sign = dice.choice(["=", "<>", "!=", "<", "<=", ">", ">="])
    low, high = sorted(dice.randint(-3, 9) for _ in range(2))
    maybe_not = dice.choice(["", "not "])
    some = dice.choice([*(text(dice) for _ in range(3)), "null"])
    return dice.choice(
        [
            f"{texts} {sign} {text(dice)}",
            f"{number} {sign} {low}",
            f"{number} {sign} {low + 0.5}",
            f"{high} {sign} {number}",
            f"age {sign} score",
            f"city {sign} home.street",
            f"{number} {maybe_not}between {low} and {high}",
            f"{texts} {maybe_not}in ({text(dice)}, {some})",
            f"age {maybe_not}in ({low}, {high}, {high + 1})",
            f"{dice.choice([texts, number, 'vip', 'tags', 'home'])} is {maybe_not}null",
            f"{texts} {maybe_not}like '{dice.choice(['O%', '%o', '%s%', 'Oslo', '%'])}'",
            f"starts_with({texts}, '{dice.choice(['O', 'os', ''])}')",
            f"contains({texts}, 'sl')",
            f"list_contains(tags, '{dice.choice(TAGS)}')",
            f"tags[{dice.choice([1, 2, -1])}] = '{dice.choice(TAGS)}'",
            f"vip = {dice.choice(['true', 'false'])}",
            "vip",
        ]
    )


@pytest.mark.parametrize("seed", range(4))
def test_conditions_follow_sql_semantics(broker: EmbeddedBroker, make: Make, seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311  # the same conditions each time
    documents = people(dice, 60)
    put(broker, documents)
    database = duckdb.connect()
    database.execute(
        "create table people (_key varchar, city varchar, age bigint, score double, vip boolean, tags varchar[], "
        "home struct(street varchar))"
    )
    members = ("city", "age", "score", "vip", "tags", "home")
    rows = [(key, *(document.get(name) for name in members)) for key, document in documents.items()]
    database.executemany("insert into people values (?, ?, ?, ?, ?, ?, ?)", rows)
    ways = set()
    with make(topology()) as app:
        read(app, broker)
        for _ in range(150):
            where = condition(dice, dice.randint(0, 3))
            # What has no order of its own comes by key.
            by = dice.sample(["city", "age desc", "score", "home.street desc"], dice.randint(0, 2))
            order = [*by, "_key"]
            nulls = [f"{each} nulls {'last' if each.endswith('desc') else 'first'}" for each in order]
            wanted = database.execute(f"select _key from people where {where} order by {', '.join(nulls)}")  # noqa: S608
            answer = ask(
                app.admin_url, "/stores/people", where=where, order_by=",".join(order), allow_scan="true", limit=1000
            )
            assert answer.status == 200, (where, answer)
            found = answer.json()
            assert [entry["key"] for entry in found["entries"]] == [key for (key,) in wanted.fetchall()], (where, order)
            assert found["plan"]["unreadable"] == 0, where
            assert [entry["value"] for entry in found["entries"]] == [documents[e["key"]] for e in found["entries"]]
            ways.add(found["plan"]["way"])
    assert ways >= {"scan", "index"}


def test_pages_are_of_one_commit(broker: EmbeddedBroker, make: Make) -> None:
    documents = people(random.Random(9), 300)  # noqa: S311
    put(broker, documents)
    old = sorted(key for key, document in documents.items() if document.get("city") == "Oslo")
    with make(topology()) as app:
        read(app, broker)
        for order in ("", "_key desc", "score,_key"):
            asked = {"where": "city = 'Oslo'", **({"order_by": order} if order else {})}
            page = ask(app.admin_url, "/stores/people", limit=7, **asked).json()
            found = [entry["key"] for entry in page["entries"]]
            while page["cursor"] is not None:
                # What comes meanwhile is of a later commit.
                put(broker, {"late": {"city": "Oslo"}, old[0]: {"city": "Bergen"}})
                read(app, broker)
                page = ask(app.admin_url, "/stores/people", limit=7, cursor=page["cursor"]).json()
                assert len(page["entries"]) <= 7
                found += [entry["key"] for entry in page["entries"]]
            assert sorted(found) == old, order
            if order == "_key desc":
                assert found == old[::-1]
            put(broker, {"late": {"city": "Bergen"}, old[0]: documents[old[0]]})
            read(app, broker)


def test_a_full_scan_is_read_in_pages(broker: EmbeddedBroker, make: Make) -> None:
    """A page reads 100,000 rows at most, however few of them match."""
    count = 150_000
    put(broker, {f"k{number:06}": {"rare": number == count - 1} for number in range(count)})
    with make(topology()) as app:
        read(app, broker)
        first = ask(app.admin_url, "/stores/people", where="rare", allow_scan="true", timeout=60).json()
        assert first["entries"] == []
        assert 100_000 <= first["plan"]["rows_read"] < 110_000
        second = ask(app.admin_url, "/stores/people", cursor=first["cursor"], timeout=60).json()
        assert [entry["key"] for entry in second["entries"]] == [f"k{count - 1:06}"]
        assert second["cursor"] is None


@pytest.mark.parametrize(
    ("query", "says", "helps"),
    [
        ({"where": "score > 3"}, "all rows would be read", 'sf.Index("by_score", sf.value["score"])'),
        ({"where": "score > 3"}, "all rows would be read", "allow_scan=true"),
        ({"where": "city ="}, "where=city = wants a name at its end", "city = 'Oslo'"),
        ({"where": "city = 'Oslo'", "prefix": "a"}, "'prefix' stands beside where", "_key >= 'a'"),
        ({"where": "city = 'Oslo'", "cursor": "x"}, "'where' stands beside a cursor", "cursor="),
        ({"where": "city = 'Oslo'", "order": "age"}, "no parameter 'order'", "order_by"),
        ({"order_by": "age up"}, "order_by=age up wants a comma or nothing more at character 5", "age desc"),
        ({"where": "city.name > 3 and 'a' < 3"}, "str and int have no order", "can work for some row"),
        ({"where": "city = 'Oslo'", "allow_scan": "maybe"}, "allow_scan=maybe", "allow_scan=true"),
    ],
)
def test_invalid_arguments_are_refused(
    broker: EmbeddedBroker, make: Make, query: dict[str, str], says: str, helps: str
) -> None:
    with make(topology()) as app:
        read(app, broker)
        answer = ask(app.admin_url, "/stores/people", **query)
        assert answer.status == 400, answer
        assert says in answer.json()["detail"]
        assert helps in answer.json()["next_step"]


def test_values_that_are_not_objects(broker: EmbeddedBroker, make: Make) -> None:
    builder = sf.StreamsBuilder()
    rows = builder.table("in", key=str, value=int, store=sf.Materialized("numbers", key=str, value=int))
    rows.map_values(str, store=sf.Materialized("own", key=str, value=Reversed()))
    broker.produce_many("in", ((None, f"k{n}".encode(), n.to_bytes(8, "big"), n) for n in range(5)))
    with make(builder.build()) as app:
        read(app, broker)

        def keys(store: str, where: str) -> list[str]:
            answer = ask(app.admin_url, f"/stores/{store}", where=where, allow_scan="true")
            assert answer.status == 200, answer
            return [entry["key"] for entry in answer.json()["entries"]]

        assert keys("numbers", "value > 2") == ["k3", "k4"]
        assert keys("numbers", "_timestamp <= 1 or _key = 'k4'") == ["k0", "k1", "k4"]
        assert keys("own", "_key in ('k1', 'k9')") == ["k1"]
        refused = ask(app.admin_url, "/stores/own", where="value = '3'", allow_scan="true")
        assert refused.status == 400
        assert "a serde in Python has written" in refused.json()["detail"]
        refused = ask(app.admin_url, "/stores/numbers", where="age = 3", allow_scan="true")
        assert "the values have no members" in refused.json()["detail"]


def test_on_the_command_line(broker: EmbeddedBroker, make: Make, capsys: pytest.CaptureFixture[str]) -> None:
    put(broker, {f"k{n:04}": {"city": "Oslo" if n % 2 else "Bergen", "age": n} for n in range(2500)})
    with make(topology()) as app:
        read(app, broker)
        url = str(app.admin_url)

        def keys(*arguments: str) -> list[str]:
            assert main(["query", url, "people", *arguments]) == 0, capsys.readouterr().err
            return [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]

        assert keys("--where", "city = 'Oslo' and age < 4", "--order-by", "age desc") == ["k0003", "k0001"]
        odd = [f"k{n:04}" for n in range(2500) if n % 2]
        assert keys("--where", "city = 'Oslo'", "--limit", "0") == odd
        assert main(["query", url, "people", "--where", "age % 2 = 1"]) == 1
        assert "has '%' at character 5" in capsys.readouterr().err
        assert main(["query", url, "people", "--where", "vip"]) == 1
        assert "allow_scan=true" in capsys.readouterr().err
        assert keys("--where", "vip", "--allow-scan") == []
