"""SQL on the stores of a running application: what is read, what is returned, and what is rejected."""

# ruff: noqa: S608  # the queries are of these tests

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import stoatflow as sf
from committed import HeldUp, Make, read
from stoatflow import ConfigError, EmbeddedBroker, Index, StoatFlow
from stoatflow.cli import main
from stoatflow.cli.admin_port import AdminPort
from stoatflow.sql import ReadOnlyError, ScanRefusedError, SqlError, SqlResult
from stoatflow.sql.engine import _connect

PEOPLE: dict[str, dict[str, Any]] = {
    "ann": {"city": "Oslo", "age": 31, "home": {"street": "Main"}, "tags": ["chess"]},
    "bob": {"city": "Oslo", "age": 27.5, "tags": ["chess", "go"]},
    "cyd": {"city": "Bergen", "age": 54, "tags": []},
    "dan": {"city": None, "age": 9, "nick": "d"},
}


def topology() -> sf.Topology:
    builder = sf.StreamsBuilder()
    indexes = [
        Index("by_city_age", sf.value["city"], sf.value["age"]),
        Index("by_tag", sf.value["tags"], each=True),
        Index("by_mail", sf.value["mail"]),
    ]
    builder.table("in", key=str, value=dict, store=sf.Materialized("people", key=str, value=dict, indexes=indexes))
    orders = builder.stream("orders", key=str, value=int).group_by_key()
    orders.aggregate(sf.sum(sf.value), store=sf.Materialized("revenue", key=str, value=int))
    minutes = orders.windowed_by(sf.TimeWindows.of_size_with_no_grace("1m"))
    minutes.count(store=sf.Materialized("per-minute", key=str, retention="1h"))
    visits = orders.windowed_by(sf.SessionWindows.of_inactivity_gap_with_no_grace("20s"))
    visits.count(store=sf.Materialized("visits", key=str, retention="1h"))
    prices = sf.Materialized("prices", key=str, value=int, history="1h")
    builder.table("prices", key=str, value=int, store=prices)
    builder.table("odd", key=str, value=dict, store=sf.Materialized("odd", key=str, value=dict))
    builder.table("empty", key=str, value=dict, store=sf.Materialized("empty", key=str, value=dict))
    builder.table("by-json", key=dict, value=int, store=sf.Materialized("by-json", key=dict, value=int))
    return builder.build()


def as_int(number: int) -> bytes:
    return number.to_bytes(8, "big")


@pytest.fixture
def app(broker: EmbeddedBroker, make: Make) -> Iterator[StoatFlow]:
    for topic in ("orders", "prices", "odd", "empty", "by-json"):
        broker.create_topic(topic, 1)
    for at, (key, person) in enumerate(PEOPLE.items()):
        broker.produce("in", key.encode(), json.dumps(person).encode(), at)
    for key, amount, at in (("ann", 30, 5_000), ("bob", 20, 6_000), ("ann", 12, 65_000), ("eve", 1, 70_000)):
        broker.produce("orders", key.encode(), as_int(amount), at)
    broker.produce("prices", b"tea", as_int(3), 1_000)
    broker.produce("prices", b"tea", as_int(4), 2_000)
    for key, odd in (("a", {"n": 1}), ("b", {"n": "x"}), ("c", {"City": 1, "city": 2})):
        broker.produce("odd", key.encode(), json.dumps(odd).encode(), 0)
    broker.produce("by-json", b'{"shop": 1}', as_int(7), 0)
    with make(topology()) as made:
        read(made, broker, "in", "orders", "prices", "odd", "by-json")
        yield made


def ways(result: SqlResult) -> dict[str, tuple[str, int]]:
    return {each.store: (each.index or each.way, each.rows_read) for each in result.reads}


def test_rows_and_how_they_were_found(app: StoatFlow) -> None:
    found = app.sql("select _key, city, age from people where city = 'Oslo' order by age")
    assert found.rows == [{"_key": "bob", "city": "Oslo", "age": 27.5}, {"_key": "ann", "city": "Oslo", "age": 31}]
    assert (found.columns, len(found), found[0]["_key"]) == (["_key", "city", "age"], 2, "bob")
    assert found.explain() == "people: by index by_city_age, 2 rows read, city = 'Oslo'"
    assert repr(found) == "<SqlResult: 2 rows of _key, city, age>"

    by_key = app.sql("SELECT * FROM People WHERE _KEY = 'ann'")
    assert (
        by_key.rows[0].items() >= {"_key": "ann", "home": {"street": "Main"}, "tags": ["chess"], "nick": None}.items()
    )
    assert by_key.rows[0]["_timestamp"] == datetime(1970, 1, 1, tzinfo=timezone.utc)
    assert ways(by_key) == {"people": ("keys", 1)}


