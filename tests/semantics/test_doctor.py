"""The doctor's proposals do what the function does: both get the same values, through the real engine.

For every value for which a function returns a result, the proposed expression gives the same, value and type,
unless one of the reported differences is about more than nulls. Where the function raises, the expression may only
continue if that was reported.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

import stoatflow as sf
from semantics import doctor_functions as functions
from stoatflow.doctor.difference import Difference
from stoatflow.doctor.examination import examine
from stoatflow.doctor.finding import Finding
from stoatflow.errors import StoatFlowError
from stoatflow.testing import TopologyTestDriver

NAMES = {**vars(functions), "sf": sf}
TEXTS = [
    "", "a", "x", " ab ", "a,b", "1", "12", "  7 ", "new", "gone", "er", "Straße", "1.5", "true", "b.csv",
    "ΑΣ", "a\u2028b",
]  # fmt: skip
NUMBERS = [0, 1, -3, 7, 12, 150, 2.5, -0.0, 0.0, 1.0, 99.95, 2**53 + 1, -1.25]
ABOUT_NULLS = {Difference.NULL, Difference.LEFT_OUT, Difference.READ_ONCE}
RAISES: Any = object()


def shown(difference: Difference) -> str:
    return difference.value.removeprefix("{}")


def differences_of(finding: Finding) -> set[Difference]:
    return {each for each in Difference if any(text.endswith(shown(each)) for text in finding.differences)}


def proposal(fn: Callable[..., Any], value: Any = dict, operator: str = "map_values") -> Finding | None:
    builder = sf.StreamsBuilder()
    getattr(builder.stream("in", key=str, value=value), operator)(fn).to("out", key=str, value=dict)
    found = [finding for finding in examine(builder.build()) if finding.kind == "expression"]
    return found[0] if found else None


def proposed(fn: Callable[..., Any], value: Any = dict, operator: str = "map_values") -> tuple[sf.Expression, Finding]:
    found = proposal(fn, value, operator)
    assert found is not None
    made = eval(found.expression, dict(NAMES))  # noqa: S307  # what a user would paste
    assert isinstance(made, sf.Expression)
    return made, found


def seen(value: Any) -> Any:
    """The value as functions receive it."""
    if isinstance(value, dict):
        return sf.JsonObject.parse(json.dumps(value))
    return sf.JsonArray.parse(json.dumps(value)) if isinstance(value, list) else value


def of_function(call: Callable[..., Any], *arguments: Any) -> Any:
    try:
        result = call(*arguments)
    except Exception:
        return RAISES
    return RAISES if isinstance(result, complex) else json.dumps(sf.to_python(result))


def of_expression(expression: sf.Expression, value: Any, key: str | None = None) -> Any:
    try:
        return json.dumps(sf.to_python(expression.evaluate(value, key=key)))
    except StoatFlowError:
        return RAISES


class Values:
    """Random values, most of them as the functions expect them."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311

    def anything(self, depth: int = 2) -> Any:
        if depth and self.chance.random() < 0.35:
            if self.chance.random() < 0.5:
                return [self.anything(depth - 1) for _ in range(self.chance.randrange(4))]
            return {name: self.anything(depth - 1) for name in self.chance.sample("abn", self.chance.randrange(4))}
        return self.chance.choice([None, True, False, *NUMBERS, *TEXTS])

    def record(self) -> Any:
        pick = self.chance.choice
        good: dict[str, Callable[[], Any]] = {
            "n": lambda: pick([0, 1, 3, 7, 12, -5]), "amount": lambda: pick([0, 2.5, 99.95, 150, -1.25, 0.5]),
            "s": lambda: pick(TEXTS), "w": lambda: pick(TEXTS), "st": lambda: pick(["new", "paid", "gone"]),
            "l": lambda: [pick([0, 1, 2, 2.5, "a"][:4]) for _ in range(self.chance.randrange(4))],
            "o": lambda: {"b": self.anything(1)}, "a": self.anything, "b": self.anything,
            "paid": lambda: self.chance.random() < 0.5,
        }  # fmt: skip
        if self.chance.random() < 0.05:
            return self.anything()
        return {name: make() if self.chance.random() < 0.8 else self.anything() for name, make in good.items()
                if self.chance.random() < 0.93}  # fmt: skip

    def text(self) -> Any:
        return self.chance.choice([None, *TEXTS])

    def number(self) -> Any:
        return self.chance.choice([None, 0, 1, -3, 7, 150])


