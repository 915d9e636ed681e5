"""The functions of FUNCTIONS.md, as a user would write them, and equivalent native expressions for some.

Takes nothing, defines tables by the registry's names: all of its functions except the processors, which are classes
and have their own module. Functions with a key take it first (`with_key=True` where the operator requires it): the
vectors were recorded with those forms.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import stoatflow as sf
from stoatflow import Expression


def plain(x: Any) -> Any:
    """Convert values that the engine may pass as a view to dicts and lists."""
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
    if hasattr(x, "window"):
        return f"{text(x.key)}@{x.window.start}-{x.window.end}"
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
    """The number that a text represents."""
    return int(v) if v is not None and re.fullmatch(r"-?[0-9]{1,18}", v) else None


def items(k: Any, v: Any) -> list[tuple[Any, Any]]:
    """The items of an order."""
    return [
        (item.get("sku"), {"order": k, "qty": num(item.get("qty")), "sku": item.get("sku")})
        for item in plain(member(v, "items")) or []
    ]


def average(v: Any) -> int | None:
    """The average of statistics, rounded toward zero as Java does."""
    if v is None:
        return None
    total, count = num(v["sum"]), num(v["count"])
    if count == 0:
        return 0
    rounded = abs(total) // abs(count)
    return rounded if (total < 0) == (count < 0) else -rounded


def merge_stats(k: Any, a: Any, b: Any) -> dict[str, int]:
    """Merge the statistics of two sessions."""
    return {"count": a["count"] + b["count"], "sum": a["sum"] + b["sum"]}


def stats(agg: Any, v: Any, sign: int) -> dict[str, int]:
    """Add a value to statistics, or subtract it."""
    return {"count": agg["count"] + sign, "sum": agg["sum"] + sign * num(member(v, "amount"))}


def text_fk(v: str) -> str | None:
    """The part before the first colon; an empty one is not a key."""
    return v.partition(":")[0] or None


def ts_field(record: Any, partition_time: int) -> int:
    """The timestamp in the value; a negative one makes the engine skip the record."""
    found = member(record.value, "ts")
    return int(record.timestamp if found is None else found)


def ts_field_or_partition_time(record: Any, partition_time: int) -> int:
    """The timestamp in the value; if it is missing or wrong, the highest of its partition so far."""
    found = member(record.value, "ts")
    return partition_time if found is None or found < 0 else found


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
    "by_region_amount": lambda k, v: (member(v, "region"), num(member(v, "amount"))),
    "by_region": lambda k, v: (member(v, "region"), v),
    "parity_group": lambda k, v: ("even" if v % 2 == 0 else "odd", v),
    "by_window_start": lambda k, v: (str(k.window.start), v),
    "by_inner_key": lambda k, v: (k.key, v),
    # keys
    "value_as_key": lambda k, v: v,
    "same_key": lambda k, v: k,
    "first_char": lambda k, v: first_char(v),
    "user_of": lambda k, v: member(v, "user"),
    "region_of": lambda k, v: member(v, "region"),
    "sku_of": lambda k, v: member(v, "sku"),
    "const_all": lambda k, v: "all",
    "null_key": lambda k, v: None,
    "window_key_text": lambda k, v: text(k),
    "window_inner_key": lambda k, v: k.key,
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
    "average_of_stats": lambda k, v: average(v),
    # flat maps
    "split_words": lambda k, v: words(v),
    "twice": lambda k, v: [v, v],
    "words_as_keys": lambda k, v: [(word, k) for word in words(v)],
    "both_ways": lambda k, v: [(k, v), (v, k)],
    "items_of": items,
    # actions
    "noop": lambda k, v: None,
    # initializers
    "zero": lambda: 0,
    "empty_text": lambda: "",
    "empty_stats": lambda: {"count": 0, "sum": 0},
    # aggregators
    "sum_long": lambda k, v, agg: agg + v,
    "subtract_long": lambda k, v, agg: agg - v,
    "sum_length": lambda k, v, agg: agg + len(v),
    "append_plus": lambda k, v, agg: text(agg) + "+" + text(v),
    "append_minus": lambda k, v, agg: text(agg) + "-" + text(v),
    "append_key_value": lambda k, v, agg: f"{text(agg)}({text(k)}={text(v)})",
    "append_or_reset": lambda k, v, agg: None if v == "x" else text(agg) + text(v),
    "stats_add": lambda k, v, agg: stats(agg, v, 1),
    "stats_remove": lambda k, v, agg: stats(agg, v, -1),
    "sum_amount": lambda k, v, agg: agg + num(member(v, "amount")),
    "sum_qty": lambda k, v, agg: agg + num(member(v, "qty")),
    "count_events": lambda k, v, agg: agg + 1,
    # reducers
    "concat_values": lambda agg, v: text(agg) + "|" + text(v),
    "concat_minus": lambda agg, v: text(agg) + "~" + text(v),
    "add_longs": lambda agg, v: agg + v,
    "sub_longs": lambda agg, v: agg - v,
    "max_long": max,
    "keep_last": lambda agg, v: v,
    "keep_first": lambda agg, v: agg,
    "null_on_x": lambda agg, v: None if v == "x" else text(agg) + "|" + text(v),
    # mergers of sessions
    "merge_sums": lambda k, a, b: a + b,
    "merge_texts": lambda k, a, b: f"[{text(a)}&{text(b)}]",
    "merge_stats": merge_stats,
    # joiners
    "pair_text": lambda k, left, right: f"{text(left)}/{text(right)}",
    "key_pair_text": lambda k, left, right: f"{text(k)}={text(left)}/{text(right)}",
    "pair_json": lambda k, left, right: {"l": left, "r": right},
    "null_if_right_x": lambda k, left, right: None if right == "x" else f"{text(left)}/{text(right)}",
    "sum_nullable": lambda k, left, right: (left or 0) + (right or 0),
    "enrich": lambda k, left, right: None if left is None else {**plain(left), "info": right},
    # foreign keys
    "fk_of": lambda k, v: member(v, "fk"),
    "text_fk": lambda k, v: text_fk(v),
    "key_prefix_fk": lambda k, v: k.partition("-")[0],
    # topics
    "topic_by_value": lambda k, v, context: "long-out" if v is not None and len(v) > 3 else "short-out",
    "topic_by_key": lambda k, v, context: "keyed-" + text(k),
    # timestamps
    "ts_field": ts_field,
    "ts_field_or_partition_time": ts_field_or_partition_time,
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
    "amount_gt_10": sf.coalesce(sf.value["amount"], 0) > 10,
    "status_open": sf.value["status"] == "open",
    "key_short": ~sf.key.is_null() & (sf.key.len() <= 1),
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
    "json_amount": sf.when(sf.value.is_null()).then(None).otherwise(sf.coalesce(sf.value["amount"], 0)),
    "to_text": sf.value.cast("str"),
    "wrap_json": sf.obj(v=sf.value),
    "prefix_key": sf.coalesce(sf.key, "null") + ":" + sf.coalesce(sf.value, "null"),
    "split_words": sf.coalesce(sf.value, "").str.split(),
    "zero": sf.lit(0),
    "empty_text": sf.lit(""),
}
"""Equivalent to the functions of the same names on the inputs of the vectors (whose only white space is spaces)."""
