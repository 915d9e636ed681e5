"""Processors that would lose records are rejected where they are added, before anything runs."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

import stoatflow as sf
from stoatflow import PunctuationType, Record, Stores
from stoatflow.testing import TopologyTestDriver

P = sf.ContextualProcessor
Adds = Callable[[Any], object]


class Async(P[Any, Any, Any, Any]):
    """Its coroutines would never run."""

    async def process(self, record: Any) -> None:  # type: ignore[override]
        self.context.forward(record)


class Yields(P[Any, Any, Any, Any]):
    """A generator."""

    def process(self, record: Any) -> Iterator[Any]:  # type: ignore[override]
        yield record


class AsyncYields(P[Any, Any, Any, Any]):
    """Both."""

    async def process(self, record: Any) -> AsyncIterator[Any]:  # type: ignore[override]
        yield record


class AsyncInit(P[Any, Any, Any, Any]):
    """It would have no context."""

    async def init(self, context: Any) -> None:  # type: ignore[override]
        self.context = context

    def process(self, record: Any) -> None: ...


class Nothing(P[Any, Any, Any, Any]):
    """It has no process."""


class Plain:
    """It has nothing at all."""


class TwoArguments(P[Any, Any, Any, Any]):
    """The shape of old transformers."""

    def process(self, key: Any, value: Any) -> None: ...  # type: ignore[override]


class NoArguments:
    """Static, and too short."""

    def init(self, context: Any) -> None: ...

    @staticmethod
    def process() -> None: ...

    def close(self) -> None: ...


class Transforms(sf.ValueTransformer[Any, Any, Any]):
    """For tables."""

    def transform(self, key: Any, value: Any) -> Any:
        return value


class TransformsLater(sf.ValueTransformer[Any, Any, Any]):
    """For tables, async."""

    async def transform(self, key: Any, value: Any) -> Any:
        return value


class TransformsValues(sf.ValueTransformer[Any, Any, Any]):
    """For tables, without a key."""

    def transform(self, value: Any) -> Any:  # type: ignore[override]
        return value


class Fine(P[Any, Any, Any, Any]):
    """A valid processor."""

    def process(self, record: Any, *, extra: int = 1) -> None:
        self.context.forward(record)


class FineCalls(Fine):
    """Its method is a callable object."""

    process = functools.partialmethod(Fine.process, extra=2)


PROCESSORS = [
    (Async, "Async.process", "split it where it awaits"),
    (Yields, "Yields.process", "has a yield"),
    (AsyncYields, "is async", "0008-a-processor-does-not-await.md"),
    (AsyncInit, "AsyncInit.init", "builder.resource"),
    (Nothing, "Nothing", "write process(self, record)"),
    (Plain, "with process(record)", "subclass of sf.Processor"),
    (TwoArguments, "takes (key", "write def process(self, record)"),
    (NoArguments, "takes ()", "write def process(self, record)"),
    (Transforms, "none", "table.transform_values"),
]
WAYS: list[Callable[[Any], object]] = [
    lambda made: sf.StreamsBuilder().stream("in").process(made),
    lambda made: sf.StreamsBuilder().stream("in").process_values(made),
    lambda made: sf.Topology().add_source("s", "in").add_processor("p", made, "s"),
    lambda made: sf.StreamsBuilder().add_global_store(Stores.key_value("g"), "in", made),
    lambda made: sf.Topology().add_global_store(Stores.key_value("g"), "in", made),
]


def refused(build: Callable[[Any], object], made: Any, *words: str) -> None:
    with pytest.raises(sf.TopologyError) as caught:
        build(made)
    for word in ("test_processor_checks.py:", *words):
        assert word in str(caught.value), str(caught.value)


@pytest.mark.parametrize("build", WAYS)
@pytest.mark.parametrize(("cls", "what", "fix"), PROCESSORS)
def test_a_processor_that_would_lose_records(build: Callable[[Any], object], cls: Any, what: str, fix: str) -> None:
    refused(build, cls, what, fix)
    if cls is not Nothing:
        refused(build, lambda: cls(), what, fix)  # noqa: PLW0108  # a function that makes one


@pytest.mark.parametrize("build", WAYS)
@pytest.mark.parametrize("made", [Fine, FineCalls, lambda: Fine(), functools.partial(Fine)])  # noqa: PLW0108
def test_valid_processors_are_accepted(build: Callable[[Any], object], made: Any) -> None:
    build(made)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (Fine, ("transform(key, value)", "table.to_stream().process")),
        (TransformsLater, ("is async", "return the new value")),
        (TransformsValues, ("takes (value", "def transform(self, key, value)")),
        (lambda: TransformsLater(), ("is async",)),  # noqa: PLW0108
    ],
)
def test_transformers(made: Any, words: tuple[str, ...]) -> None:
    table = sf.StreamsBuilder().table("in", store="t")
    refused(table.transform_values, made, *words)
    table.transform_values(Transforms)


def test_a_supplier_that_returns_nothing() -> None:
    refused(WAYS[0], lambda: None, "gives None", "return a new object")


@pytest.mark.parametrize("stores", [5, None, "totals", [5]])
def test_an_invalid_list_of_stores_is_refused(stores: Any) -> None:
    refused(lambda made: sf.StreamsBuilder().stream("in").process(made, stores=stores), Fine, "stores= must")


def test_a_supplier_that_returns_the_class() -> None:
    refused(WAYS[0], lambda: Fine, "gives the class Fine", "process(Fine)")


@pytest.mark.parametrize(
    ("callback", "word"),
    [("async", "is async"), ("yields", "has a yield"), ("nothing", "(timestamp)"), (5, "(timestamp)")],
)
def test_callbacks_of_schedules(callback: Any, word: str) -> None:
    class Schedules(Fine):
        def init(self, context: Any) -> None:
            super().init(context)
            given = getattr(self, callback) if isinstance(callback, str) else callback
            context.schedule("1s", PunctuationType.STREAM_TIME, given)

        locals()["async"] = Async.process

        def yields(self, timestamp: int) -> Iterator[int]:
            yield timestamp

        def nothing(self) -> None: ...

    builder = sf.StreamsBuilder()
    builder.stream("in").process(Schedules)
    with pytest.raises(sf.ProcessingError) as caught:
        TopologyTestDriver(builder.build())
    assert word in str(caught.value)
    assert "test_processor_checks.py:" in str(caught.value)


class Limit(P[str, str, str, int]):
    """Counts, in a store that it declares itself, up to a limit."""

    def __init__(self, most: int) -> None:
        self.most = most

    @classmethod
    def stores(cls) -> list[Any]:
        return [Stores.key_value("counts", key=str, value=int)]

    def process(self, record: Record[str, str]) -> None:
        counts = self.context.state_store("counts")
        count = min(self.most, counts.get(record.key, 0) + 1)
        counts.put(record.key, count)
        self.context.forward(record.replace(value=count))


@sf.with_stores(Stores.key_value("counts", key=str, value=int))
class Decorated(Limit):
    """The same, declared in a decorator."""

    stores = None  # type: ignore[assignment]


class OwnStores(Limit):
    """Its stores depend on the object."""

    def stores(self) -> list[Any]:  # type: ignore[override]
        return [Stores.key_value("counts", key=str, value=int)] if self.most else []


@pytest.mark.parametrize("cls", [Limit, Decorated, OwnStores])
def test_stores_of_a_supplied_processor(cls: Any) -> None:
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).process(lambda: cls(2)).to("out", key=str, value=int)
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, str).pipe_all([("a", "x")] * 3)
        assert driver.output("out", str, int).read_values_to_list() == [1, 2, 2]


def test_a_global_store_has_no_other_stores() -> None:
    for build in WAYS[3:]:
        refused(build, lambda: Limit(1), "names the store 'counts'", "leave other stores out")
    sf.StreamsBuilder().add_global_store(Stores.key_value("counts"), "in", lambda: Limit(1))