@pytest.mark.parametrize(
    ("where", "way", "read", "keys"),
    [
        ("_key in ('ann', 'dan', null)", "keys", 2, ["ann", "dan"]),
        ("_key = 'ann' or _key = 'dan'", "keys", 2, ["ann", "dan"]),
        ("_key between 'b' and 'cz'", "key_range", 2, ["bob", "cyd"]),
        ("'b' < _key and _key < 'c'", "key_range", 1, ["bob"]),
        ("_key like 'c%'", "key_range", 1, ["cyd"]),
        ("city = 'Oslo' and age > 30", "by_city_age", 1, ["ann"]),
        ("city = 'Oslo' and age > 30.5", "by_city_age", 1, ["ann"]),
        ("city in ('Bergen', 'Rome')", "by_city_age", 1, ["cyd"]),
        ("starts_with(city, 'Be')", "by_city_age", 1, ["cyd"]),
        ("city like 'O_lo'", "by_city_age", 2, ["ann", "bob"]),
        ("city is null", "by_city_age", 1, ["dan"]),
        ("city = 'Os' || 'lo' and age < 20 + 10", "by_city_age", 1, ["bob"]),
        ("list_contains(tags, 'go')", "by_tag", 1, ["bob"]),
        ("mail = 'nobody has one'", "by_mail", 0, []),
        ("city = 'Oslo' and home.street = 'Main'", "by_city_age", 2, ["ann"]),
        ("city = 'Oslo' and age + 0 <= 30", "by_city_age", 2, ["bob"]),
    ],
)
def test_conditions_are_pushed_down_to_the_store(
    app: StoatFlow, where: str, way: str, read: int, keys: list[str]
) -> None:
    found = app.sql(f"select _key from people where {where} order by _key")
    assert [row["_key"] for row in found] == keys
    assert ways(found) == {"people": (way, read)}


def test_conditions_that_duckdb_converts_are_not_pushed_down(app: StoatFlow) -> None:
    for where in ("age = '31'", "city = 31", "lower(city) = 'oslo'", "city = 'Oslo' or age = 54", "city <> 'Oslo'"):
        with pytest.raises(ScanRefusedError):
            app.sql(f"select * from people where {where}")
    assert app.sql("select _key from people where age = '31'", allow_scan=True).rows == [{"_key": "ann"}]
    # Conditions that are not pushed down to the store apply all the same.
    found = app.sql("select _key from people where city = 'Oslo' and age = '31'")
    assert (found.rows, ways(found)) == ([{"_key": "ann"}], {"people": ("by_city_age", 2)})


def test_a_limit_reads_so_many_rows(app: StoatFlow) -> None:
    found = app.sql("select * from people limit 2 offset 1")
    assert ([row["_key"] for row in found], ways(found)) == (["bob", "cyd"], {"people": ("key_range", 3)})
    one = app.sql("select _key from people where city = 'Oslo' limit 1")
    assert ways(one) == {"people": ("by_city_age", 1)}
    assert app.sql("select _key from people limit 0").rows == []
    for refused in (
        "select _key from people order by age limit 1",
        "select count(*) from people limit 1",
        "select distinct city from people limit 1",
        "select _key from people where age > 10 limit 1",
        "select city from people group by city limit 1",
    ):
        with pytest.raises(ScanRefusedError):
            app.sql(refused)
    last = app.sql("select _key from people where city = 'Oslo' and lower(_key) = 'bob' limit 1")
    assert last.rows == [{"_key": "bob"}]


