"""Expressions: the JSON that `plan/src/expression.rs` reads, their repr, what they reject."""

from __future__ import annotations

import math
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

import stoatflow as sf
from stoatflow.expressions.windowed import RecordKey
from stoatflow.testing import TopologyTestDriver

v, k = sf.value, sf.key
any_value: Any = v  # type checkers would reject this
any_sf: Any = sf
V: dict[str, Any] = {"op": "value"}


def lit(constant: Any) -> dict[str, Any]:
    return {"op": "lit", "value": constant}


def call(function: str, *args: Any) -> dict[str, Any]:
    return {"op": "call", "args": list(args), "function": function}


@pytest.mark.parametrize(
    ("expression", "data", "shown"),
    [
        (k, {"op": "key"}, "sf.key"),
        (sf.timestamp, {"op": "timestamp"}, "sf.timestamp"),
        (k.key, call("windowed_key", {"op": "key"}), "sf.key.key"),
        (k.key["a"], {"op": "get", "args": [k.key.to_json()], "name": "a"}, "sf.key.key['a']"),
        (k.window.start, call("window_start", {"op": "key"}), "sf.key.window.start"),
        (k.window.end - 1, {"op": "sub", "args": [k.window.end.to_json(), lit(1)]}, "sf.key.window.end - 1"),
        (v["a"], {"op": "get", "args": [V], "name": "a"}, "sf.value['a']"),
        (v[-1], {"op": "at", "args": [V], "index": -1}, "sf.value[-1]"),
        (v == 1, {"op": "eq", "args": [V, lit(1)]}, "sf.value == 1"),
        (v != None, {"op": "ne", "args": [V, lit(None)]}, "sf.value != None"),  # noqa: E711
        (v < 1, {"op": "lt", "args": [V, lit(1)]}, "sf.value < 1"),
        (v <= 1.5, {"op": "le", "args": [V, lit(1.5)]}, "sf.value <= 1.5"),
        (v > "x", {"op": "gt", "args": [V, lit("x")]}, "sf.value > 'x'"),
        (v >= k, {"op": "ge", "args": [V, {"op": "key"}]}, "sf.value >= sf.key"),
        (1 < v, {"op": "gt", "args": [V, lit(1)]}, "sf.value > 1"),  # noqa: SIM300
        (v & True, {"op": "and", "args": [V, lit(True)]}, "sf.value & True"),
        (False | v, {"op": "or", "args": [lit(False), V]}, "False | sf.value"),
        (~v, {"op": "not", "args": [V]}, "~sf.value"),
        (v.is_null(), {"op": "is_null", "args": [V]}, "sf.value.is_null()"),
        (v + 1, {"op": "add", "args": [V, lit(1)]}, "sf.value + 1"),
        ("a" + v, {"op": "add", "args": [lit("a"), V]}, "'a' + sf.value"),
        (1 - v, {"op": "sub", "args": [lit(1), V]}, "1 - sf.value"),
        (v * 2, {"op": "mul", "args": [V, lit(2)]}, "sf.value * 2"),
        (v / 2, {"op": "div", "args": [V, lit(2)]}, "sf.value / 2"),
        (v // 2, {"op": "floor_div", "args": [V, lit(2)]}, "sf.value // 2"),
        (7 % v, {"op": "mod", "args": [lit(7), V]}, "7 % sf.value"),
        (-v, call("neg", V), "-sf.value"),
        (v**2, call("pow", V, lit(2)), "sf.value ** 2"),
        (2**v, call("pow", lit(2), V), "2 ** sf.value"),
        ((-v) ** 2, call("pow", call("neg", V), lit(2)), "(-sf.value) ** 2"),
        (abs(v), call("abs", V), "sf.value.abs()"),
        (round(v, 2), call("round", V, lit(2)), "sf.value.round(2)"),
        (math.floor(any_value), call("floor", V), "sf.value.floor()"),
        (v.list.sort(), call("list_sort", V, lit(False)), "sf.value.list.sort()"),
        (v.list.sort(descending=True), call("list_sort", V, lit(True)), "sf.value.list.sort(descending=True)"),
        (v.str.to_int(), call("str_to_int", V, lit(10), lit(True)), "sf.value.str.to_int()"),
        (
            v.str.to_int(2, strict=False),
            call("str_to_int", V, lit(2), lit(False)),
            "sf.value.str.to_int(2, strict=False)",
        ),
        (v.str.to_timestamp(), call("str_to_timestamp", V, lit("UTC"), lit(True)), "sf.value.str.to_timestamp()"),
        (v.clip(0), call("clip", V, lit(0), lit(None)), "sf.value.clip(0, None)"),
        (v[1:3], call("slice", V, lit(1), lit(3)), "sf.value[1:3]"),
        (v[:-1], call("slice", V, lit(None), lit(-1)), "sf.value[:-1]"),
        (v[k], call("item", V, {"op": "key"}), "sf.value[sf.key]"),
        (v.is_in(["a", "b"]), call("is_in", V, lit("a"), lit("b")), "sf.value.is_in(['a', 'b'])"),
        (v.between(1, 2), call("between", V, lit(1), lit(2)), "sf.value.between(1, 2)"),
        (v.fill_null(0), {"op": "coalesce", "args": [V, lit(0)]}, "sf.coalesce(sf.value, 0)"),
        (
            v.cast(int, strict=False),
            {"op": "cast", "args": [V], "to": "int", "strict": False},
            "sf.value.cast('int', strict=False)",
        ),
        (v.str.strip("x"), call("str_strip_chars", V, lit("x")), "sf.value.str.strip('x')"),
        (v.str.split(",", 1), call("str_split_n", V, lit(","), lit(1)), "sf.value.str.split(',', 1)"),
        (v.str.zfill(3), call("str_zfill", V, lit(3)), "sf.value.str.zfill(3)"),
        (v.list.sum(), call("list_sum", V), "sf.value.list.sum()"),
        (v.list.first(), {"op": "at", "args": [V], "index": 0}, "sf.value[0]"),
        (v.dt.hour("Asia/Tokyo"), call("dt_hour", V, lit("Asia/Tokyo")), "sf.value.dt.hour('Asia/Tokyo')"),
        (v | {"a": 1}, call("with_fields", V, lit("a"), lit(1)), "sf.value.with_fields(a=1)"),
        (v.merge(v["a"]), call("merge", V, v["a"].to_json()), "sf.value.merge(sf.value['a'])"),
        (v | sf.obj(a=1), call("with_fields", V, lit("a"), lit(1)), "sf.value.with_fields(a=1)"),
        (v.drop("a", "b"), call("drop", V, lit("a"), lit("b")), "sf.value.drop('a', 'b')"),
        (sf.least(v, 1), call("least", V, lit(1)), "sf.least(sf.value, 1)"),
        (sf.array(k, v), {"op": "array", "args": [{"op": "key"}, V]}, "sf.array(sf.key, sf.value)"),
        (sf.format("<{}>", v), call("format", lit("<"), V, lit(">")), "sf.format('<{}>', sf.value)"),
        (
            sf.format("{1}{0:.2f}", v, k),
            call("format", {"op": "key"}, call("format_number", V, lit(".2f"))),
            "sf.format('{}{:.2f}', sf.key, sf.value)",
        ),
        (v + timedelta(seconds=1), {"op": "add", "args": [V, lit(1000)]}, "sf.value + 1000"),
        (
            v > datetime(1970, 1, 2, tzinfo=timezone.utc),
            {"op": "gt", "args": [V, lit(86400000)]},
            "sf.value > 86400000",
        ),
        (v - sf.duration("5m"), {"op": "sub", "args": [V, lit(300000)]}, "sf.value - 300000"),
        (v.str.lower(), {"op": "str_lower", "args": [V]}, "sf.value.str.lower()"),
        (v.str.upper(), {"op": "str_upper", "args": [V]}, "sf.value.str.upper()"),
        (v.str.strip(), {"op": "str_strip", "args": [V]}, "sf.value.str.strip()"),
        (v.str.split(), {"op": "str_split", "args": [V], "by": None}, "sf.value.str.split()"),
        (v.str.split(","), {"op": "str_split", "args": [V], "by": ","}, "sf.value.str.split(',')"),
        (v.len(), {"op": "len", "args": [V]}, "sf.value.len()"),
        (v.str.contains("a"), {"op": "str_contains", "args": [V], "text": "a"}, "sf.value.str.contains('a')"),
        (v.str.startswith("a"), {"op": "str_starts_with", "args": [V], "text": "a"}, "sf.value.str.startswith('a')"),
        (v.str.endswith("a"), {"op": "str_ends_with", "args": [V], "text": "a"}, "sf.value.str.endswith('a')"),
        (v.cast(int), {"op": "cast", "args": [V], "to": "int"}, "sf.value.cast('int')"),
        (v.cast("json"), {"op": "cast", "args": [V], "to": "json"}, "sf.value.cast('json')"),
        (sf.coalesce(v, 0), {"op": "coalesce", "args": [V, lit(0)]}, "sf.coalesce(sf.value, 0)"),
        (
            sf.when(v > 1).then("a").otherwise(None),
            {"op": "when", "args": [{"op": "gt", "args": [V, lit(1)]}, lit("a"), lit(None)]},
            "sf.when(sf.value > 1).then('a').otherwise(None)",
        ),
        (sf.obj(a=v, b=1), {"op": "object", "args": [V, lit(1)], "names": ["a", "b"]}, "sf.obj(a=sf.value, b=1)"),
        (sf.obj(), {"op": "object", "args": [], "names": []}, "sf.obj()"),
        (sf.lit(3), lit(3), "3"),
        ((v + 1) * 2, {"op": "mul", "args": [{"op": "add", "args": [V, lit(1)]}, lit(2)]}, "(sf.value + 1) * 2"),
        (sf.lit("a").len(), {"op": "len", "args": [lit("a")]}, "sf.lit('a').len()"),
    ],
)
def test_json_and_text(expression: sf.Expression, data: dict[str, Any], shown: str) -> None:
    assert expression.to_json() == data
    assert repr(expression) == shown


@pytest.mark.parametrize("wrong", [lambda: v > 1 and v < 2, lambda: not v, lambda: 0 < v < 2, lambda: v in [1, 2]])
def test_using_an_expression_as_a_bool_is_refused_with_advice(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"\(a\) & \(b\)"):
        wrong()


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: "a" in v, TypeError, r"\.str\.contains\('a'\)"),
        (lambda: f"{v}", TypeError, r"sf\.format"),
        (lambda: f"{v:>5}", TypeError, r"sf\.format"),
        (lambda: any_value.amount, AttributeError, r"\['amount'\] for a member"),
        (lambda: any_value.key, AttributeError, r"\['key'\] for a member"),
        (lambda: any_value.window, AttributeError, r"\['window'\] for a member"),
        (lambda: v[::2], TypeError, "no step"),
        (lambda: v.is_in("ab"), TypeError, "several values"),
        (lambda: {"a": 1} | any_value, TypeError, r"sf\.obj"),
        (lambda: any_value | [1], TypeError, r"sf\.array"),
        (lambda: v.hash("md5"), ValueError, "xxh3, murmur2"),
        (lambda: v.str.rjust(3, "ab"), ValueError, "one character"),
        (lambda: v.dt.truncate("0s"), ValueError, "must not be empty"),
        (lambda: sf.format("{}"), ValueError, "nothing for {}"),
        (lambda: sf.format("{a}", b=1), ValueError, "nothing for {a}"),
        (lambda: sf.format("x", v), ValueError, "1 parts are given, 0 are used"),
        (lambda: sf.format("{!r}", v), ValueError, "not known here"),
        (lambda: sf.format("{:x}", v), ValueError, "no form of a number"),
        (lambda: v > datetime(2024, 1, 1), ValueError, "no time zone"),  # noqa: DTZ001
        (sf.least, TypeError, "at least one"),
        (lambda: list(v), TypeError, "can't be iterated"),
        (lambda: hash(v), TypeError, "unhashable"),
        (lambda: any_value[1.5], TypeError, "not float"),
        (lambda: v[True], TypeError, "not bool"),
        (lambda: any_value * [1], TypeError, "type list"),
        (lambda: any_sf.lit({"a": 1}), TypeError, r"sf\.obj"),
        (lambda: any_sf.lit(b"x"), TypeError, "type bytes"),
        (lambda: v + 2**63, ValueError, "64 bits"),
        (lambda: v[2**63], ValueError, "64 bits"),
        (lambda: v * float("nan"), ValueError, "no form"),
        (lambda: v.cast("decimal"), ValueError, "one of int, float"),
        (lambda: v.cast(bytes), ValueError, "one of int, float"),
        (lambda: v.str.split(""), ValueError, "white space"),
        (lambda: any_value.str.contains(v), TypeError, "not evaluated for each record"),
        (sf.coalesce, TypeError, "at least one"),
        (lambda: any_sf.when(True), TypeError, "takes an expression"),
    ],
)
def test_invalid_arguments_are_refused(wrong: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        wrong()


def test_several_conditions_are_evaluated_in_order() -> None:
    size = sf.when(v > 9).then("many").when(v > 1).then("some").otherwise("few")
    assert [size.evaluate(n) for n in (10, 2, 1, None)] == ["many", "some", "few", "few"]


def test_the_text_of_an_expression_can_be_evaluated_again() -> None:
    tree = sf.when(~(v["a"][-1] > -1)).then(sf.format("{:05d}", v["n"] ** 2)).otherwise(v.str.split(",", 2)[0][1:])
    again = eval(repr(tree), {"sf": sf})  # noqa: S307  # its own text
    assert again.to_json() == tree.to_json()


def test_each_part_has_its_source_line() -> None:
    import inspect

    frame = inspect.currentframe()
    assert frame is not None
    total = v["price"] * v["count"]
    line = frame.f_lineno - 1
    large = total > 100
    plan = large.to_plan()
    assert plan["op"] == "located"
    assert plan["line"] == f"tests/python/test_expressions.py:{line + 2}"
    inner: Any = plan["args"]
    assert inner[0]["args"][0]["line"] == f"tests/python/test_expressions.py:{line}"
    # Names that were written in the same line are not repeated.
    assert inner[0]["args"][0]["args"][0]["args"][0] == {"op": "get", "args": [V], "name": "price"}


def test_64_bit_edges_are_accepted() -> None:
    for number in (2**63 - 1, -(2**63)):
        assert sf.lit(number).to_json() == lit(number)


def test_the_reference_has_every_function() -> None:
    import re
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs/reference/expressions.md").read_text("utf-8")
    reported = set(re.findall(r"(?:\.|sf\.)(\w+)\(", page))
    classes: list[Any] = [sf.Expression, type(v.str), type(v.list), type(v.dt)]
    offered = {name for each in classes for name in vars(each) if not name.startswith("_")}
    # `x ** y` is listed, and so are the brackets; the others are for the plan.
    offered -= {"pow", "str", "list", "dt", "to_json", "to_plan", "reads", "is_literal", "is_pair"}
    assert offered - reported == set()
    parts = {name for each in (RecordKey, type(k.window)) for name in vars(each) if not name.startswith("_")}
    assert parts == {"key", "window", "start", "end"}
    assert "`sf.key.key`, `sf.key.window.start`, `sf.key.window.end`" in page


def test_expressions_have_a_maximum_depth() -> None:
    record = {f"f{n}": n for n in range(99)}
    total: sf.Expression = sf.lit(0)
    choice = sf.when(v["f98"] == 0).then("is 0")
    for n in range(97):
        total = total + v[f"f{n}"]
    for n in range(1, 96):
        choice = choice.when(v["f98"] == n).then(f"is {n}")
    assert total.evaluate(record) == sum(range(97))
    assert choice.otherwise("other").evaluate({"f98": 95}) == "is 95"
    assert choice.otherwise("other").evaluate(record) == "other"
    assert repr(total).endswith("+ sf.value['f96']")
    assert total.reads(v)
    lines: sf.Expression = v["n"].cast(int)
    for _ in range(48):
        # Each on its own line: that makes the plan deepest.
        lines = lines + 1
        lines = -lines
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=dict)
    stream.group_by_key().aggregate(sf.agg(n=sf.sum(lines)), store="s").to_stream().to("out")
    stream.filter(total > 0).map_values(total).to("totals")
    with TopologyTestDriver(builder.build()) as driver:
        driver.input("in", str, dict).pipe("k", record | {"n": 7})
        assert driver.output("out", str, dict).read_value() == {"n": 7}
        assert driver.output("totals", str, sf.Serdes.json()).read_value() == sum(range(97))

    def longer(e: sf.Expression) -> None:
        for _ in range(10_000):
            e = e + 1

    with pytest.raises(TypeError, match=r"test_expressions\.py:\d+: .* 100 operations .* sf\.array") as caught:
        longer(total)
    assert str(caught.traceback[1].statement).strip() == "e = e + 1"
    for _ in range(10_000):
        choice = choice.when(v == 1).then(1)
    with pytest.raises(TypeError, match="is too deep"):
        choice.otherwise(0)
