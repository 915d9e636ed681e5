"""Any callable is called with its arguments in order: functions, methods, classes, objects, builtins."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

INPUT = [("k", "a"), ("k", "b")]


class Suffix:
    """Methods of all kinds, a callable object, and a class whose constructor is the call."""

    def __init__(self, value: str) -> None:
        self.value = value

    def __str__(self) -> str:
        return f"{self.value}!"

    def __call__(self, value: str) -> str:
        return value + self.value

    def method(self, value: str) -> str:
        return value + self.value

    @classmethod
    def of_class(cls, value: str) -> str:
        return f"{cls.__name__}-{value}"

    @staticmethod
    def of_nobody(value: str) -> str:
        return f"static-{value}"


def with_more(value: str, more: str = "?", *rest: str, last: str = ".") -> str:
    return value + more + "".join(rest) + last


def run(build: Callable[[sf.KStream[str, str]], Any]) -> list[Any]:
    builder = sf.StreamsBuilder()
    build(builder.stream("in", key=str, value=str))
    with TopologyTestDriver(builder.build()) as driver:
        source = driver.input("in", str, str)
        for key, value in INPUT:
            source.pipe(key, value)
        return driver.output("out", str, str).read_values_to_list()


@pytest.mark.parametrize(
    ("fn", "wanted"),
    [
        (lambda value: value * 2, ["aa", "bb"]),
        (with_more, ["a?.", "b?."]),
        (lambda *args: f"{args}", ["('a',)", "('b',)"]),
        (lambda value, **named: f"{value}{named}", ["a{}", "b{}"]),
        (Suffix("x").method, ["ax", "bx"]),
        (Suffix("x"), ["ax", "bx"]),
        (Suffix.of_class, ["Suffix-a", "Suffix-b"]),
        (Suffix.of_nobody, ["static-a", "static-b"]),
        (functools.partial(with_more, last="/"), ["a?/", "b?/"]),
        (functools.partial(operator.add, "x"), ["xa", "xb"]),
        (functools.lru_cache(Suffix("x").method), ["ax", "bx"]),
        (str.upper, ["A", "B"]),
        ("-{}-".format, ["-a-", "-b-"]),
        ("x".join, ["a", "b"]),
        (str, ["a", "b"]),
        (operator.methodcaller("center", 3), [" a ", " b "]),
        (operator.itemgetter(0), ["a", "b"]),
    ],
)
def test_with_a_value(fn: Any, wanted: list[str]) -> None:
    assert run(lambda stream: stream.map_values(fn, name="fn").to("out", key=str, value=str)) == wanted


@pytest.mark.parametrize(
    "fn", [operator.add, lambda key, value: key + value, lambda *args: "".join(args), "{}{}".format]
)
def test_with_key_and_value(fn: Any) -> None:
    keyed = run(lambda stream: stream.map_values(fn, with_key=True, name="fn").to("out", key=str, value=str))
    assert keyed == ["ka", "kb"]


class Join:
    def two(self, aggregate: str, value: str) -> str:
        return f"{aggregate}+{value}"

    def three(self, key: str, value: str, aggregate: str) -> str:
        return f"{aggregate}{key}{value}"

    def none(self) -> str:
        return "start:"


@pytest.mark.parametrize("fn", [Join().two, lambda aggregate, value: f"{aggregate}+{value}", "{}+{}".format])
def test_reducers(fn: Any) -> None:
    def build(stream: sf.KStream[str, str]) -> None:
        stream.group_by_key().reduce(fn, store="s").to_stream().to("out", key=str, value=str)

    assert run(build) == ["a", "a+b"]


@pytest.mark.parametrize("fn", [Join().three, lambda *of: "".join([of[2], *of[:2]]), "{2}{0}{1}".format])
@pytest.mark.parametrize("start", [Join().none, lambda: "start:", functools.partial(str, "start:")])
def test_aggregators(start: Any, fn: Any) -> None:
    def build(stream: sf.KStream[str, str]) -> None:
        table = stream.group_by_key().aggregate(start, fn, store="s", value=str)
        table.to_stream().to("out", key=str, value=str)

    assert run(build) == ["start:ka", "start:kakb"]


class Exchange(sf.ContextualProcessor[str, str, str, str]):
    """A processor's method is bound to its object."""

    def process(self, record: sf.Record[str, str]) -> None:
        self.context.forward(record.replace(value=f"{record.key}{record.value}{record.timestamp >= 0}{record.headers}"))


def test_processors() -> None:
    seen = run(lambda stream: stream.process(Exchange, name="p").to("out", key=str, value=str))
    assert seen == ["kaTrue()", "kbTrue()"]


def test_exceptions_are_passed_on() -> None:
    def build(stream: sf.KStream[str, str]) -> None:
        stream.map_values(operator.attrgetter("nowhere"), name="fn").to("out", key=str, value=str)

    with pytest.raises(sf.ProcessingError, match="nowhere"):
        run(build)