def check(given: str, wanted: Any, found: Any, finding: Finding) -> bool:
    """Whether they are the same, or the difference is reported."""
    corners = differences_of(finding)
    if wanted is RAISES:
        assert found is RAISES or corners - {Difference.READ_ONCE}, f"{given} raises, and gives {found}: not said"
        return False
    if found is RAISES and str(wanted).lstrip("-").isdigit() and abs(int(wanted)) >= 2**63:
        return False  # reported for every expression, in the guide
    if found != wanted:
        assert corners - ABOUT_NULLS, f"{given} gives {wanted}, and {found} as {finding.expression}: not said"
    return bool(found == wanted)


def every(fns: list[Callable[..., Any]]) -> Any:
    names = [finding_name(fn) for fn in fns]
    return pytest.mark.parametrize("fn", fns, ids=names)


def finding_name(fn: Callable[..., Any]) -> str:
    code = getattr(fn, "__code__", None)
    return f"{fn.__name__}-{code.co_firstlineno}" if code is not None else fn.__name__


@every(functions.OF_OBJECTS)
def test_functions_of_objects(fn: Callable[..., Any]) -> None:
    expression, finding = proposed(fn)
    values = Values(functions.OF_OBJECTS.index(fn))
    same = 0
    for _ in range(300):
        value = values.record()
        given = f"{finding.function} of {value}"
        same += check(given, of_function(fn, seen(value)), of_expression(expression, value), finding)
    assert same > 10, f"{finding.function} was seldom tried"


@every(functions.OF_TEXTS)
def test_functions_of_texts(fn: Callable[..., Any]) -> None:
    expression, finding = proposed(fn, value=str)
    same = [
        check(f"{finding.function} of {value!r}", of_function(fn, value), of_expression(expression, value), finding)
        for value in [None, *TEXTS]
    ]
    assert sum(same) > 1


@every(functions.OF_NUMBERS)
def test_functions_of_numbers(fn: Callable[..., Any]) -> None:
    expression, finding = proposed(fn, value=int)
    same = [
        check(f"{finding.function} of {value!r}", of_function(fn, value), of_expression(expression, value), finding)
        for value in [None, 0, 1, -3, 7, 150, 2**40]
    ]
    assert sum(same) > 3


@every(functions.CONDITIONS)
@pytest.mark.parametrize("operator", ["filter", "filter_not"])
def test_conditions(fn: Callable[..., Any], operator: str) -> None:
    expression, finding = proposed(fn, operator=operator)
    values = Values(functions.CONDITIONS.index(fn))
    same = 0
    for _ in range(300):
        value = values.record()
        try:
            wanted: Any = bool(fn("k", seen(value)))
        except Exception:
            wanted = RAISES
        found = of_expression(expression, value, "k")
        # Null is false, and anything else is no condition.
        found = {"true": True, "false": False, "null": False}.get(found, RAISES)
        same += check(f"{finding.function} of {value}", wanted, found, finding)
    assert same > 10


@every(functions.NEVER)
def test_functions_without_an_equal_expression_get_no_proposal(fn: Callable[..., Any]) -> None:
    assert proposal(fn) is None


@pytest.mark.parametrize(
    ("fn", "value", "function", "expression", "difference"),
    [
        (lambda v: v["a"] == 1, {}, RAISES, False, Difference.NULL),
        (lambda v: v["a"] + 1, {"a": None}, RAISES, None, Difference.NULL),
        (lambda v: v.get("a", 0), {"a": None}, None, 0, Difference.DEFAULT),
        (lambda v: v.get("a") or 5, {"a": ""}, 5, "", Difference.EMPTY),
        (lambda v: v["a"] * 2, {"a": "x"}, "xx", RAISES, Difference.NUMBERS),
        (lambda v: v["a"] < v["b"], {"a": "x", "b": 1}, RAISES, RAISES, Difference.ORDERED),
        (lambda v: v["a"][0], {"a": "xy"}, "x", RAISES, Difference.LIST),
        (lambda v: v["a"].count("x"), {"a": ["x"]}, 1, RAISES, Difference.TEXT),
        (lambda v: "x" in v["a"], {"a": ["x"]}, True, RAISES, Difference.TEXT),
        (lambda v: "x" in v, ["x"], True, RAISES, Difference.OBJECT),
        (lambda v: v["a"] in {1, 2}, {"a": [1]}, RAISES, False, Difference.PLAIN),
        (lambda v: f"{v['a']}", {"a": None}, "None", None, Difference.SPELT),
        (lambda v: f"{v['a']}", {"a": [1, "b"]}, "[1, 'b']", '[1,"b"]', Difference.SPELT),
        (lambda v: int(v["a"]), {"a": "\u0661"}, 1, RAISES, Difference.DIGITS),
        (lambda v: not v["a"], {"a": "x"}, False, RAISES, Difference.TRUTH),
    ],
)
def test_reported_differences_exist(
    fn: Callable[..., Any], value: Any, function: Any, expression: Any, difference: Difference
) -> None:
    made, finding = proposed(fn)
    assert difference in differences_of(finding)
    plain = function if function is RAISES else json.dumps(function)
    assert of_function(fn, seen(value)) == plain
    assert of_expression(made, value) == (expression if expression is RAISES else json.dumps(expression))


