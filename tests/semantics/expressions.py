"""The semantics of expressions, written a second time in plain Python.

Takes the JSON form of an expression and a record as Python objects, returns the value, or raises `RefusedError`
where the engine must fail. Written from Python's own operators and methods and from
`docs/reference/expressions.md`, not from the Rust code.
"""

# ruff: noqa: C901, PLR0911, TRY301 # one line per function of the table is what can be compared
# with the reference

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MS = timedelta(milliseconds=1)


class UnspecifiedError(Exception):
    """The engine's result is not specified here.

    For example the text of a value that is no scalar, numbers without a JSON form, times before Python's calendar
    begins.
    """


class RefusedError(Exception):
    """The engine must fail with an error."""


def is_number(x: Any) -> bool:
    return isinstance(x, bool | int | float)


def checked(x: Any) -> Any:
    """Whole numbers have 64 bits."""
    if isinstance(x, int) and not isinstance(x, bool) and not -(2**63) <= x < 2**63:
        raise RefusedError("beyond 64 bits")
    return x


def number(x: Any) -> Any:
    if not is_number(x):
        raise RefusedError("no number")
    return x


def whole(x: Any) -> int:
    if not isinstance(x, int):
        raise RefusedError("no whole number")
    return int(x)


def text(x: Any) -> str:
    if not isinstance(x, str):
        raise RefusedError("no text")
    return x


def elements(x: Any) -> list[Any]:
    if not isinstance(x, list):
        raise RefusedError("no list")
    return x


def members(x: Any) -> dict[str, Any]:
    if not isinstance(x, dict):
        raise RefusedError("no object")
    return x


def condition(x: Any) -> bool | None:
    if x is not None and not isinstance(x, bool):
        raise RefusedError("no condition")
    return x


def equal(a: Any, b: Any) -> bool:
    return bool(a == b)


def comparable(a: Any, b: Any) -> None:
    if not ((is_number(a) and is_number(b)) or (isinstance(a, str) and isinstance(b, str))):
        raise RefusedError("no order")


def as_text(x: Any) -> str:
    if isinstance(x, list | dict):
        return json.dumps(x, ensure_ascii=False, separators=(",", ":"))
    return str(x)


def arithmetic(op: str, a: Any, b: Any) -> Any:
    if a is None or b is None:
        return None
    if op == "add" and isinstance(a, str) and isinstance(b, str):
        return a + b
    number(a), number(b)
    operators: dict[str, Callable[[Any, Any], Any]] = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "div": lambda a, b: a / b,
        "floor_div": lambda a, b: a // b,
        "mod": lambda a, b: a % b,
    }
    try:
        return checked(operators[op](a, b))
    except ZeroDivisionError:
        raise RefusedError("by zero") from None