def test_joins_push_down_equal_columns(app: StoatFlow) -> None:
    joined = "select p._key, city, r.value from people p {} join revenue r {} where {}"
    keys = {"people": ("keys", 1), "revenue": ("keys", 1)}
    for on in ("using (_key)", "on r._key = p._key"):
        found = app.sql(joined.format("", on, "p._key = 'ann'"))
        assert (found.rows, ways(found)) == ([{"_key": "ann", "city": "Oslo", "value": 42}], keys)
    found = app.sql(joined.format("left", "on r._key = p._key", "p._key in ('ann', 'cyd')"))
    assert [row["value"] for row in sorted(found, key=lambda row: str(row["_key"]))] == [42, None]
    # A condition on the optional side of a join doesn't limit what the join reads.
    with pytest.raises(ScanRefusedError, match="'people'"):
        app.sql(joined.format("left", "on r._key = p._key", "r._key = 'ann'"))
    twice = app.sql("select a._key from people a, people b where a._key = 'ann' and b._key = 'cyd'")
    assert (twice.rows, [read.rows_read for read in twice.reads]) == ([{"_key": "ann"}], [1, 1])
    union = app.sql("select _key from people where _key = 'ann' union all select _key from people where city = 'Oslo'")
    assert sorted(row["_key"] for row in union) == ["ann", "ann", "bob"]


def test_columns_of_the_same_name_are_qualified(app: StoatFlow) -> None:
    both = app.sql(
        "select p._key, r._key, r.value from people p join revenue r on p._key = r._key where p._key = 'ann'"
    )
    assert both.rows == [{"_key": "ann", "_key_1": "ann", "value": 42}]


def test_stores_that_are_restored_are_not_read(broker: EmbeddedBroker, make: Make, tmp_path: Path) -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=int).group_by_key().count(store=sf.Materialized("counts", key=str))
    broker.produce("in", b"a", as_int(1), 1)
    with make(builder.build()) as first:
        read(first, broker)
    shutil.rmtree(tmp_path / "state")
    waits = HeldUp()
    given = {"application.id": "app", "state.dir": str(tmp_path / "state"), "ensure.explicit.naming": False}
    settings = sf.Settings(given, environ={})
    with StoatFlow(builder.build(), settings, broker=broker, on_restore=waits) as second:
        try:
            assert waits.began.wait(60)
            with pytest.raises(ConfigError, match=r"are being restored, so they can't be read yet. Next: ask again"):
                second.sql("select * from counts where _key = 'a'")
        finally:
            waits.goes_on.set()
        read(second, broker)
        assert second.sql("select value from counts where _key = 'a'").rows == [{"value": 1}]


def test_windows_are_read_by_key_and_time(app: StoatFlow) -> None:
    found = app.sql("""select _window_start, value from "per-minute" where _key = 'ann' order by 1""")
    assert [(row["_window_start"].timestamp(), row["value"]) for row in found] == [(0, 1), (60, 1)]
    assert ways(found) == {"per-minute": ("keys", 2)}
    for start in ("'1970-01-01 00:01:00'", "to_timestamp(60)", "timestamp '1970-01-01' + interval 1 minute"):
        late = app.sql(f"""select _key from "per-minute" where _window_start >= {start} order by 1""")
        assert ([row["_key"] for row in late], ways(late)) == (["ann", "eve"], {"per-minute": ("windows", 2)})
    recent = app.sql("""select * from "per-minute" where _window_start >= now() - interval 1 day""")
    assert (recent.rows, ways(recent)) == ([], {"per-minute": ("windows", 0)})
    visits = app.sql("select _key from visits where _window_end >= to_timestamp(66)")
    assert (visits.rows, ways(visits)) == ([{"_key": "eve"}], {"visits": ("windows", 1)})
    with pytest.raises(ScanRefusedError, match=r"give _key = \.\.\. or _window_start >= \.\.\., or allow the scan"):
        app.sql('select * from "per-minute"')
    assert len(app.sql('select * from "per-minute"', allow_scan=True)) == 4


def test_versioned_stores_are_read_by_key(app: StoatFlow) -> None:
    assert app.sql("select value, _timestamp from prices where _key = 'tea'").rows == [
        {"value": 4, "_timestamp": datetime(1970, 1, 1, 0, 0, 2, tzinfo=timezone.utc)}
    ]
    with pytest.raises(ScanRefusedError, match="give _key"):
        app.sql("select * from prices", allow_scan=True)


