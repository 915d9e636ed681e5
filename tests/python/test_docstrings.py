"""Every public name and method has an example in its docstring, with the right output.

Examples are doctests. They start after `import stoatflow as sf` and `from stoatflow.testing import
MockProcessorContext, TopologyTestDriver`, run in their own empty folder, and share nothing. Requests to the schema
registry at localhost:8081 are answered by `tests/registry.py`.
"""

from __future__ import annotations

import doctest
import inspect
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import stoatflow as sf
from registry import Registry
from stoatflow import opentelemetry, spark, sql, testing
from stoatflow._runtime.registry_http import Answer, Connection
from stoatflow.testing import MockProcessorContext, TopologyTestDriver

PUBLIC = (sf, testing, sql, spark, opentelemetry)
"""Public modules. A name that two of them share belongs to the first."""
LONGEST = 10
"""Maximum lines of an example, without its output."""
PLAN = "the form in which the engine gets it"
CLASS = "the example of its class has it"
OWN = "the application calls it, and nobody else"
SAYS_IT = "one line says all of it; tests/python/test_custom_metrics.py calls it"
WITHOUT = {
    "Cancellable.cancel": CLASS,
    "Counter.inc": CLASS,
    "Counter.labels": CLASS,
    "Counter.name": SAYS_IT,
    "Counter.value": CLASS,
    "FixedKeyProcessorContext.application_id": CLASS,
    "FixedKeyProcessorContext.lane": CLASS,
    "FixedKeyProcessorContext.metrics": "the example of Metrics shows what they do",
    "FixedKeyProcessorContext.stream_time_ms": CLASS,
    "FixedKeyProcessorContext.system_time_ms": CLASS,
    "FixedKeyProcessorContext.watermark_ms": CLASS,
    "Gauge.clear": SAYS_IT,
    "Gauge.dec": CLASS,
    "Gauge.inc": SAYS_IT,
    "Gauge.labels": SAYS_IT,
    "Gauge.name": SAYS_IT,
    "Gauge.set": CLASS,
    "Gauge.value": CLASS,
    "Histogram.count": CLASS,
    "Histogram.labels": SAYS_IT,
    "Histogram.name": SAYS_IT,
    "Histogram.observe": CLASS,
    "Histogram.sum": CLASS,
    "HttpRequest.query": CLASS,
    "Aggregation.to_json": PLAN,
    "CountWindows.spec": PLAN,
    "DLQ.spec": PLAN,
    "Decide.spec": PLAN,
    "ErrorHandler.spec": PLAN,
    "Expression.to_plan": PLAN,
    "JoinWindows.spec": PLAN,
    "Retry.spec": PLAN,
    "Topology.encoded": PLAN,
    "Topology.plan": PLAN,
    "Watermark.spec": PLAN,
    "EmbeddedBroker.native": OWN,
    "Resource.forget": OWN,
    "Resource.open": OWN,
    "StoatFlow.last_resort": OWN,
    "ChangesLostError": "it takes a reader that is too slow",
    "DiskFullError": "it takes a full disk",
    "FencedError": "it takes two applications; docs/guide/deploying.md says when",
    "InternalError": "nobody knows how to meet a bug",
    "StalledError": "it takes a function that hangs, and time",
    "UnknownOutcomeError": "it takes a broker that goes away while it commits",
    "testing.TopologyTestDriver.serde": PLAN,
}
"""Names without an example, and why."""


def public(module: ModuleType) -> dict[str, Any]:
    """Classes and functions of a module, by the name to import. Constants and types have no docstring."""
    names = vars(module).get("__all__") or [name for name in vars(module) if not name.startswith("_")]
    prefix = "" if module is sf else f"{module.__name__.partition('.')[2]}."
    things = {prefix + name: getattr(module, name) for name in names}
    return {name: thing for name, thing in things.items() if inspect.isclass(thing) or inspect.isroutine(thing)}


def methods(cls: type) -> dict[str, Any]:
    """Public methods and properties that this package wrote, in Python or Rust."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("stoatflow"):
            for name, member in vars(base).items():
                function = getattr(member, "fget", None) or getattr(member, "__func__", member)
                if not name.startswith("_") and (inspect.isroutine(function) or inspect.isgetsetdescriptor(function)):
                    found[name] = function
    return found


def documented() -> dict[str, Any]:
    """Each public name and each method; a method that several classes share belongs to the first."""
    things: dict[str, Any] = {}
    for module in PUBLIC:
        for name, thing in public(module).items():
            things[name] = thing
            if inspect.isclass(thing):
                things |= {f"{name}.{method}": function for method, function in methods(thing).items()}
    first: dict[int, str] = {}
    return {name: thing for name, thing in things.items() if first.setdefault(id(thing), name) == name}


DOCUMENTED = documented()


def example_of(name: str) -> doctest.DocTest:
    names = {"sf": sf, "MockProcessorContext": MockProcessorContext, "TopologyTestDriver": TopologyTestDriver}
    text = inspect.cleandoc(DOCUMENTED[name].__doc__ or "")
    return doctest.DocTestParser().get_doctest(text, names, name, None, None)


def has_example(name: str) -> bool:
    return bool(example_of(name).examples)


def test_public_names_are_found() -> None:
    assert len(DOCUMENTED) > 400
    assert DOCUMENTED.keys() >= {"KStream.join", "KTable.join", "KGroupedStream.count", "Expression.str", "sum"}
    assert DOCUMENTED.keys() >= {"ReadOnlyKeyValueStore.get", "StoatFlow.run", "StoatFlow.store", "Topology.add_sink"}
    assert DOCUMENTED.keys() >= {"SerdeError", "sql.SqlError", "spark.SparkOptions", "testing.TestOutputTopic.read"}


def test_every_public_name_has_an_example() -> None:
    missing = [name for name in DOCUMENTED if not has_example(name) and name not in WITHOUT]
    assert missing == [], "write one as a doctest, see this file"


def test_names_without_need_of_an_example_have_none() -> None:
    assert [name for name in WITHOUT if name not in DOCUMENTED or has_example(name)] == []


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty registry for each example."""
    answering = Registry()

    def request(self: Connection, _method: str, url: str, path: str, data: bytes | None, _within_s: float) -> Answer:
        return answering.request(self, url, path, data)

    monkeypatch.setattr(Connection, "request", request)


@pytest.mark.parametrize("name", [name for name in DOCUMENTED if has_example(name)])
def test_examples_print_their_documented_output(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    test = example_of(name)
    lines = sum(len(example.source.splitlines()) for example in test.examples)
    assert lines <= LONGEST, f"{lines} lines are too many to be read in help()"
    assert any(example.want for example in test.examples), "it shows nothing, so it can't be wrong"
    output: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(test, out=output.append)
    assert result.failed == 0, "".join(output)
