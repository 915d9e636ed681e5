"""Where functions receive JSON views, and what becomes of views that they return."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from stoatflow import JsonArray, JsonObject, Record, Stores
from stoatflow.testing import TopologyTestDriver

ORDER = (
    '{"id": 7, "user": {"name": "ann",  "tags": ["a", "b"]},\t"amount": 1.50, "big": 123456789012345678901234567890}'
)
"""With blanks that no encoder writes: if they are kept, the bytes were copied."""
PLAIN = json.loads(ORDER)


def run(make: Any, *texts: str, key: str = "k", value: Any = None) -> list[bytes | None]:
    """The records in `out`, as bytes."""
    builder = sf.StreamsBuilder()
    out = make(builder.stream("in", key=str, value=value or dict))
    out.to("out", key=str, value=sf.Serdes.json())
    with TopologyTestDriver(builder.build()) as driver:
        for text in texts or (ORDER,):
            driver.input("in", str, bytes).pipe(key, text.encode())
        return driver.output("out", str, bytes).read_values_to_list()


def test_every_stateless_operator_gets_views() -> None:
    seen: list[tuple[str, type, type]] = []

    def note(of: str, result: Any = None) -> Any:
        def take(*arguments: Any) -> Any:
            value = arguments[-1]
            seen.append((of, type(value), type(value["user"]["tags"])))
            assert value == PLAIN
            return result(value) if result else True

        return take

    def every(stream: Any) -> Any:
        stream.foreach(note("foreach"))
        return (
            stream.filter(note("filter"))
            .filter_not(note("filter_not", lambda _: False))
            .peek(note("peek"))
            .map_values(note("map_values", lambda v: v))
            .flat_map_values(note("flat_map_values", lambda v: [v]))
            .map(note("map", lambda v: ("k", v)))
            .flat_map(note("flat_map", lambda v: [("k", v)]))
            .select_key(note("select_key", lambda v: v["user"]["name"]))
        )

    assert run(every) == [ORDER.encode()]
    assert {of for of, _, _ in seen} == {
        "foreach", "filter", "filter_not", "peek", "map_values", "flat_map_values", "map", "flat_map", "select_key",
    }  # fmt: skip
    assert {(outer, inner) for _, outer, inner in seen} == {(JsonObject, JsonArray)}


def test_unread_values_are_written_unchanged() -> None:
    assert run(lambda s: s.map_values(lambda v: v)) == [ORDER.encode()]
    assert run(lambda s: s.map_values(lambda v: v["user"])) == [b'{"name": "ann",  "tags": ["a", "b"]}']
    assert run(lambda s: s.map_values(lambda v: {"only": v["user"]})) == [
        b'{"only":{"name": "ann",  "tags": ["a", "b"]}}'
    ]
    written = run(lambda s: s.map_values(lambda v: v | {"amount": 2, "new": v["user"]["tags"]}))
    assert written == [
        (
            b'{"id": 7, "user": {"name": "ann",  "tags": ["a", "b"]},"amount":2,'
            b'"big": 123456789012345678901234567890,"new":["a", "b"]}'
        )
    ]
    (spread,) = run(lambda s: s.map_values(lambda v: {**v, "amount": 2}))
    assert spread is not None
    assert b'{"name": "ann",  "tags": ["a", "b"]}' in spread
    assert json.loads(spread) == PLAIN | {"amount": 2}
    (front,) = run(lambda s: s.map_values(lambda v: {"id": 0, "first": 1} | v))
    assert front is not None
    assert json.loads(front) == {"id": 0, "first": 1} | PLAIN
    assert list(json.loads(front)) == ["id", "first", "user", "amount", "big"]


def test_native_expressions_read_what_functions_return() -> None:
    merged = lambda s: s.map_values(lambda v: v | {"x": {"y": 5}}).map_values(sf.value["x"]["y"])  # noqa: E731
    nested = lambda s: s.map_values(lambda v: v["user"]).map_values(sf.value["tags"])  # noqa: E731
    assert run(merged) == [b"5"]
    assert run(nested) == [b'["a", "b"]']


def test_a_malformed_record_fails_even_if_nothing_is_read() -> None:
    for text in ('{"a": 1', '{"a": 1} x', '{"a": [1, {"b": tru}]}'):
        with pytest.raises(sf.SerdeError, match="not well-formed JSON"):
            run(lambda s: s.map_values(lambda v: 1), text)
    with pytest.raises(sf.SerdeError, match="not well-formed JSON"):
        run(lambda s: s.map_values(lambda v: v["a"], on_error=sf.log_and_continue()), '{"a": 1', '{"a": 2}')


def test_scalars_are_scalars() -> None:
    texts = ("5", "1.5", '"a"', "true", "null", " 7 ")
    seen: list[Any] = []
    run(lambda s: s.map_values(seen.append), *texts)
    assert seen == [5, 1.5, "a", True, None, 7]


def test_equal_keys_have_equal_bytes() -> None:
    async def key_of(key: str, value: Any) -> Any:
        return value["of"]

    async def pair_of(key: str, value: Any) -> Any:
        return value["of"], value

    async def pairs_of(key: str, value: Any) -> Any:
        return [(value["of"], value)]

    texts = ('{"of": {"id": 1, "x": "\\u00e9"}}', '{"of":{"id":1,"x":"\u00e9"}}')
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=dict)
    for name, keyed in (
        ("a", stream.select_key(lambda k, v: v["of"])),
        ("b", stream.map(lambda k, v: (v["of"], v))),
        ("c", stream.select_key(lambda k, v: v["of"] | {"id": 1})),
        ("d", stream.select_key(key_of)),
        ("e", stream.map(pair_of)),
        ("f", stream.flat_map(pairs_of)),
    ):
        keyed.group_by_key(key=dict, value=dict).count(store=name).to_stream().to(name, key=sf.Serdes.json(), value=int)
    grouped = stream.group_by(key_of, key=dict, value=dict, name="g")
    grouped.count(store="g").to_stream().to("g", key=sf.Serdes.json(), value=int)
    with TopologyTestDriver(builder.build(), {"ensure.explicit.naming": False}) as driver:
        for text in texts:
            driver.input("in", str, bytes).pipe("k", text.encode())
        for name in "abcdefg":
            counts = driver.output(name, bytes, int).read_all()
            assert [record.value for record in counts] == [1, 2], name
            assert {record.key for record in counts} == {'{"id":1,"x":"é"}'.encode()}


def test_aggregates_are_views_in_every_call() -> None:
    seen: list[type] = []

    def add(key: str, value: int, agg: Any) -> Any:
        seen.append(type(agg))
        return {"n": agg["n"] + 1, "all": agg["all"] + [value]}

    def merge(key: str, value: int, agg: Any) -> Any:
        seen.append(type(agg))
        return agg | {"n": agg["n"] + 1, "all": [*agg["all"], value]}

    for step in (add, merge):
        builder = sf.StreamsBuilder()
        grouped = builder.stream("in", key=str, value=int).group_by_key()
        table = grouped.aggregate(lambda: {"n": 0, "all": []}, step, store="s", value=dict)
        table.to_stream().to("out", key=str, value=dict)
        with TopologyTestDriver(builder.build()) as driver:
            source = driver.input("in", str, int)
            with driver.epoch():
                for value in (1, 2):
                    source.pipe("k", value)
            source.pipe("k", 3)
            driver.crash()
            driver.restart()
            source.pipe("k", 4)
            assert driver.output("out", str, dict).read_all()[-1].value == {"n": 4, "all": [1, 2, 3, 4]}
            assert driver.store("s").get("k") == {"n": 4, "all": [1, 2, 3, 4]}
    assert set(seen) == {JsonObject}


Reduced = Callable[[Any, Any], Any]
Shape = Callable[[sf.KGroupedStream[str, Any], Reduced, Any], Any]


def reduced(grouped: sf.KGroupedStream[str, Any], reducer: Reduced, serde: Any) -> Any:
    return grouped.reduce(reducer, store="s", value=serde)


def reduced_in_windows(grouped: sf.KGroupedStream[str, Any], reducer: Reduced, serde: Any) -> Any:
    return grouped.windowed_by(sf.TimeWindows.of_size_with_no_grace("10s")).reduce(reducer, store="s", value=serde)


def reduced_in_sessions(grouped: sf.KGroupedStream[str, Any], reducer: Reduced, serde: Any) -> Any:
    return grouped.windowed_by(sf.SessionWindows.of_inactivity_gap_with_no_grace("10s")).reduce(
        reducer, store="s", value=serde
    )


AVRO = {"type": "record", "name": "N", "fields": [{"name": "n", "type": "long"}]}


@pytest.mark.parametrize("shape", [reduced, reduced_in_windows, reduced_in_sessions])
@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize("gives", ["a new dict", "a view of both", "the value"])
@pytest.mark.parametrize(
    ("serde", "wanted"),
    [
        (sf.Serdes.json(), JsonObject),
        (sf.Serdes.json(decode="dict"), dict),
        (sf.Serdes.avro(AVRO), JsonObject),
        (sf.Serdes.avro(AVRO, decode="dict"), dict),
    ],
)
def test_the_aggregate_of_a_reduction_is_the_same_in_every_call(
    shape: Shape, made: bool, gives: str, serde: Any, wanted: type
) -> None:
    """Whether the first value was made by a function or read, and whether it is from a call or from the store."""
    seen: list[type] = []

    def add(agg: Any, value: Any) -> Any:
        seen.append(type(agg))
        total = {"n": agg["n"] + value["n"]}
        return {"a new dict": total, "a view of both": value | total, "the value": value}[gives]

    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=dict)
    if made:
        stream = stream.map_values(lambda value: {"n": value["n"]})
    table = shape(stream.group_by_key(key=str, value=dict), add, serde)
    table.to_stream().select_key(lambda key, value: "k").to("out", key=str, value=dict)
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("in", str, dict)
        with driver.epoch():
            for n in (1, 2, 3):
                source.pipe("k", {"n": n}, timestamp=n)
        source.pipe("k", {"n": 4}, timestamp=4)
        driver.crash()
        driver.restart()
        source.pipe("k", {"n": 5}, timestamp=5)
        total = 5 if gives == "the value" else 15
        values = [value for value in driver.output("out", str, dict).read_values_to_list() if value is not None]
        assert values[-1] == {"n": total}
    assert len(seen) >= 4
    assert set(seen) == {wanted}


def test_an_aggregate_changed_in_place_fails_at_the_first_record() -> None:
    def add(key: str, value: int, agg: Any) -> Any:
        agg["n"] += value
        return agg

    for serde, works in ((dict, False), (sf.Serdes.json(decode="dict"), True)):
        builder = sf.StreamsBuilder()
        builder.stream("in", key=str, value=int).group_by_key().aggregate(lambda: {"n": 0}, add, store="s", value=serde)
        with TopologyTestDriver(builder.build()) as driver:
            source = driver.input("in", str, int)
            if not works:
                with pytest.raises(sf.ProcessingError, match='decode="dict"'):
                    source.pipe("k", 1)
                continue
            for value in (1, 2):
                source.pipe("k", value)
            assert driver.store("s").get("k") == {"n": 3}


def test_processors_and_their_stores() -> None:
    class Keeps(sf.ContextualProcessor[str, Any, str, Any]):
        @classmethod
        def stores(cls) -> list[Any]:
            return [Stores.persistent_key_value("kept", key=str, value=dict)]

        def init(self, context: Any) -> None:
            super().init(context)
            self.kept: Any = context.state_store("kept")

        def process(self, record: Record[str, Any]) -> None:
            assert type(record.value) is JsonObject
            before = self.kept.get("all", {"n": 0})
            assert type(before) in (dict, JsonObject)
            self.kept.put("all", before | {"n": before["n"] + 1, "last": record.value})
            self.context.forward(record.replace(value=self.kept.get("all")))

    written = run(lambda s: s.process(Keeps), ORDER, ORDER)
    assert [json.loads(text or b"") for text in written] == [{"n": n, "last": PLAIN} for n in (1, 2)]
    assert ORDER.encode() in (written[1] or b"")


def test_joiners_and_windows() -> None:
    builder = sf.StreamsBuilder()
    users = builder.table("users", key=str, value=dict, store="users")
    orders = builder.stream("orders", key=str, value=dict)
    seen: list[tuple[type, type]] = []

    def join(order: Any, user: Any) -> Any:
        seen.append((type(order), type(user)))
        return order | {"user": user}

    orders.join(users, join).to("out", key=str, value=dict)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("users", str, dict).pipe("k", {"name": "ann"})
        driver.input("orders", str, dict).pipe("k", {"id": 1})
        assert driver.output("out", str, dict).read_value() == {"id": 1, "user": {"name": "ann"}}
    assert seen == [(JsonObject, JsonObject)]


def test_handlers_get_views() -> None:
    seen: list[Any] = []

    def decide(context: Any, record: Any, error: Any) -> Any:
        seen.append(record.value)
        return sf.log_and_continue()

    run(lambda s: s.map_values(lambda v: v["nothing"], on_error=decide))
    assert type(seen[0]) is JsonObject
    assert seen == [PLAIN]


def test_plain_dicts_on_request() -> None:
    def change(value: Any) -> Any:
        assert type(value) is dict
        assert type(value["user"]["tags"]) is list
        value["user"]["tags"].append("c")
        return value

    (written,) = run(lambda s: s.map_values(change), value=sf.Serdes.json(decode="dict"))
    assert json.loads(written or b"")["user"]["tags"] == ["a", "b", "c"]
    assert run(lambda s: s.map_values(sf.value["user"]["name"]), value=sf.Serdes.json(decode="dict")) == [b'"ann"']
    assert run(lambda s: s, value=sf.Serdes.json(decode="dict")) == [ORDER.encode()]
    with pytest.raises(sf.TopologyError, match='decode="lazy" or decode="dict"'):
        sf.Serdes.json(decode="real")  # type: ignore[arg-type]


def test_classes_are_accepted_as_serdes() -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=JsonObject).map_values(lambda v: v["id"]).to("out", key=str, value=JsonArray)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, JsonObject).pipe("k", JsonObject.parse('{"id": [1]}'))
        assert driver.output("out", str, list).read_value() == [1]


def test_calls_are_counted_by_node(tmp_path: Path) -> None:
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=dict)
    slow = [0.02]

    def wait(value: Any) -> Any:
        import time

        time.sleep(slow[0])
        return value["n"]

    numbers = stream.map_values(wait, name="waits")
    numbers.group_by_key(key=str, value=int).aggregate(
        int, lambda k, v, agg: agg + v, store="s", value=int, name="adds"
    )
    with sf.EmbeddedBroker() as broker:
        broker.create_topic("in", 1)
        broker.produce_many("in", ((0, b"k", b'{"n": 1}', n) for n in range(10)))
        config = {"application.id": "calls", "state.dir": str(tmp_path), "lanes.count": 2}
        with sf.StoatFlow(builder.build(), config, broker=broker) as app:
            import time
            import urllib.request

            until = time.monotonic() + 60
            while app.metrics()["records_committed"] < 10:
                assert time.monotonic() < until
                time.sleep(0.05)
            functions = {(f["node"], f["op"], f["calls"]): f for f in app.metrics()["functions"]}
            waits = functions["waits", "map_values", 10]
            # Seconds and not a smaller unit, however slow the machine is.
            assert 0.2 <= waits["seconds"] < 100
            assert waits["wait_seconds"] < 100
            assert "wait" in waits["function"]
            assert "test_lazy_paths.py" in waits["function"]
            assert ("adds", "aggregate", 10) in functions
            url = app.admin_url
            assert url is not None
            metrics = urllib.request.urlopen(url + "metrics").read().decode()  # noqa: S310
            topology = json.load(urllib.request.urlopen(url + "topology"))  # noqa: S310
        assert 'stoatflow_function_calls_total{application_id="calls",node="waits"' in metrics
        for name in ("function_seconds_total", "function_wait_seconds_total"):
            assert f"stoatflow_{name}{{" in metrics
        assert {f["node"] for f in topology["functions"]} == {"waits", "adds"}