def test_parameters(app: StoatFlow) -> None:
    named = app.sql(
        "select _key from people where city = $city and age > $age", {"city": "Oslo", "age": Decimal("30.5")}
    )
    assert (named.rows, ways(named)) == ([{"_key": "ann"}], {"people": ("by_city_age", 1)})
    numbered = app.sql("select _key from people where _key = ? and age > ? limit ?", ["cyd", 3, 5])
    assert (numbered.rows, ways(numbered)) == ([{"_key": "cyd"}], {"people": ("keys", 1)})
    since = datetime(1970, 1, 1, 0, 1, tzinfo=timezone.utc)
    assert ways(app.sql('select * from "per-minute" where _window_start >= ?', [since])) == {
        "per-minute": ("windows", 2)
    }
    with pytest.raises(SqlError, match="parameter"):
        app.sql("select _key from people where _key = $key and city = $city", {"key": "ann"})
    injected = app.sql("select _key from people where _key = ?", ["x' or '1' = '1"])
    assert injected.rows == []


def test_a_snapshot_is_one_commit(app: StoatFlow, broker: EmbeddedBroker) -> None:
    with app.snapshot() as at:
        broker.produce("in", b"ann", json.dumps({"city": "Bergen"}).encode(), 9)
        broker.produce("orders", b"ann", as_int(1), 71_000)
        read(app, broker, "in", "orders")
        both = "select city, r.value from people join revenue r using (_key) where _key = 'ann'"
        assert at.sql(both).rows == [{"city": "Oslo", "value": 42}]
        assert at.sql(both).epoch == at.epoch
        now = app.sql(both)
        assert now.rows == [{"city": "Bergen", "value": 43}]
        assert now.epoch > at.epoch
    with pytest.raises(ConfigError, match="snapshot is closed"):
        at.sql(both)


def test_writing_statements_are_read_only_errors(app: StoatFlow) -> None:
    for statement in (
        "insert into people values ('x')",
        "delete from people",
        "create table t as select 1",
        "copy (select 1) to '/tmp/x'",
        "select 1; select 2",
        "set threads = 8",
        "attach '/tmp/x.db'",
        "-- nothing",
    ):
        with pytest.raises(ReadOnlyError, match="stores are read only"):
            app.sql(statement)


def test_a_query_reads_stores_only(app: StoatFlow) -> None:
    frame = pa.table({"x": [1]})
    assert frame.num_rows == 1
    with pytest.raises(SqlError, match="there is no store 'frame'") as error:
        app.sql("select * from frame")
    assert 'select from one of these: "by-json", empty, odd, people, "per-minute"' in str(error.value)
    for query in ("from read_csv('/etc/passwd')", "from query('select 1')", "from query_table('people')"):
        with pytest.raises(SqlError, match="gives rows that are of no store"):
            app.sql(query)
    with pytest.raises(SqlError, match=r"disabled by configuration|no store"):
        app.sql("select * from '/etc/passwd'")
    with pytest.raises(SqlError, match="select from stores"):
        app.sql("show tables")
    with pytest.raises(SqlError, match="give it another name"):
        app.sql("with people as (select 1 as x) select * from people")
    # Names that are rejected could not be found either.
    connection = _connect(duckdb)
    for query in ("select * from frame", "select * from read_csv('/etc/passwd')", "set threads = 2", "load spatial"):
        with pytest.raises(duckdb.Error):
            connection.sql(query).fetchall()
        connection.rollback()
        connection.begin()
    connection.close()
    assert app.sql("select range from range(2)").rows == [{"range": 0}, {"range": 1}]


def test_errors_name_place_and_next_step(app: StoatFlow) -> None:
    with pytest.raises(SqlError, match=r"(?s)syntax error.*LINE 2: where from\n +\^"):
        app.sql("select * from people\nwhere from")
    with pytest.raises(SqlError, match="nme") as unknown:
        app.sql("select nme from people where _key = 'ann'")
    assert "give schema=" in str(unknown.value)
    with pytest.raises(ScanRefusedError, match=r'the whole store .people.*sf.Index\("by_age", sf.value\["age"\]\)'):
        app.sql("select _key from people where age > 30")
    with pytest.raises(SqlError, match="Could not convert"):
        app.sql("select cast('abc' as int) from people where _key = cast('x' as int)", allow_scan=True)
    with pytest.raises(SqlError, match="names the store 'nope'"):
        app.sql("select 1", schema={"nope": pa.schema([])})
    with pytest.raises(ConfigError, match=r"(isn't|not|doesn't) run"):
        StoatFlow(topology(), {"application.id": "other", "bootstrap.servers": "localhost:1"}).sql(
            "select 1 from people"
        )