# At their operators --------------------------------------------------------------------------------

JSON = sf.Serdes.json()
Build = Callable[[Any, Any], Any]


def result(topology: sf.Topology, seed: int) -> list[Any]:
    """All outputs of the same records in both topics."""
    chance = random.Random(seed)  # noqa: S311
    with TopologyTestDriver(topology) as driver:
        for at in range(40):
            topic = driver.input(chance.choice(["in", "other"]), str, JSON)
            value = {"x": chance.randrange(9), "name": chance.choice("ab"), "user": chance.choice("uv")}
            topic.pipe(chance.choice("kl"), value, timestamp=at * 5)
        return driver.output("out", None, None).read_values_to_list()


def topology(build: Callable[[Any, Any, Any], Any], *functions_: Any) -> sf.Topology:
    builder = sf.StreamsBuilder()
    build(
        builder.stream("in", key=str, value=JSON), builder.table("other", key=str, value=JSON, store="o"), *functions_
    )
    return builder.build()


PLACES: dict[str, tuple[Callable[..., Any], Any]] = {
    "map": (lambda s, _, fn: s.map(fn).to("out", key=str, value=JSON), lambda k, v: (v["user"], {"k": k})),
    "map_values with key": (
        lambda s, _, fn: s.map_values(fn, with_key=True).to("out", value=JSON), lambda k, v: [k, v["x"]],
    ),
    "flat_map_values": (lambda s, _, fn: s.flat_map_values(fn).to("out", value=JSON), lambda v: [v["x"], v["name"]]),
    "select_key": (lambda s, _, fn: s.select_key(fn).to("out", key=str), lambda k, v: k + v["name"]),
    "group_by": (
        lambda s, _, fn: s.group_by(fn, key=str).count(store="c").to_stream().to("out", value=JSON),
        lambda k, v: v["user"],
    ),
    "group_by of a table": (
        lambda _, t, fn: t.group_by(fn, key=str, value=JSON).count(store="c").to_stream().to("out", value=JSON),
        lambda k, v: (v["user"], v),
    ),
    "filter of a table": (lambda _, t, fn: t.filter(fn).to_stream().to("out", value=JSON), lambda k, v: v["x"] > 4),
    "branch": (lambda s, _, fn: s.split({"a": fn})["a"].to("out", value=JSON), lambda k, v: v["name"] == "a"),
    "deduplicate": (
        lambda s, _, fn: s.deduplicate(fn, within="1h", store="d").to("out", value=JSON), lambda k, v: v["x"],
    ),
    "topic": (lambda s, _, fn: s.to(fn, key=str, value=JSON), lambda k, v, context: "out" if v["x"] > 2 else "none"),
    "joiner": (lambda s, t, fn: s.join(t, fn).to("out", value=JSON), lambda one, two: {"x": one["x"] + two["x"]}),
    "joiner of all": (
        lambda s, t, fn: s.join(t, fn).to("out", value=JSON),
        lambda one, two: {**one, **two},
    ),
    "joiner with key": (
        lambda s, t, fn: s.left_join(t, fn, with_key=True).to("out", value=JSON),
        lambda k, one, two: [k, one["x"], two is None],
    ),
    "reduce": (
        lambda s, _, fn: s.group_by_key().reduce(fn, store="r").to_stream().to("out", value=JSON),
        lambda old, new: new if new["x"] > old["x"] else old,
    ),
    "aggregate": (
        lambda s, _, fn: s.group_by_key().aggregate(int, fn, store="r", value=JSON).to_stream().to("out", value=JSON),
        lambda k, v, so_far: so_far * 2 + v["x"] if so_far < 1000 else 0,
    ),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
def test_an_expression_in_the_place_of_a_function(place: str) -> None:
    build, fn = PLACES[place]
    written = topology(build, fn)
    (finding,) = [each for each in examine(written) if each.kind == "expression"]
    native = eval(finding.expression, dict(NAMES))  # noqa: S307
    if place == "aggregate":
        # The initializer is unchanged.
        rewritten = topology(lambda s, _: s.group_by_key().aggregate(sf.lit(0), native, store="r", value=JSON)
                             .to_stream().to("out", value=JSON))  # fmt: skip
    else:
        rewritten = topology(build, native)
    wanted = result(written, 1)
    assert wanted
    assert result(rewritten, 1) == wanted


def test_a_missing_partner_is_reported() -> None:
    def both(one: Any, two: Any) -> Any:
        return {**one, **two}

    written = topology(lambda s, t: s.left_join(t, both).to("out", value=JSON))
    (finding,) = [each for each in examine(written) if each.kind == "expression"]
    assert finding.expression == "sf.left.merge(sf.right)"
    # The function raises if a value is missing, the expression continues with the other side.
    assert Difference.NULL in differences_of(finding)


def sessions(stream: Any) -> Any:
    return stream.group_by_key().windowed_by(sf.SessionWindows("8ms", grace="20ms"))


AGGREGATIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "sum": (lambda s, _: s.group_by_key(), (int, lambda k, v, a: a + v["x"]), "sf.sum(sf.value['x'])"),
    "sum, turned": (lambda s, _: s.group_by_key(), (lambda: 0, lambda k, v, a: v["x"] + a), "sf.sum(sf.value['x'])"),
    "count": (lambda s, _: s.group_by_key(), (lambda: 0, lambda k, v, a: a + 1), "sf.count()"),
    "list": (lambda s, _: s.group_by_key(), (list, lambda k, v, a: [*a, v["x"]]), "sf.collect(sf.value['x'])"),
    "list, joined": (lambda s, _: s.group_by_key(), (list, lambda k, v, a: a + [v["x"] + 1]),  # noqa: RUF005
                     "sf.collect(sf.value['x'] + 1)"),
    "several": (
        lambda s, _: s.group_by_key().windowed_by(sf.TimeWindows("20ms", grace="10ms")),
        (lambda: {"n": 0, "total": 0}, lambda k, v, a: {"n": a["n"] + 1, "total": a["total"] + v["x"]}),
        "sf.agg(n=sf.count(), total=sf.sum(sf.value['x']))",
    ),
    "sessions": (
        lambda s, _: sessions(s),
        (lambda: 0, lambda k, v, a: a + v["x"], lambda k, one, two: one + two),
        "sf.sum(sf.value['x'])",
    ),
    "table": (
        lambda _, t: t.group_by(lambda k, v: (v["user"], v), key=str, value=JSON),
        (lambda: 0, lambda k, v, a: a + v["x"], lambda key, value, sofar: sofar - value["x"]),
        "sf.sum(sf.value['x'])",
    ),
}  # fmt: skip


