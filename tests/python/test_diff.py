"""`stoatflow diff`: its report about a change matches a run of the old topology and one of the new one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import stoatflow as sf
from stoatflow import EmbeddedBroker, IncompatibleStateError, Materialized, StateCorruptError, TopologyError
from stoatflow.upgrade.comparison import Comparison, Side
from stoatflow.upgrade.report import text
from upgrading import (
    Build,
    OtherText,
    Place,
    Text,
    aggregate,
    avro,
    compare,
    count,
    counts_of,
    global_table,
    held_back,
    in_x,
    latest,
    processor,
    sessions,
    statuses,
    stream,
    table,
    topology,
    windows,
)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with EmbeddedBroker(tmp_path / "broker") as broker:
        yield Place(tmp_path, broker)


GOES_ON = {"a": 3, "b": 1}
WIDE = sf.Serdes.json_schema({"type": "object"})
NARROW = sf.Serdes.json_schema({"type": "object", "required": ["x"]})


class Case(NamedTuple):
    """A change of the store `c`, the expected report, and its contents after the new start."""

    name: str
    old: Build
    new: Build
    status: str
    holds: dict[Any, Any] | type[Exception]


CASES = [
    Case("nothing", count(), count(), "kept", GOES_ON),
    Case("caching", count(), count(caching=False), "changed", GOES_ON),
    Case("another compression and compaction", count(),
         count(rocksdb=sf.RocksDBConfig(compression="zstd", compaction="universal")), "changed", GOES_ON),
    Case("an index more", latest(sf.Serdes.json(), in_x),
         latest(sf.Serdes.json(), in_x, indexes=[sf.Index("by-x", sf.value["x"])]), "changed",
         {"a": {"x": 5}, "b": {"x": 3}}),
    Case("parts in another order", lambda b: (counts_of("in2")(b), count()(b)),
         lambda b: (count()(b), counts_of("in2")(b)), "kept", GOES_ON),
    Case("another function", lambda b: stream(b).group_by_key().reduce(lambda a, n: a + n, store="c"),
         lambda b: stream(b).group_by_key().reduce(max, store="c"), "kept", {"a": 5, "b": 3}),
    Case("an operator before", count(), lambda b: stream(b).filter(lambda k, v: True).group_by_key().count(store="c"),
         "kept", GOES_ON),
    Case("a part more", count(), lambda b: (counts_of("in2", "in3")(b), count()(b)), "kept", GOES_ON),
    Case("fed by another topic too", count(),
         lambda b: b.stream(["in", "in2"], key=str, value=int).group_by_key().count(store="c"), "changed",
         {**GOES_ON, "z": 1}),
    Case("fed by another topic", count(), lambda b: stream(b, "in2").group_by_key().count(store="c"), "changed",
         {"a": 2, "b": 1, "z": 1}),
    Case("made by a processor", count(), processor(), "changed", GOES_ON),
    Case("memory", count(), count(type="memory"), "changed", GOES_ON),
    Case("disk", count(type="memory"), count(), "changed", GOES_ON),
    Case("a processor's store in memory", processor(), processor("in_memory_key_value"), "changed", GOES_ON),
    Case("memory, without a changelog", count(logging=False), count(logging=False, type="memory"), "emptied", {"a": 1}),
    Case("memory, with a new changelog", count(logging=False), count(type="memory"), "refused", {"a": 1}),
    Case("memory, and no changelog", count(), count(logging=False, type="memory"), "emptied", {"a": 1}),
    Case("always empty", count(logging=False, type="memory"), count(logging=False, type="memory"), "kept", {"a": 1}),
    Case("no changelog", count(), count(logging=False), "changed", GOES_ON),
    Case("a changelog", count(logging=False), count(), "refused", GOES_ON),
    Case("value serde", latest(int), latest(bytes, lambda n: b"x"), "refused", IncompatibleStateError),
    Case("value serde in memory", latest(int, type="memory"), latest(bytes, lambda n: b"x", type="memory"), "refused",
         {"a": b"x", "b": b"\0\0\0\0\0\0\0\3"}),
    Case("key serde", count(), lambda b: b.stream("in", key=bytes, value=int).group_by_key().count(store="c"),
         "refused", IncompatibleStateError),
    Case("name of a serde", latest(Text()), latest(OtherText()), "refused", IncompatibleStateError),
    Case("count to sum", count(), aggregate(sf.sum(sf.value)), "refused", IncompatibleStateError),
    Case("Avro schema", latest(avro("x"), in_x), latest(avro("x", "y"), in_x), "refused", IncompatibleStateError),
    Case("JSON schema", latest(WIDE, in_x), latest(NARROW, in_x), "kept", {"a": {"x": 5}, "b": {"x": 3}}),
    Case("JSON schema to JSON", latest(WIDE, in_x), latest(sf.Serdes.json(), in_x), "refused", IncompatibleStateError),
    Case("another aggregation", aggregate(sf.sum(sf.value)), aggregate(sf.max(sf.value)), "misread",
         {"a": 5, "b": 3}),
    Case("another form", aggregate(sf.agg(n=sf.count())), aggregate(sf.agg(n=sf.count(), s=sf.sum(sf.value))),
         "misread", IncompatibleStateError),
    Case("windows", count(), windows("1m"), "refused", IncompatibleStateError),
    Case("windows in memory", count(type="memory"), windows("1m", type="memory"), "refused", StateCorruptError),
    Case("no windows", windows("1m"), count(), "refused", IncompatibleStateError),
    Case("smaller windows", windows("1m", retention="1m"), windows("30s", retention="1m"), "refused",
         {("a", 60_000, 90_000): 2, ("a", 90_000, 120_000): 1, ("b", 60_000, 90_000): 1}),
    Case("larger windows", windows("30s"), windows("1m"), "refused",
         {("a", 60_000, 120_000): 1, ("a", 90_000, 150_000): 2, ("b", 90_000, 150_000): 1}),
    Case("grace", windows("1m"), windows("1m", "10s"), "changed",
         {("a", 60_000, 120_000): 3, ("b", 60_000, 120_000): 1}),
    Case("retention, a little", windows("1m"), windows("1m", retention="2m"), "changed",
         {("a", 60_000, 120_000): 3, ("b", 60_000, 120_000): 1}),
    Case("retention", windows("1m"), windows("1m", retention="10m"), "rebuilt", IncompatibleStateError),
    Case("less retention", windows("1m", retention="10m"), windows("1m"), "rebuilt", IncompatibleStateError),
    Case("retention, without a changelog", windows("1m", logging=False), windows("1m", retention="1h", logging=False),
         "refused", IncompatibleStateError),
    Case("size and retention", windows("1m"), windows("10m"), "refused", IncompatibleStateError),
    Case("a longer gap", sessions("5s"), sessions("20s"), "changed",
         {("a", 100_000, 102_500): 3, ("b", 102_000, 102_000): 1}),
    Case("versions", table(), table(history="1h"), "rebuilt", IncompatibleStateError),
    Case("no versions", table(history="1h"), table(), "rebuilt", IncompatibleStateError),
    Case("more versions", table(history="1h"), table(history="2h"), "changed", {"a": 5, "b": 3}),
    Case("versions in memory", table(type="memory"), table(type="memory", history="1h"), "changed", {"a": 5, "b": 3}),
    Case("serde of a global table", global_table("c"), global_table("c", bytes), "rebuilt", IncompatibleStateError),
]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "then"),
    [
        (None, "1h", "made of the rows that expire, some with each commit"),
        ("1h", None, "the rows that it was made of don't expire"),
    ],
)
@pytest.mark.parametrize("make", [count, processor])
def test_the_index_of_a_ttl_is_no_state_of_its_own(
    make: Callable[..., Build], old: str | None, new: str | None, then: str
) -> None:
    compared = compare(make(ttl=old), make(ttl=new))
    (reported,) = [each for each in compared.stores if each.name == "c-expiry"]
    assert then in reported.then
    assert not any(each.is_lost for each in compared.stores)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_reported_status_is_what_happens(place: Place, case: Case) -> None:
    compared = compare(case.old, case.new)
    (reported,) = [each for each in compared.stores if each.name == "c"]
    assert reported.status.value == case.status
    assert bool(reported.changes) == (case.status != "kept")
    if isinstance(case.holds, dict):
        assert place.upgraded(case.old, case.new)["c"] == case.holds
        return
    with pytest.raises(case.holds):
        place.upgraded(case.old, case.new)


@pytest.mark.parametrize("case", [case for case in CASES if case.status == "rebuilt"], ids=lambda case: case.name)
def test_a_rebuilt_store_is_complete(place: Place, case: Case) -> None:
    if case.name == "serde of a global table":
        renamed = global_table("c-2", bytes)
        assert statuses(case.old, renamed) == {"c-2": "changed"}
        assert set(place.upgraded(case.old, renamed)["c-2"]) == {"a", "b"}
        return
    held = place.upgraded(case.old, case.new, **{"state.damaged": "rebuild"})["c"]
    assert list(held.values()) == ([3, 1] if "retention" in case.name else [5, 3])


def test_cleaning_up_restores_it_too_and_loses_what_has_no_changelog(place: Place) -> None:
    def with_retention(time: str) -> Build:
        def both(builder: sf.StreamsBuilder) -> None:
            windows("1m", retention=time)(builder)
            stream(builder, "in2").group_by_key().count(store=Materialized("unlogged", logging=False))

        return both

    new = with_retention("1h")
    compared = compare(with_retention("1m"), new)
    assert compared.unrestorable == ["unlogged"]
    assert "if the local state is removed, unlogged is lost" in text(compared)
    assert compare(with_retention("1m"), with_retention("1m")).unrestorable == []
    with pytest.raises(IncompatibleStateError, match="has the format"):
        place.upgraded(with_retention("1m"), new)
    place.application(topology(new)).clean_up()
    held = place.life(new)
    assert held == {"c": {("a", 60_000, 120_000): 3, ("b", 60_000, 120_000): 1}, "unlogged": {}}


def test_rebuilding_is_refused_where_something_would_be_lost(place: Place) -> None:
    def beside(build: Build) -> Build:
        def both(builder: sf.StreamsBuilder) -> None:
            build(builder)
            stream(builder, "in2").group_by_key().count(store=Materialized("unlogged", logging=False))

        return both

    with pytest.raises(IncompatibleStateError, match="because no changelog has the stores unlogged"):
        place.upgraded(beside(table()), beside(table(history="1h")), **{"state.damaged": "rebuild"})


def test_on_another_disk_serdes_are_not_compared(place: Place) -> None:
    new = latest(bytes, lambda _: b"x")
    with pytest.raises(IncompatibleStateError, match="has the format"):
        place.upgraded(latest(int), new)
    assert place.restored(new)["c"] == {"a": b"x", "b": b"\0\0\0\0\0\0\0\3"}


def test_a_changelog_that_was_off_has_not_all(place: Place) -> None:
    off, on = count(logging=False), count()
    assert place.upgraded(off, on)["c"] == GOES_ON
    assert place.restored(on)["c"] == {"a": 3}, "b has not changed since the changelog is on"
    place.write("in", b"a", 5)
    place.life(off)
    assert place.life(on)["c"] == {"a": 4}
    assert place.restored(on)["c"] == {"a": 3}, "what was counted while it was off is not in it"
    (reported,) = compare(off, on).stores
    assert "on Kafka the start is refused" in reported.then
    assert "can't be restored elsewhere" in reported.then
    assert reported.is_lost


def test_a_renamed_store_begins_empty_and_the_old_one_waits(place: Place) -> None:
    def renamed(builder: sf.StreamsBuilder) -> object:
        return stream(builder).group_by_key().count(store="d")

    assert statuses(count(), renamed) == {"d": "renamed"}
    assert place.upgraded(count(), renamed) == {"d": {"a": 1}}
    assert place.life(count()) == {"c": {"a": 2, "b": 1}}


def test_a_dropped_store_can_return(place: Place) -> None:
    def without(builder: sf.StreamsBuilder) -> object:
        return stream(builder, "in2").to("out")

    assert statuses(count(), without) == {"c": "dropped"}
    assert place.upgraded(count(), without) == {}
    # Its topic was not read meanwhile.
    assert place.life(count())["c"] == GOES_ON


def test_a_new_store_sees_only_new_records(place: Place) -> None:
    def more(builder: sf.StreamsBuilder) -> None:
        records = stream(builder)
        records.group_by_key().count(store="c")
        records.map_values(lambda value: value * 2).group_by_key(value=int).reduce(lambda a, b: a + b, store="sums")
        stream(builder, "in2").group_by_key().count(store="other")

    reported = {each.name: each for each in compare(count(), more).stores}
    assert {name: each.status.value for name, each in reported.items()} == {"c": "kept", "sums": "new", "other": "new"}
    assert "sees what comes from now on" in reported["sums"].then
    assert "its topics are new too" in reported["other"].then
    assert not any(each.is_lost for each in reported.values())
    assert place.upgraded(count(), more) == {"c": GOES_ON, "sums": {"a": 10}, "other": {"z": 1}}


def test_a_table_of_a_topic_that_was_read_before_lacks_its_old_rows(place: Place) -> None:
    assert "sees what comes from now on" in compare(lambda b: stream(b).to("out"), table()).stores[0].then
    assert place.upgraded(lambda b: stream(b).to("out"), table()) == {"c": {"a": 5}}


def test_a_global_table_is_always_whole(place: Place) -> None:
    assert statuses(global_table("c"), global_table("d")) == {"d": "changed"}
    assert place.upgraded(global_table("c"), global_table("d")) == {"d": {"a": 5, "b": 3}}
    added = compare(lambda b: stream(b, "in2").to("out"), global_table("d")).stores[0]
    assert added.then == "read from the whole of 'in'"


def test_a_global_table_that_is_gone_is_no_loss() -> None:
    compared = compare(global_table("d"), lambda b: stream(b, "in2").to("out"))
    assert [each.status.value for each in compared.stores] == ["dropped"]
    assert compared.stores[0].then == "not used any more; 'in' has all of it"
    assert not compared.is_lost


def test_a_new_global_table_is_whole(place: Place) -> None:
    assert place.upgraded(lambda b: stream(b, "in2").to("out"), global_table("d")) == {"d": {"a": 5, "b": 3}}


def test_a_refused_start_has_read_nothing(place: Place) -> None:
    with pytest.raises(IncompatibleStateError):
        place.upgraded(count(), aggregate(sf.sum(sf.value)))
    assert place.life(count())["c"] == GOES_ON


def test_a_start_refuses_generated_names(place: Place) -> None:
    with pytest.raises(TopologyError, match=r'count\(\) keeps its state .* add store="in-count"'):
        place.life(counts_of("in"), **{"ensure.explicit.naming": True})


def test_joins_and_suppress_are_named_by_name() -> None:
    def build(builder: sf.StreamsBuilder) -> None:
        held_back(int)(builder)
        left, right = stream(builder, "in2"), stream(builder, "in3")
        within = sf.JoinWindows.of_time_difference_with_no_grace("1m")
        left.join(right, lambda one, other: one, within, name="both").to("out", value=int)

    sides = Side.of(topology(build))
    assert sides.generated == ()
    assert len(sides.stores) == 4


NAME = "KSTREAM-AGGREGATE-STATE-STORE-000000000{}".format


def test_an_operator_before_changes_a_generated_name(place: Place) -> None:
    def filtered(builder: sf.StreamsBuilder) -> object:
        return stream(builder).filter(lambda key, value: True).group_by_key().count()

    (reported,) = compare(counts_of("in"), filtered).stores
    assert (reported.name, reported.status.value) == (NAME(2), "renamed")
    assert reported.advice == f'to go on, name it as its state is named: "{NAME(1)}"'
    assert place.upgraded(counts_of("in"), filtered) == {NAME(2): {"a": 1}}


def test_the_old_name_brings_the_state_back(place: Place) -> None:
    def named(builder: sf.StreamsBuilder) -> object:
        return stream(builder).filter(lambda key, value: True).group_by_key().count(store=NAME(1))

    assert statuses(counts_of("in"), named) == {NAME(1): "kept"}
    assert place.upgraded(counts_of("in"), named) == {NAME(1): GOES_ON}


def test_a_generated_name_may_belong_to_another_operator(place: Place) -> None:
    old, new = counts_of("in", "in2"), counts_of("in3", "in", "in2")
    reported = {each.name: each for each in compare(old, new).stores}
    assert {name: each.status.value for name, each in reported.items()} == {
        NAME(1): "misread",
        NAME(4): "misread",
        NAME(7): "renamed",
    }
    assert "maker: count at" in reported[NAME(1)].changes[0]
    assert f"its own state is under '{NAME(1)}'" in reported[NAME(4)].then
    assert all(each.is_lost for each in reported.values())
    # The count of `in3`, which is empty, has the rows of `in`; that of `in` those of `in2`.
    held = place.upgraded(old, new)
    assert held == {NAME(1): {"a": 2, "b": 1}, NAME(4): {"a": 1, "z": 1}, NAME(7): {}}


def test_another_operator_with_another_format_is_refused(place: Place) -> None:
    def other(builder: sf.StreamsBuilder) -> None:
        stream(builder, "in3").group_by_key().aggregate(sf.sum(sf.value))
        counts_of("in")(builder)

    assert statuses(counts_of("in"), other) == {NAME(1): "refused", NAME(4): "renamed"}
    with pytest.raises(IncompatibleStateError, match=NAME(1)):
        place.upgraded(counts_of("in"), other)


def test_a_removed_store_may_have_a_successor() -> None:
    reported = {each.pair.new is None: each for each in compare(counts_of("in"), counts_of("in2")).stores}
    assert reported[False].status.value == "misread"
    assert reported[True].status.value == "dropped"
    assert "belongs to count at" in reported[True].then


def test_equal_operators_are_distinguished_by_their_inputs() -> None:
    def both(builder: sf.StreamsBuilder) -> None:
        records = stream(builder)
        records.group_by_key().count()
        records.map_values(sf.value + 1).group_by_key().count()

    def one_between(builder: sf.StreamsBuilder) -> None:
        records = stream(builder)
        records.group_by_key().count()
        records.filter(sf.value > 1).group_by_key().count()
        records.map_values(sf.value + 1).group_by_key().count()

    reported = {each.name: each for each in compare(both, one_between).stores}
    assert [each.status.value for each in reported.values()] == ["kept", "misread", "renamed"]
    assert "name: " + NAME(4) in list(reported.values())[2].changes[0]


def test_equal_operators_are_distinguished_by_their_functions() -> None:
    def large(_: str, value: int) -> bool:
        return value > 100

    def small(_: str, value: int) -> bool:
        return value < 10

    def one_after_the_other(*functions: Callable[[str, int], bool]) -> Build:
        def build(builder: sf.StreamsBuilder) -> None:
            records = stream(builder)
            for function in functions:
                records.filter(function).group_by_key().count()

        return build

    reported = compare(one_after_the_other(large, small), one_after_the_other(small, large)).stores
    assert [each.status.value for each in reported] == ["misread", "misread"]


def test_swapped_operators_exchange_generated_names(place: Place) -> None:
    def of_one_topic(*limits: int) -> Build:
        def build(builder: sf.StreamsBuilder) -> None:
            records = stream(builder)
            for limit in limits:
                records.filter(sf.value > limit).group_by_key().count()

        return build

    assert statuses(of_one_topic(1, 2), of_one_topic(1, 2)) == {NAME(2): "kept", NAME(5): "kept"}
    assert statuses(of_one_topic(1, 2), of_one_topic(2, 1)) == {NAME(2): "misread", NAME(5): "misread"}
    held = place.upgraded(of_one_topic(1, 2), of_one_topic(2, 1))
    # The old counts are {a: 1, b: 1} above 1, and {b: 1} above 2.
    assert held == {NAME(2): {"a": 2, "b": 1}, NAME(5): {"a": 1, "b": 1}}


def test_buffered_records_with_other_serdes_are_misread(place: Place) -> None:
    new = held_back(str, str)
    assert statuses(held_back(int), new)["c-store"] == "misread"
    place.life(held_back(int))
    place.life(new)
    place.write("in", b"b", 1, 900_000)
    place.life(new)
    (first,) = [row.value for row in place.broker.read("out") if row.key == b"a"]
    assert first == (2).to_bytes(8, "big"), "the bytes that the old serde wrote"


def test_fields_of_protobuf(place: Place) -> None:
    def message(fields: str) -> Any:
        return sf.Serdes.protobuf(f'syntax = "proto3"; message Row {{ {fields} }}')

    old = latest(message("int64 x = 1;"), in_x)
    more, named = (
        latest(message("int64 x = 1; int64 y = 2;"), in_x),
        latest(message("int64 z = 1;"), lambda n: {"z": n}),
    )
    assert statuses(old, more) == {"c": "refused"}
    assert statuses(old, named) == {"c": "kept"}
    with pytest.raises(IncompatibleStateError, match="has the format"):
        place.upgraded(old, more)
    assert {key: row["z"] for key, row in place.life(named)["c"].items()} == {"a": 5, "b": 3}


def test_added_and_removed_inputs(place: Place) -> None:
    def of(*topics: str) -> Build:
        return lambda builder: builder.stream(list(topics), key=str, value=int).group_by_key().count(store="c")

    added = compare(of("in"), of("in", "in2"))
    assert added.to_json()["inputs"] == {"added": ["in2"], "removed": []}
    assert not added.is_lost
    assert compare(of("in", "in2"), of("in")).to_json()["inputs"] == {"added": [], "removed": ["in2"]}
    assert place.life(of("in")) == {"c": {"a": 2, "b": 1}}
    assert place.life(of("in", "in2")) == {"c": {"a": 2, "b": 1, "z": 1}}
    place.life(of("in"))
    place.write("in2", b"z", 1)
    # It continues where it was, and counts nothing twice.
    assert place.life(of("in", "in2")) == {"c": {"a": 2, "b": 1, "z": 2}}


def test_added_and_removed_outputs_and_changelogs() -> None:
    reported = compare(counts_of("in"), lambda b: (windows("1m")(b), stream(b, "in2").to("out"))).to_json()
    assert reported["outputs"] == {"added": ["out"], "removed": []}
    assert reported["changelogs"] == {
        "added": ["<application.id>-c-changelog", "<application.id>-clocks-changelog"],
        "removed": [f"<application.id>-{NAME(1)}-changelog"],
    }


@pytest.mark.parametrize(
    ("settings", "lost", "holds"),
    [
        ({"application.id": "app-2"}, True, {"a": 3, "b": 1}),
        ({"processing.guarantee": "at_least_once"}, False, GOES_ON),
        ({"default.dsl.store": "in_memory"}, False, GOES_ON),
    ],
    ids=str,
)
def test_settings(place: Place, settings: dict[str, str], lost: bool, holds: dict[str, int]) -> None:
    before = sf.Settings({"application.id": "app"}, environ={})
    after = sf.Settings({"application.id": "app", **settings}, environ={})
    compared = Comparison.of(Side.of(topology(count()), before), Side.of(topology(count()), after))
    assert [each.name for each in compared.settings] == list(settings)
    assert compared.is_lost is lost
    assert place.upgraded(count(), count(), **settings)["c"] == holds


def test_another_application_reads_from_the_beginning(place: Place) -> None:
    place.life(count())
    place.write("in", b"a", 5)
    assert place.life(count())["c"] == GOES_ON
    # No topic is new, and all of it is counted again.
    assert place.life(count(), **{"application.id": "app-2"})["c"] == GOES_ON


def test_another_state_dir_is_restored(place: Place, tmp_path: Path) -> None:
    def both(builder: sf.StreamsBuilder) -> None:
        count()(builder)
        stream(builder, "in2").group_by_key().count(store=Materialized("unlogged", logging=False))

    held = place.upgraded(both, both, **{"state.dir": str(tmp_path / "elsewhere")})
    assert held == {"c": GOES_ON, "unlogged": {}}