def test_values_of_several_types_need_a_schema(app: StoatFlow) -> None:
    with pytest.raises(ConfigError, match="the column 'n' of the store 'odd' can't have one type") as error:
        app.sql("select n from odd where _key = 'a'")
    assert "schema=" in str(error.value)
    assert app.sql("select _key from odd where _key = 'a'").rows == [{"_key": "a"}]
    with pytest.raises(SqlError, match="can't tell apart: City, city"):
        app.sql("select city from odd where _key = 'c'")
    one = {"odd": pa.schema([("city", pa.int64())])}
    assert app.sql("select city from odd where _key = 'c'", schema=one).rows == [{"city": 2}]
    # No row that is read has it, so only a schema knows it.
    named = {"empty": pa.schema([("city", pa.string())])}
    assert app.sql("select city from empty where city like 'O%'", schema=named).rows == []
    with pytest.raises(SqlError, match="city"):
        app.sql("select city from empty")


def test_rows_that_a_condition_cannot_read_are_an_error(app: StoatFlow, broker: EmbeddedBroker) -> None:
    for at in range(150):
        broker.produce("empty", f"k{at:03}".encode(), json.dumps({"n": at}).encode(), 0)
    broker.produce("empty", b"z", json.dumps({"n": "text"}).encode(), 0)
    read(app, broker, "empty")
    with pytest.raises(SqlError, match="1 rows of the store 'empty' have no value"):
        app.sql("select _key from empty where n > 3", allow_scan=True)
    assert len(app.sql("select _key from empty where n > 3 and _key < 'k010'", allow_scan=True)) == 6


def test_keys_that_are_json_are_their_text(app: StoatFlow) -> None:
    assert (
        app.sql('select * from "by-json"', allow_scan=True).rows[0].items()
        >= {"_key": '{"shop":1}', "value": 7}.items()
    )