def aggregated(group: Callable[..., Any], *given: Any) -> sf.Topology:
    def build(stream: Any, table: Any) -> None:
        group(stream, table).aggregate(*given, store=sf.Materialized("kept", value=JSON)).to_stream().to(
            "out", value=JSON
        )

    return topology(build)


@pytest.mark.parametrize("name", AGGREGATIONS)
def test_an_aggregation_in_the_place_of_functions(name: str) -> None:
    group, given, text = AGGREGATIONS[name]
    written = aggregated(group, *given)
    (finding,) = [each for each in examine(written) if each.op == "aggregate" and "instead of" in each.next_step]
    assert finding.expression == text
    wanted = result(written, 2)
    assert wanted
    assert result(aggregated(group, eval(text, {"sf": sf})), 2) == wanted  # noqa: S307


@pytest.mark.parametrize(
    "given",
    [
        (lambda: 1, lambda k, v, a: a + v["x"]),
        (lambda: 0, lambda k, v, a: a - v["x"]),
        (lambda: 0, lambda k, v, a: a + a + v["x"]),
        (lambda: "", lambda k, v, a: a + v["name"]),
        (list, lambda k, v, a: [v["x"], *a]),
        (lambda: {"n": 0, "m": 0}, lambda k, v, a: {"m": a["m"] + 1, "n": a["n"] + 1}),
        (lambda: {"n": 0}, lambda k, v, a: {"n": a["n"] + 1, "m": 1}),
    ],
)
def test_other_folds_are_not_reported_as_sum_count_or_list(given: tuple[Any, ...]) -> None:
    found = examine(aggregated(lambda s, _: s.group_by_key(), *given))
    assert not any("instead of" in each.next_step for each in found)


def test_a_subtractor_or_merger_that_does_something_else() -> None:
    table = AGGREGATIONS["table"][0]
    add, other = (lambda k, v, a: a + v["x"]), (lambda k, v, a: a - v["x"] - 1)
    assert not any("instead of" in each.next_step for each in examine(aggregated(table, lambda: 0, add, other)))
    merger: Any = lambda k, one, two: one * two  # noqa: E731
    found = examine(aggregated(lambda s, _: sessions(s), lambda: 0, add, merger))
    assert not any("instead of" in each.next_step for each in found)