def compare(op: str, a: Any, b: Any) -> Any:
    if op in ("eq", "ne"):
        return equal(a, b) is (op == "eq")
    if a is None or b is None:
        return None
    comparable(a, b)
    return {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[op]


def cast(x: Any, to: str) -> Any:
    if x is None:
        return None
    if to == "str":
        return as_text(x)
    if to == "json":
        if not isinstance(x, str):
            return x
        try:
            return checked(json.loads(x, parse_constant=lambda _: 1 / 0))
        except (ValueError, ZeroDivisionError):
            raise RefusedError("no JSON") from None
    if isinstance(x, list | dict):
        raise RefusedError("can't be converted")
    if to == "bool":
        if isinstance(x, str):
            if x.strip().lower() in ("true", "false"):
                return x.strip().lower() == "true"
            raise RefusedError("neither true nor false")
        return bool(x)
    if isinstance(x, str) and not x.isascii():
        # Digits of other scripts are not converted.
        stripped = x.strip()
        if not stripped.isascii():
            raise RefusedError("no number")
    try:
        return checked({"int": int, "float": float}[to](x))
    except (ValueError, OverflowError):
        raise RefusedError("no number") from None


class Evaluator:
    """An expression over one record."""

    def __init__(self, value: Any, key: Any = None, timestamp: int = 0) -> None:
        self.leaves = {"value": value, "key": key, "timestamp": timestamp}

    def __call__(self, e: dict[str, Any]) -> Any:
        op = e["op"]
        if op in self.leaves:
            return self.leaves[op]
        if op == "lit":
            return e["value"]
        if op == "located":
            return self(e["args"][0])
        special = getattr(self, "op_" + op, None)
        if special is not None:
            return special(e, e["args"])
        args = [self(arg) for arg in e["args"]]
        if op == "call":
            return self.call(e["function"], args, e["args"])
        if op in ("eq", "ne", "lt", "le", "gt", "ge"):
            return compare(op, *args)
        if op in ("add", "sub", "mul", "div", "floor_div", "mod"):
            return arithmetic(op, *args)
        if op == "is_null":
            return args[0] is None
        if op == "array":
            return args
        if op == "object":
            return dict(zip(e["names"], args, strict=True))
        if args[0] is None:
            return None
        return self.method(op, args[0], e)

    def method(self, op: str, of: Any, e: dict[str, Any]) -> Any:
        if op == "get":
            return members(of).get(e["name"])
        if op == "at":
            items, at = elements(of), e["index"]
            return items[at] if -len(items) <= at < len(items) else None
        if op == "len":
            if not isinstance(of, str | list | dict):
                raise RefusedError("no length")
            return len(of)
        methods: dict[str, Callable[[str], Any]] = {
            "str_lower": str.lower,
            "str_upper": str.upper,
            "str_strip": str.strip,
            "str_split": lambda s: s.split(e["by"]),
            "str_contains": lambda s: e["text"] in s,
            "str_starts_with": lambda s: s.startswith(e["text"]),
            "str_ends_with": lambda s: s.endswith(e["text"]),
        }
        return methods[op](text(of))

    def op_and(self, _: Any, args: list[Any]) -> Any:
        left = condition(self(args[0]))
        if left is False:
            return False
        right = condition(self(args[1]))
        return right if left is True else False if right is False else None

    def op_or(self, _: Any, args: list[Any]) -> Any:
        left = condition(self(args[0]))
        if left is True:
            return True
        right = condition(self(args[1]))
        return right if left is False else True if right is True else None

    def op_not(self, _: Any, args: list[Any]) -> Any:
        of = condition(self(args[0]))
        return None if of is None else not of

    def op_when(self, _: Any, args: list[Any]) -> Any:
        return self(args[1] if condition(self(args[0])) else args[2])

    def op_coalesce(self, _: Any, args: list[Any]) -> Any:
        for arg in args:
            found = self(arg)
            if found is not None:
                return found
        return None

    def op_cast(self, e: Any, args: list[Any]) -> Any:
        of = self(args[0])
        try:
            return cast(of, e["to"])
        except RefusedError:
            if e.get("strict", True):
                raise
            return None

    # Functions of the table --------------------------------------------------------------

    def call(self, name: str, args: list[Any], given: list[Any]) -> Any:
        function = getattr(self, "f_" + name, None) or FUNCTIONS[name]
        nulls_matter = {"is_in": 0, "least": 0, "greatest": 0, "with_fields": 1, "merge": 0, "list_contains": 1}
        strict = nulls_matter.get(name, len(args))
        for arg, source in list(zip(args, given, strict=True))[:strict]:
            # A literal null means "none", not "unknown".
            if arg is None and source != {"op": "lit", "value": None}:
                return None
        if args and strict and args[0] is None:
            return None
        return function(*args)

    def f_is_in(self, of: Any, *options: Any) -> bool:
        return any(equal(of, option) for option in options)

    def f_with_fields(self, of: Any, *pairs: Any) -> Any:
        return {**members(of), **dict(zip(pairs[::2], pairs[1::2], strict=True))}

    def f_merge(self, first: Any, second: Any) -> Any:
        both = [members(side) for side in (first, second) if side is not None]
        return {name: content for side in both for name, content in side.items()} if both else None

    def f_drop(self, of: Any, *names: str) -> Any:
        return {name: content for name, content in members(of).items() if name not in names}


def extreme(items: list[Any], pick: Callable[[list[Any]], Any]) -> Any:
    known = [item for item in items if item is not None]
    for item in known:
        comparable(known[0], item)
    return pick(known) if known else None


def power(a: Any, b: Any) -> Any:
    number(a), number(b)
    try:
        result = a**b
    except (ZeroDivisionError, OverflowError):
        raise RefusedError("no power") from None
    if isinstance(result, complex):
        raise RefusedError("no real number")
    return checked(result)


def rounded(x: Any, digits: Any = None) -> Any:
    try:
        return checked(round(number(x), digits) if digits is not None else round(number(x)))
    except OverflowError:
        raise RefusedError("infinite") from None


def floor(x: Any) -> Any:
    try:
        return checked(math.floor(number(x)))
    except OverflowError:
        raise RefusedError("infinite") from None


def ceil(x: Any) -> Any:
    try:
        return checked(math.ceil(number(x)))
    except OverflowError:
        raise RefusedError("infinite") from None


def root(x: Any) -> Any:
    if number(x) < 0:
        raise RefusedError("negative")
    return math.sqrt(x)


def clip(x: Any, low: Any, high: Any) -> Any:
    number(x)
    if low is not None:
        comparable(x, low)
        if x < low:
            return low
    if high is not None:
        comparable(x, high)
        if x > high:
            return high
    return x


def between(x: Any, low: Any, high: Any) -> bool:
    comparable(x, low)
    comparable(x, high)
    return bool(low <= x <= high)


def cut(x: Any, start: Any, stop: Any) -> Any:
    bounds = slice(*(None if bound is None else whole(bound) for bound in (start, stop)))
    return x[bounds] if isinstance(x, str) else elements(x)[bounds]


def item(x: Any, which: Any) -> Any:
    if isinstance(which, str):
        return members(x).get(which)
    if isinstance(which, bool) or not isinstance(which, int):
        raise RefusedError("neither index nor name")
    return elements(x)[which] if -len(elements(x)) <= which < len(x) else None


def to_int(x: Any, base: int, strict: bool) -> Any:
    try:
        if not text(x).strip().isascii():
            raise ValueError
        return checked(int(x, base))
    except (ValueError, RefusedError):
        if strict or not isinstance(x, str):
            raise RefusedError("no whole number") from None
        return None


def total(x: Any) -> Any:
    so_far: Any = 0
    for element in elements(x):
        if element is not None:
            so_far = arithmetic("add", so_far, number(element))
    return so_far


def mean(x: Any) -> Any:
    count = sum(element is not None for element in elements(x))
    so_far = total(x)
    return so_far / count if count else None


def put_in_order(x: Any, descending: bool) -> Any:
    known = [element for element in elements(x) if element is not None]
    for element in known:
        comparable(known[0], element)
    return [None] * (len(x) - len(known)) + sorted(known, reverse=descending)


def each_once(x: Any) -> Any:
    kept: list[Any] = []
    for element in elements(x):
        if not any(equal(element, other) for other in kept):
            kept.append(element)
    return kept


def at(ms: Any, tz: str) -> datetime:
    try:
        return (EPOCH + whole(ms) * MS).astimezone(ZoneInfo(tz))
    except OverflowError:
        if whole(ms) < 0:  # Python's calendar begins with the year 1, the engine's before that
            raise UnspecifiedError from None
        raise RefusedError("outside of the calendar") from None


def truncate(ms: Any, span: int, tz: str) -> Any:
    read = at(ms, tz).replace(tzinfo=None, fold=0)
    floored = read - (read - datetime(1970, 1, 1)) % (span * MS)  # noqa: DTZ001  # what the clocks of the zone read
    first, second = ((floored.replace(tzinfo=ZoneInfo(tz), fold=fold) - EPOCH) // MS for fold in (0, 1))
    # A local time that occurs twice is read as the first one. A skipped local time never occurs: it is
    # shifted by the gap.
    again = at(second, tz).replace(tzinfo=None, fold=0) == floored and second <= ms
    return second if again else first


def iso(ms: Any, tz: str) -> str:
    shown = at(ms, tz).isoformat(timespec="milliseconds")
    return shown.removesuffix("+00:00") + "Z" if tz == "UTC" else shown


def parsed(x: Any, tz: str, strict: bool) -> Any:
    try:
        time = datetime.fromisoformat(text(x))
    except ValueError:
        if strict:
            raise RefusedError("no time") from None
        return None
    return ((time if time.tzinfo else time.replace(tzinfo=ZoneInfo(tz))) - EPOCH) // MS


def formed(x: Any, form: str) -> str:
    if form.endswith("d") and isinstance(number(x), float):
        raise RefusedError("no whole number")
    return format(number(x), form)


def extracted(x: Any, pattern: str, group: Any) -> Any:
    found = re.search(pattern, text(x))
    return found.group(group) if found else None


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "neg": lambda x: checked(-number(x)),
    "abs": lambda x: checked(abs(number(x))),
    "round": rounded,
    "floor": floor,
    "ceil": ceil,
    "sqrt": root,
    "pow": power,
    "clip": clip,
    "least": lambda *x: extreme(list(x), min),
    "greatest": lambda *x: extreme(list(x), max),
    "between": between,
    "slice": cut,
    "item": item,
    "str_strip_chars": lambda x, chars: text(x).strip(text(chars)),
    "str_lstrip": lambda x, *chars: text(x).lstrip(*(text(c) for c in chars)),
    "str_rstrip": lambda x, *chars: text(x).rstrip(*(text(c) for c in chars)),
    "str_replace": lambda x, old, new, count: text(x).replace(text(old), text(new), whole(count)),
    "str_removeprefix": lambda x, what: text(x).removeprefix(text(what)),
    "str_removesuffix": lambda x, what: text(x).removesuffix(text(what)),
    "str_zfill": lambda x, width: text(x).zfill(whole(width)),
    "str_ljust": lambda x, width, fill: text(x).ljust(whole(width), fill),
    "str_rjust": lambda x, width, fill: text(x).rjust(whole(width), fill),
    "str_find": lambda x, what: text(x).find(text(what)),
    "str_count": lambda x, what: text(x).count(text(what)),
    "str_split_n": lambda x, by, n: text(x).split(by, n),
    "str_to_int": to_int,
    "str_matches": lambda x, pattern: re.search(pattern, text(x)) is not None,
    "str_extract": extracted,
    "str_extract_all": lambda x, pattern, group: [m.group(group) for m in re.finditer(pattern, text(x))],
    "str_replace_regex": lambda x, pattern, by: re.sub(pattern, by, text(x)),
    "str_to_timestamp": parsed,
    "format": lambda *parts: "".join(as_text(part) for part in parts),
    "format_number": formed,
    "list_contains": lambda x, wanted: any(equal(element, wanted) for element in elements(x)),
    "list_sum": total,
    "list_mean": mean,
    "list_min": lambda x: extreme(elements(x), min),
    "list_max": lambda x: extreme(elements(x), max),
    "list_join": lambda x, between: text(between).join(text(element) for element in elements(x)),
    "list_sort": put_in_order,
    "list_unique": each_once,
    "list_reverse": lambda x: elements(x)[::-1],
    "keys": lambda x: list(members(x)),
    "values": lambda x: list(members(x).values()),
    "has": lambda x, name: text(name) in members(x),
    "dt_truncate": truncate,
    "dt_year": lambda ms, tz: at(ms, tz).year,
    "dt_month": lambda ms, tz: at(ms, tz).month,
    "dt_day": lambda ms, tz: at(ms, tz).day,
    "dt_hour": lambda ms, tz: at(ms, tz).hour,
    "dt_minute": lambda ms, tz: at(ms, tz).minute,
    "dt_second": lambda ms, tz: at(ms, tz).second,
    "dt_millisecond": lambda ms, tz: at(ms, tz).microsecond // 1000,
    "dt_weekday": lambda ms, tz: at(ms, tz).weekday(),
    "dt_date": lambda ms, tz: at(ms, tz).date().isoformat(),
    "dt_iso": iso,
    "dt_strftime": lambda ms, form, tz: at(ms, tz).strftime(form),
}