def test_many_rows_are_read_in_pages(app: StoatFlow, broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoatflow.sql.reading._PAGE", 7)
    broker.produce_many("empty", ((0, f"k{at:03}".encode(), json.dumps({"n": at}).encode(), 0) for at in range(120)))
    read(app, broker, "empty")
    total = app.sql("select count(*) as n, sum(n) as total from empty", allow_scan=True)
    assert total.rows == [{"n": 120, "total": sum(range(120))}]
    assert len(app.sql("select * from empty limit 10")) == 10
    # A limit isn't pushed down if some conditions are not pushed down, or not completely.
    for where in ("_key like 'k%09'", "_key >= 'k' and lower(_key) = 'k009'", "_key > 'a' and n = '9'"):
        assert app.sql(f"select _key from empty where {where} limit 1").rows == [{"_key": "k009"}]


# Arrow ----------------------------------------------------------------------------------------


def test_results_stores_and_pages_are_streams_of_arrow(app: StoatFlow) -> None:
    assert pa.table(app.sql("select _key from people where _key = 'ann'")).to_pydict() == {"_key": ["ann"]}
    people = pa.table(app.store("people"))
    assert sorted(people.column_names) == sorted(app.to_arrow("people").column_names)
    assert people["_key"].to_pylist() == list(PEOPLE)
    with app.snapshot() as at:
        store = at.store("people")
        assert pa.table(store).equals(pa.table(store))
        assert duckdb.sql("select max(age) from store").fetchall() == [(54.0,)]
        minutes = pa.table(at.store("per-minute"))
        assert minutes.column_names == ["_key", "_window_start", "_window_end", "value", "_timestamp"]
        ordered = [("_window_start", "ascending"), ("_key", "ascending")]
        expected = app.to_arrow("per-minute").sort_by(ordered)
        assert minutes.sort_by(ordered).to_pydict() == expected.to_pydict()
        assert pa.table(at.store("visits")).num_rows == 4
        assert pa.table(at.store("by-json"))["_key"].to_pylist() == ['{"shop":1}']
        with pytest.raises(ConfigError, match=r"app\.to_arrow"):
            pa.table(at.store("prices"))
    city, age = sf.value["city"], sf.value["age"]
    store = app.store("people")
    assert pa.table(store.find(city == "Oslo"))["age"].to_pylist() == [27.5, 31]
    assert pa.table(store.find(city == "Oslo", select={"who": sf.key, "age": age})).to_pydict() == {
        "who": ["bob", "ann"],
        "age": [27.5, 31],
    }
    assert pa.table(store.find(city == "Oslo", select=age)).column_names == ["value"]
    assert pa.table(store.find(city == "Oslo", select=[sf.key, age])).column_names == ["column_0", "column_1"]
    with pytest.raises(ConfigError, match="column 'n' of what was found"):
        pa.table(app.store("odd").find(select={"n": sf.value["n"]}, allow_scan=True))


@pytest.mark.parametrize(("module", "extra"), [("duckdb", "sql"), ("pyarrow", "sql")])
def test_a_missing_extra_says_what_to_install(module: str, extra: str) -> None:
    code = f"""
import sys
sys.modules[{module!r}] = None
from stoatflow.sql.engine import run
try:
    run(None, "select 1")
except Exception as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert f"pip install 'stoatflow[{extra}]'" in done.stdout


# On the command line -----------------------------------------------------------------------------


def command(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["sql", *arguments])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_the_command(app: StoatFlow, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    url = str(app.admin_url)
    code, out, err = command(capsys, url, "select _key, city, age from people where _key = 'ann'", "--explain")
    assert (code, out) == (0, "_key\tcity\tage\nann\tOslo\t31\n")
    assert err.endswith("\npeople: by keys, 1 rows read, _key = 'ann'\n")
    joined = "select city, r.value, r._timestamp as at from people join revenue r using (_key) where _key = 'ann'"
    code, out, _ = command(capsys, url, joined, "--json")
    assert (code, json.loads(out)) == (0, {"city": "Oslo", "value": 42, "at": "1970-01-01T00:01:05+00:00"})
    late = "select _window_start from \"per-minute\" where _key between 'a' and 'b' and _window_start > '1970-01-01'"
    assert command(capsys, url, late)[1] == "_window_start\n1970-01-01T00:01:00+00:00\n"
    assert command(capsys, url, "select _key from visits where _window_end > to_timestamp(65)")[1] == "_key\neve\n"
    assert command(capsys, url, "select _key from people limit 1 offset 1")[1] == "_key\nbob\n"
    found = command(capsys, url, "select _key from people where age > 50 limit 1", "--allow-scan")
    assert found[1] == "_key\ncyd\n"
    assert command(capsys, url, "select city from people where _key = 'nobody'")[1] == "city\n"
    monkeypatch.setattr("sys.stdin", io.StringIO("select count(*) as n from people"))
    assert command(capsys, url, "-", "--allow-scan")[1] == "n\n4\n"


def test_arguments_that_the_command_refuses(app: StoatFlow, capsys: pytest.CaptureFixture[str]) -> None:
    url = str(app.admin_url)
    code, out, err = command(capsys, url, "select * from people where city = 'Oslo'")
    assert (code, out) == (2, "")
    assert "over the admin port stores are read by key and time" in err
    assert "stores are read only" in command(capsys, url, "delete from people")[2]
    assert "there is no store 'nope'" in command(capsys, url, "select * from nope")[2]
    assert "stoatflow query URL STORE KEY" in command(capsys, url, "select * from prices where _key = 'tea'")[2]
    code, _, err = command(capsys, "http://127.0.0.1:9", "select 1 from people")
    assert (code, "doesn't answer" in err) == (1, True)


def test_reads_of_two_commits_are_tried_again(
    app: StoatFlow, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    get, asked = AdminPort.get, []

    def moving(port: AdminPort, path: str, query: dict[str, str] | None = None) -> dict[str, Any]:
        answer = get(port, path, query)
        if query and "from" in query:
            asked.append(path)
            answer["epoch"] += 1 if len(asked) == 1 else always * len(asked)
        return answer

    monkeypatch.setattr(AdminPort, "get", moving)
    both = "select r.value from people join revenue r using (_key) where _key = 'ann'"
    always = 0
    assert command(capsys, str(app.admin_url), both)[:2] == (0, "value\n42\n")
    assert asked == ["/stores/people", "/stores/revenue"] * 2
    always = 1
    code, _, err = command(capsys, str(app.admin_url), both)
    assert code == 1
    assert "committed between the reads of the query's stores" in err
