"""Expressions: the JSON that `plan/src/expression.rs` reads, what they look like, what they refuse."""

from __future__ import annotations

from typing import Any

import pytest

import stoatflow as sf

v, k = sf.value, sf.key
any_value: Any = v  # what type checkers would refuse already
any_sf: Any = sf
V: dict[str, Any] = {"op": "value"}


def lit(constant: Any) -> dict[str, Any]:
    return {"op": "lit", "value": constant}


@pytest.mark.parametrize(
    ("expression", "data", "shown"),
    [
        (k, {"op": "key"}, "sf.key"),
        (sf.timestamp, {"op": "timestamp"}, "sf.timestamp"),
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
        (-v, {"op": "sub", "args": [lit(0), V]}, "0 - sf.value"),
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
def test_truth_is_refused_with_advice(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"\(a\) & \(b\)"):
        wrong()


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: "a" in v, TypeError, r"\.str\.contains\('a'\)"),
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
def test_what_is_refused(wrong: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        wrong()


def test_64_bit_edges_are_accepted() -> None:
    for number in (2**63 - 1, -(2**63)):
        assert sf.lit(number).to_json() == lit(number)
