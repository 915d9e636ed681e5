"""The wrapper around Python functions: what is wrapped, its arguments, and its cost when there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import stoatflow as sf
from stoatflow import NodeInfo, Record, Stores
from stoatflow.testing import TopologyTestDriver

Called = list[tuple[str, tuple[Any, ...]]]


class Tracing:
    """Records each node at build time, and each call later."""

    def __init__(self) -> None:
        self.nodes: list[NodeInfo] = []
        self.called: Called = []

    def __call__(self, node: NodeInfo, next: Callable[..., Any]) -> Callable[..., Any]:  # noqa: A002
        self.nodes.append(node)

        def traced(*arguments: Any) -> Any:
            self.called.append((node.name, arguments))
            return next(*arguments)

        return traced


class Totals(sf.ContextualProcessor[str, str, str, int]):
    """Counts in a store."""

    @classmethod
    def stores(cls) -> list[Any]:
        return [Stores.key_value("totals", key=str, value=int)]

    def process(self, record: Record[str, str]) -> None:
        store = self.context.state_store("totals")
        store.put(record.key, store.get(record.key, 0) + 1)
        self.context.forward(record.replace(value=store.get(record.key)))


class Loud(sf.ValueTransformer[str, int, str]):
    """Returns upper case."""

    def transform(self, key: str, value: int | None) -> str | None:
        return None if value is None else f"{value}!"


def test_each_function_is_wrapped_once_at_the_build() -> None:
    tracing = Tracing()
    builder = sf.StreamsBuilder(wrapper=tracing)

    def fits(key: str, value: str) -> bool:
        return True

    words = builder.stream("in", key=str, value=str, timestamp=lambda record, time: int(record.timestamp))
    # The same function at two nodes: the wrapper is called for both.
    kept = words.filter(fits).filter(fits, name="again").filter(sf.value != "")
    table = kept.group_by_key().aggregate(lambda: 0, lambda key, value, agg: agg + 1, store="counts", value=int)
    table.transform_values(Loud).to_stream().to(lambda key, value, context: "out", key=str, value=str)
    kept.process(Totals, name="total").to("totals", key=str, value=int)
    topology = builder.build()
    reported = [(node.name, node.kind, node.function, node.stores) for node in tracing.nodes]
    assert reported == [
        ("KSTREAM-SOURCE-0000000000", "stream", "timestamp", ()),
        ("KSTREAM-FILTER-0000000001", "filter", "function", ()),
        ("again", "filter", "function", ()),
        ("KSTREAM-AGGREGATE-0000000004", "aggregate", "initializer", ("counts",)),
        ("KSTREAM-AGGREGATE-0000000004", "aggregate", "function", ("counts",)),
        ("KSTREAM-SINK-0000000007", "to", "topic_function", ()),
        ("KTABLE-TRANSFORMVALUES-0000000005", "transform_values", "transform", ()),
        ("total", "process", "process", ("totals",)),
    ]
    for node in tracing.nodes:
        assert node.name in topology.describe()
    with TopologyTestDriver(topology, lanes=3) as driver:
        driver.input("in", str, str).pipe_all([("a", "x"), ("b", "y"), ("a", "z")])
        assert driver.output("out", str, str).read_values_to_list() == ["1!", "1!", "2!"]
        assert driver.output("totals", str, int).read_values_to_list() == [1, 1, 2]
        driver.crash()
        driver.restart(lanes=2)
    assert len(tracing.nodes) == len(reported), "nothing is wrapped while it runs"
    calls = [name for name, _ in tracing.called]
    assert calls.count("KSTREAM-FILTER-0000000001") == calls.count("again") == calls.count("total") == 3
    assert calls.count("KTABLE-TRANSFORMVALUES-0000000005") == 3
    records = [arguments[0] for name, arguments in tracing.called if name == "total"]
    assert [(record.key, record.value) for record in records] == [("a", "x"), ("b", "y"), ("a", "z")]


def test_results_of_a_wrapper_are_used() -> None:
    def doubling(node: NodeInfo, next: Callable[..., Any]) -> Callable[..., Any]:  # noqa: A002
        if node.kind == "map_values":
            return lambda value: next(value) * 2
        if node.kind == "process":
            return lambda record: next(record.replace(value="changed")) if record.key == "a" else None
        return next

    builder = sf.StreamsBuilder(wrapper=doubling)
    stream = builder.stream("in", key=str, value=str)
    stream.map_values(str.upper).filter(lambda key, value: value != "").to("out", value=str)
    stream.process(Totals).to("totals", key=str, value=int)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, str).pipe_all([("a", "x"), ("b", "y")])
        assert driver.output("out", str, str).read_values_to_list() == ["XX", "YY"]
        assert driver.output("totals", str, int).read_key_values_to_list() == [("a", 1)]


def test_topologies_by_hand() -> None:
    tracing = Tracing()

    class Keeps(sf.ContextualProcessor[bytes, bytes, Any, Any]):
        def process(self, record: Record[bytes, bytes]) -> None:
            self.context.state_store("kept").put(record.key, record.value)

    topology = (
        sf.Topology(wrapper=tracing)
        .add_source("words", "in", key=str, value=str)
        .add_processor("count", Totals, "words")
        .add_sink("out", "out", "count", key=str, value=int)
        .add_global_store(Stores.key_value("kept"), "global", Keeps)
    )
    with TopologyTestDriver(topology) as driver:
        driver.input("global").pipe(b"k", b"v")
        driver.input("in", str, str).pipe("a", "x")
        assert driver.output("out", str, int).read_values_to_list() == [1]
        assert driver.store("kept").all() == {b"k": b"v"}
    reported = {(node.kind, node.function, node.stores) for node in tracing.nodes}
    assert reported == {("process", "process", ("totals",)), ("global_store", "process", ("kept",))}
    assert len(tracing.called) == 2


def test_without_a_wrapper_functions_are_the_users_own() -> None:
    def fits(key: str, value: str) -> bool:
        return True

    def passes(node: NodeInfo, next: Callable[..., Any]) -> Callable[..., Any]:  # noqa: A002
        return next

    for wrapper in (None, passes):
        builder = sf.StreamsBuilder(wrapper=wrapper)
        builder.stream("in", key=str, value=str).filter(fits).process(Totals)
        encoded = builder.build()._checked()[0]
        assert encoded.functions == (fits,)
        assert encoded.processors == (Totals,)


async def later(*arguments: Any) -> Any:
    """Returns a coroutine that is never awaited."""


@pytest.mark.parametrize("wrapper", [5, "trace", later])
def test_invalid_wrappers_are_refused(wrapper: Any) -> None:
    for start in (sf.StreamsBuilder, sf.Topology):
        with pytest.raises(sf.TopologyError, match=r"test_wrapping\.py:\d+ wrapper= must be a plain function"):
            start(wrapper=wrapper)


@pytest.mark.parametrize("gives", [None, 3, later])
def test_wrong_results_of_wrappers_are_refused(gives: Any) -> None:
    builder = sf.StreamsBuilder(wrapper=lambda node, next: gives)  # noqa: A006
    builder.stream("in", key=str, value=str).filter(lambda key, value: True)
    with pytest.raises(sf.TopologyError, match=r"test_wrapping\.py:\d+ the wrapper gave .* of 'KSTREAM-FILTER-"):
        builder.build()


def test_next_works_in_its_call_only() -> None:
    kept: list[Callable[..., Any]] = []

    def keeping(node: NodeInfo, next: Callable[..., Any]) -> Callable[..., Any]:  # noqa: A002
        kept.append(next)
        return lambda record: None

    builder = sf.StreamsBuilder(wrapper=keeping)
    builder.stream("in", key=str, value=str).process(Totals)
    builder.build()
    with pytest.raises(RuntimeError, match="outside of process"):
        kept[0](Record("a", "x", 1))


def test_an_error_of_a_wrapped_function_names_the_function() -> None:
    def fails(key: str, value: str) -> bool:
        raise LookupError("no luck")

    builder = sf.StreamsBuilder(wrapper=Tracing())
    builder.stream("in", key=str, value=str).filter(fails).to("out")
    with (
        TopologyTestDriver(builder.build()) as driver,
        pytest.raises(sf.ProcessingError, match=r"test_wrapping\.py:\d+ .*fails") as caught,
    ):
        driver.input("in", str, str).pipe("a", "x")
    assert isinstance(caught.value.__cause__, LookupError)
