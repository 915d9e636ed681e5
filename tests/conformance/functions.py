"""The functions of FUNCTIONS.md, as a user would write them, and native expressions that equal some.

Takes nothing, gives tables from the registry's names. The functions of operators that don't exist
yet are not here: the vectors that need them are listed in `not_yet.txt`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import stoatflow as sf
from stoatflow import Expression


def plain(x: Any) -> Any:
    """Give dicts and lists for what the engine may pass as a view."""
    if hasattr(x, "keys"):
        return {name: plain(x[name]) for name in x.keys()}  # noqa: SIM118  # a view promises no more
    if isinstance(x, str | bytes | int | float) or x is None:
        return x
    return [plain(item) for item in x]


def text(x: Any) -> str:
    """`str(x)` of the registry."""
    if x is None:
        return "null"
    if isinstance(x, str):
        return x
    return json.dumps(plain(x), sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def num(x: Any) -> int:
    """`num(x)` of the registry."""
    return x if isinstance(x, int) and not isinstance(x, bool) else 0


def member(v: Any, name: str) -> Any:
    """`v.name` of the registry."""
    return v.get(name) if hasattr(v, "get") else None


def first_char(v: str | None) -> str | None:
    """The first character, if there is one."""
    return v[0] if v else None


def words(v: str | None) -> list[str]:
    """Words between spaces."""
    return [] if v is None else [word for word in v.split(" ") if word]


def parse_long(v: str | None) -> int | None:
    """The number that a text spells."""
    return int(v) if v is not None and re.fullmatch(r"-?[0-9]{1,18}", v) else None


def items(k: Any, v: Any) -> list[tuple[Any, Any]]:
    """The items of an order."""
    return [
        (item.get("sku"), {"order": k, "qty": num(item.get("qty")), "sku": item.get("sku")})
        for item in plain(member(v, "items")) or []
    ]


PYTHON: dict[str, Callable[..., Any]] = {
    # predicates
    "len_gt_3": lambda k, v: v is not None and len(v) > 3,
    "starts_with_a": lambda k, v: v is not None and v.startswith("a"),
    "has_x": lambda k, v: v is not None and "x" in v,
    "value_is_null": lambda k, v: v is None,
    "key_not_null": lambda k, v: k is not None,
    "key_is_a": lambda k, v: k == "a",
    "is_even": lambda k, v: v is not None and v % 2 == 0,
    "gt_2": lambda k, v: v is not None and v > 2,
    "amount_gt_10": lambda k, v: v is not None and num(member(v, "amount")) > 10,
    "status_open": lambda k, v: v is not None and member(v, "status") == "open",
    "key_short": lambda k, v: k is not None and len(k) <= 1,
    # key and value
    "swap_kv": lambda k, v: (v, k),
    "value_to_key_one": lambda k, v: (v, 1),
    "by_first_char": lambda k, v: (first_char(v), v),
    # keys
    "value_as_key": lambda k, v: v,
    "same_key": lambda k, v: k,
    "first_char": lambda k, v: first_char(v),
    "user_of": lambda k, v: member(v, "user"),
    "region_of": lambda k, v: member(v, "region"),
    "sku_of": lambda k, v: member(v, "sku"),
    "const_all": lambda k, v: "all",
    "null_key": lambda k, v: None,
    # values
    "upper": lambda k, v: None if v is None else v.upper(),
    "text_length": lambda k, v: None if v is None else len(v),
    "prefix_key": lambda k, v: text(k) + ":" + text(v),
    "to_text": lambda k, v: None if v is None else text(v),
    "parse_long": lambda k, v: parse_long(v),
    "null_if_x": lambda k, v: None if v == "x" else v,
    "double_long": lambda k, v: None if v is None else 2 * v,
    "json_amount": lambda k, v: None if v is None else num(member(v, "amount")),
    "wrap_json": lambda k, v: {"v": v},
    # many
    "split_words": lambda k, v: words(v),
    "twice": lambda k, v: [v, v],
    "words_as_keys": lambda k, v: [(word, k) for word in words(v)],
    "both_ways": lambda k, v: [(k, v), (v, k)],
    "items_of": items,
    # actions
    "noop": lambda k, v: None,
    # aggregates
    "zero": lambda: 0,
    "empty_text": lambda: "",
    "empty_stats": lambda: {"count": 0, "sum": 0},
    "sum_long": lambda k, v, agg: agg + v,
    "sum_length": lambda k, v, agg: agg + len(v),
    "append_plus": lambda k, v, agg: text(agg) + "+" + text(v),
    "append_key_value": lambda k, v, agg: f"{text(agg)}({text(k)}={text(v)})",
    "append_or_reset": lambda k, v, agg: None if v == "x" else text(agg) + text(v),
    "stats_add": lambda k, v, agg: {"count": agg["count"] + 1, "sum": agg["sum"] + num(member(v, "amount"))},
    "sum_amount": lambda k, v, agg: agg + num(member(v, "amount")),
    "sum_qty": lambda k, v, agg: agg + num(member(v, "qty")),
    "count_events": lambda k, v, agg: agg + 1,
    "concat_values": lambda agg, v: text(agg) + "|" + text(v),
    "add_longs": lambda agg, v: agg + v,
    "max_long": max,
    "keep_last": lambda agg, v: v,
    "keep_first": lambda agg, v: agg,
    "null_on_x": lambda agg, v: None if v == "x" else text(agg) + "|" + text(v),
}

_given = ~sf.value.is_null()
NATIVE: dict[str, Expression] = {
    "len_gt_3": _given & (sf.value.len() > 3),
    "starts_with_a": _given & sf.value.str.startswith("a"),
    "has_x": _given & sf.value.str.contains("x"),
    "value_is_null": sf.value.is_null(),
    "key_not_null": ~sf.key.is_null(),
    "key_is_a": sf.key == "a",
    "is_even": _given & (sf.value % 2 == 0),
    "gt_2": _given & (sf.value > 2),
    "status_open": sf.value["status"] == "open",
    "value_as_key": sf.value,
    "same_key": sf.key,
    "user_of": sf.value["user"],
    "region_of": sf.value["region"],
    "sku_of": sf.value["sku"],
    "const_all": sf.lit("all"),
    "null_key": sf.lit(None),
    "upper": sf.value.str.upper(),
    "text_length": sf.value.len(),
    "null_if_x": sf.when(sf.value == "x").then(None).otherwise(sf.value),
    "double_long": sf.value * 2,
    "to_text": sf.value.cast("str"),
    "wrap_json": sf.obj(v=sf.value),
    "prefix_key": sf.coalesce(sf.key, "null") + ":" + sf.coalesce(sf.value, "null"),
    "split_words": sf.coalesce(sf.value, "").str.split(),
    "zero": sf.lit(0),
    "empty_text": sf.lit(""),
}
"""Equal to the functions of the same names on the inputs of the vectors (texts hold no white space but spaces)."""
