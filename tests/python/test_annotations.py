"""The return annotation of a function determines the serde of its result, where nothing else does."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, NewType, Optional, TypedDict

import pytest

import stoatflow as sf
from stoatflow.plan.annotations import returned
from stoatflow.testing import TopologyTestDriver

if TYPE_CHECKING:
    from decimal import Decimal

Page = NewType("Page", str)


class Click(TypedDict):
    page: str
    ms: int


class Pager:
    def __call__(self, key: str, click: dict[str, Any]) -> str:
        return str(click["page"])


def of_nothing(value: Any): ...  # type: ignore[no-untyped-def]
def of_text(value: Decimal) -> str: ...  # type: ignore[empty-body]
def of_whole(value: Any) -> int: ...  # type: ignore[empty-body]
def of_none() -> None: ...
def of_optional(value: Any) -> Optional[str]: ...  # noqa: UP045
def of_either(value: Any) -> str | None: ...
def of_both(value: Any) -> str | int: ...  # type: ignore[empty-body]
def of_object(value: Any) -> dict[str, Any]: ...  # type: ignore[empty-body]
def of_mapping(value: Any) -> Mapping[str, int]: ...  # type: ignore[empty-body]
def of_click(value: Any) -> Click: ...  # type: ignore[empty-body]
def of_page(value: Any) -> Page: ...  # type: ignore[empty-body]
def of_literals(value: Any) -> Literal["a", "b"]: ...  # type: ignore[empty-body]
def of_notes(value: Any) -> Annotated[bytes, "raw"]: ...  # type: ignore[empty-body]
def of_pair(key: Any, value: Any) -> tuple[str, dict[str, int]]: ...  # type: ignore[empty-body]
def of_tuple(value: Any) -> tuple[int, ...]: ...  # type: ignore[empty-body]
def of_pairs(key: Any, value: Any) -> Iterator[tuple[str, float]]: ...  # type: ignore[empty-body]
def of_words(value: Any) -> list[str]: ...  # type: ignore[empty-body]
def of_custom(value: Any) -> Pager: ...  # type: ignore[empty-body]
def of_unknown(value: Any) -> Decimal: ...  # type: ignore[empty-body]
async def of_waiting(value: Any) -> str: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("function", "form"),
    [
        (of_nothing, None),
        (lambda value: value, None),
        (len, None),
        (of_text, "string"),
        (of_whole, "int64"),
        (of_none, None),
        (of_optional, "string"),
        (of_either, "string"),
        (of_both, None),
        (of_object, "json"),
        (of_mapping, "json"),
        (of_click, "json"),
        (of_page, "string"),
        (of_literals, "string"),
        (of_notes, "bytes"),
        (of_pair, {"pair": ["string", "json"]}),
        (of_tuple, None),
        (of_pairs, {"list": {"pair": ["string", "double"]}}),
        (of_words, {"list": "string"}),
        (of_custom, None),
        (of_unknown, None),
        (of_waiting, "string"),
        (sf.awaiting(of_waiting, timeout="1s"), "string"),
        (functools.partial(of_text), "string"),
        (Pager(), "string"),
        (str, "string"),
        (Pager, None),
    ],
)
def test_serdes_come_from_annotations(function: Any, form: Any) -> None:
    assert returned(function) == form


def page(key: str, click: dict[str, Any]) -> str:
    return str(click["page"])


def page_of(click: dict[str, Any]) -> str:
    return str(click["page"])


def spent(click: dict[str, Any]) -> int:
    return int(click["ms"])


def by_page(key: str, click: dict[str, Any]) -> tuple[str, int]:
    return page(key, click), spent(click)


def each_page(key: str, click: dict[str, Any]) -> Iterable[tuple[str, int]]:
    yield by_page(key, click)


def letters(click: dict[str, Any]) -> list[str]:
    return list(str(click["page"]))


def longest(old: int, click: dict[str, Any]) -> int:
    return max(old, int(click["ms"]))


def clicks() -> tuple[sf.StreamsBuilder, sf.KStream[str, dict[str, Any]]]:
    builder = sf.StreamsBuilder()
    return builder, builder.stream("clicks", key=str, value=dict)


def run(builder: sf.StreamsBuilder, key: Any = str, value: Any = int) -> list[tuple[Any, Any]]:
    with TopologyTestDriver(builder.build()) as driver:
        into = driver.input("clicks", str, dict)
        into.pipe("ann", {"page": "a", "ms": 3})
        into.pipe("bob", {"page": "b", "ms": 4})
        into.pipe("ann", {"page": "a", "ms": 5})
        rows = driver.output("out", key, value).read_all()
    return [(row.key, row.value) for row in rows]


def test_a_new_key() -> None:
    for grouped in (lambda s: s.group_by(page), lambda s: s.select_key(page).group_by_key()):
        builder, stream = clicks()
        grouped(stream).count(store="counts").to_stream().to("out")
        assert run(builder) == [("a", 1), ("b", 1), ("a", 2)]


def test_a_new_value_and_pairs() -> None:
    expected = [("a", 3), ("b", 4), ("a", 5)]
    builder, stream = clicks()
    stream.map_values(spent).to("out")
    assert run(builder) == [("ann", 3), ("bob", 4), ("ann", 5)]
    for paired in (lambda s: s.map(by_page), lambda s: s.flat_map(each_page)):
        builder, stream = clicks()
        paired(stream).to("out")
        assert run(builder) == expected
    builder, stream = clicks()
    stream.flat_map_values(letters).to("out")
    assert run(builder, value=str) == [("ann", "a"), ("bob", "b"), ("ann", "a")]


def test_an_aggregate_and_a_regrouped_table() -> None:
    builder, stream = clicks()
    stream.group_by_key().aggregate(lambda: 0, lambda key, click, old: longest(old, click), store="most")
    with pytest.raises(sf.TopologyError, match="serde of its value"):
        builder.build()

    def most(key: str, click: dict[str, Any], old: int) -> int:
        return longest(old, click)

    builder, stream = clicks()
    table = stream.group_by_key().aggregate(lambda: 0, most, store="most")

    def by_size(key: str, ms: int) -> tuple[int, int]:
        return ms % 2, ms

    table.group_by(by_size).count(store="sizes").to_stream().to("out")
    # As in Kafka Streams, the first update retracts the initializer's value from its group.
    assert run(builder, key=int) == [(0, None), (1, 1), (0, 1), (1, 1)]


def test_explicit_serdes_override_annotations() -> None:
    builder, stream = clicks()
    stream.map_values(spent).to("out", value=str)
    with pytest.raises(Exception, match="str"):
        run(builder)
    # A default of the application wins, as in Kafka Streams: annotations only help where there was an error.
    builder = sf.StreamsBuilder()
    builder.stream("clicks", key=str, value=dict).map_values(page_of).to("out")
    config = {"default.value.serde": sf.Serdes.json()}
    plan = builder.build(config)
    with TopologyTestDriver(plan, config) as driver:
        driver.input("clicks", str, dict).pipe("ann", {"page": "a"})
        assert driver.output("out", bytes, bytes).read_all()[0].value == b'"a"'


def test_an_annotation_that_is_no_type_is_ignored() -> None:
    def unknown(click: dict[str, Any]) -> Decimal:
        return click["ms"]  # type: ignore[no-any-return]

    builder, stream = clicks()
    stream.map_values(unknown).to("out")
    with pytest.raises(sf.TopologyError, match="can return anything"):
        builder.build()
