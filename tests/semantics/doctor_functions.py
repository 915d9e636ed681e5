"""Functions as users write them, with their arguments: for the tests of the doctor."""

# ruff: noqa: PLC3002, SIM103, PLW0108  # they are written as users write them

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

LIMIT = 100
RATE = 1.5
MEMBER = "amount"
OPEN = ("new", "paid")
CLOSED = frozenset({"gone", "sent"})


def size(order: Any) -> str:
    """A text by ranges of a number."""
    n = order["n"]
    if n > 10:
        return "large"
    elif n > 5:
        return "medium"
    return "small"


def is_large(order: Any) -> bool:
    if order["n"] > 3:
        return True
    return False


def priced(order: Any) -> dict[str, Any]:
    total = order["n"] * RATE
    tax = total * 0.25
    return {**order, "total": total, "tax": tax}


def keep(key: Any, order: Any) -> Any:
    if not order.get("paid"):
        return False
    large = order["n"] > 3
    return large or key == "always"


# Of a JSON object: numbers n, amount; texts s, st, w; a list l; an object o; any type a, b.
OF_OBJECTS: list[Callable[[Any], Any]] = [
    lambda v: v,
    lambda v: v["a"],
    lambda v: v["o"]["b"],
    lambda v: v.get("a"),
    lambda v: v.get("o", {}).get("b"),
    lambda v: v.get("o", {})["b"],
    lambda v: v.get("n", 0) + 1,
    lambda v: v.get("s", "none"),
    lambda v: v.get("n") or 0,
    lambda v: v.get("s") or "none",
    lambda v: v["l"][0],
    lambda v: v["l"][-1],
    lambda v: v["s"][:3],
    lambda v: v["s"][1:-1],
    lambda v: v["l"][1:],
    lambda v: v["amount"] > LIMIT,
    lambda v: v["amount"] >= 0.5,
    lambda v: 0 < v["n"] <= 10,
    lambda v: v["a"] == v["b"],
    lambda v: v["a"] != "x",
    lambda v: v.get("a") == "x",
    lambda v: v["a"] < v["b"],
    lambda v: v["a"] is None,
    lambda v: v.get("a") is not None,
    lambda v: v["a"] == None,  # noqa: E711
    lambda v: v["st"] in OPEN,
    lambda v: v["st"] in CLOSED,
    lambda v: v["st"] not in ("new", "gone"),
    lambda v: v["a"] in [1, "x", None],
    lambda v: v["a"] in {1, "x"},
    lambda v: "er" in v["s"],
    lambda v: "er" not in v["s"],
    lambda v: 2 in v["l"],
    lambda v: "a" in v,
    lambda v: "a" not in v,
    lambda v: v["n"] + v["amount"],
    lambda v: v["a"] + v["b"],
    lambda v: v["n"] - 1,
    lambda v: 2 * v["n"],
    lambda v: v["amount"] * RATE,
    lambda v: v["a"] * v["b"],
    lambda v: v["n"] / 4,
    lambda v: v["n"] // 3,
    lambda v: v["n"] % 3 == 0,
    lambda v: v["n"] ** 2,
    lambda v: -v["n"],
    lambda v: 60 * 60 * v["n"],
    lambda v: abs(v["n"]),
    lambda v: round(v["amount"], 1),
    lambda v: round(v["amount"]),
    lambda v: math.floor(v["amount"]),
    lambda v: math.ceil(v["amount"]),
    lambda v: math.sqrt(v["n"]),
    lambda v: min(v["n"], 5),
    lambda v: max(v["n"], v["amount"], 0),
    lambda v: min(v["a"], v["b"]),
    lambda v: max(v["l"]),
    lambda v: min(v["l"]),
    lambda v: sum(v["l"]),
    lambda v: sorted(v["l"]),
    lambda v: len(v["l"]),
    lambda v: len(v["s"]) > 3,
    lambda v: int(v["s"]),
    lambda v: int(v["amount"]),
    lambda v: float(v["n"]),
    lambda v: str(v["n"]),
    lambda v: str(v["amount"] + 1),
    lambda v: bool(v["a"]),
    lambda v: v["s"].upper(),
    lambda v: v["s"].lower().split(),
    lambda v: v["s"].split(",")[0].strip(),
    lambda v: v["s"].split(",", 1),
    lambda v: v["s"].split(maxsplit=1),
    lambda v: v["s"].strip("x "),
    lambda v: v["s"].rstrip().lstrip("a"),
    lambda v: v["s"].replace("a", "b"),
    lambda v: v["s"].replace("a", v["w"], 1),
    lambda v: v["s"].startswith("a"),
    lambda v: v["s"].endswith((".csv", "b")),
    lambda v: v["s"].removeprefix("a").removesuffix("b"),
    lambda v: v["s"].find("b"),
    lambda v: v["s"].count("a"),
    lambda v: v["s"].zfill(5),
    lambda v: v["s"].ljust(5, "."),
    lambda v: v["s"].rjust(5),
    lambda v: ",".join(v["l"]),
    lambda v: "-".join(v["s"].split()),
    lambda v: "-".join([v["s"].strip(), v["w"].upper()]),
    lambda v: v["s"] + "/" + v["w"],
    lambda v: f"{v['s'].strip()}-{len(v['w'])}",
    lambda v: f"{v['a']}/{v['n']}",
    lambda v: f"{v['amount']:.2f} {v['n']:05d}",
    lambda v: "{}:{}".format(v["s"], v["n"]),
    lambda v: "{n:08.1f}".format(n=v["amount"]),
    lambda v: {"a": v["a"], "n": v["n"] + 1},
    lambda v: {**v, "a": 1, "z": v["n"]},
    lambda v: v | {"a": v["b"], "z": None},
    lambda v: {**v, **v["o"]},
    lambda v: {**v, **v.get("o")},
    lambda v: {**v["o"], **v, "z": v["n"]},
    lambda v: {**v, **{"a": v["n"]}, **v["o"]},  # noqa: PIE800
    lambda v: dict(a=v["a"], b=1),  # noqa: C408
    lambda v: dict(v, a=1),
    lambda v: [v["a"], v["b"], 1],
    lambda v: (v["a"], v["n"]),
    lambda v: "many" if v["n"] > 9 else "few",
    lambda v: v["s"] if v.get("s") else "none",
    lambda v: v["a"] if v["n"] else v["b"],
    lambda v: v["a"] and v["b"],
    lambda v: v["a"] or v["b"],
    lambda v: v["n"] > 3 and v["st"] == "new",
    lambda v: v["n"] > 3 or v["st"] != "new",
    lambda v: not v["n"] > 3,
    lambda v: not v.get("a"),
    lambda v: not v["a"],
    lambda v: (v["n"] > 3) & (v["amount"] < 5),
    lambda v: (v["n"] > 3) | (v["amount"] < 5),
    lambda v: v["a"] if v["st"] in OPEN and not v["b"] is None else v["n"],  # noqa: E714
    size,
    is_large,
    priced,
]

OF_TEXTS: list[Callable[[Any], Any]] = [
    str.upper,
    str.split,
    len,
    int,
    lambda line: line.lower().split(),
    lambda line: line.strip(),
    lambda line: line[0:2],
    lambda line: "x" in line,
    lambda line: line == "x",
    lambda line: line or "none",
    lambda line: line and line.upper(),
    lambda line: f"<{line}>",
    lambda line: line + "!",
    lambda line: {"text": line, "words": len(line.split())},
]

OF_NUMBERS: list[Callable[[Any], Any]] = [
    abs,
    float,
    lambda n: n + 1,
    lambda n: n * RATE,
    lambda n: n > LIMIT,
    lambda n: n % 2,
    lambda n: n or 1,
    lambda n: str(n),
    lambda n: {"n": n, "even": n % 2 == 0},
    lambda n: "even" if n % 2 == 0 else "odd",
]

CONDITIONS: list[Callable[[Any, Any], Any]] = [
    lambda k, v: v,
    lambda k, v: v["paid"],
    lambda k, v: v.get("paid"),
    lambda k, v: not v["paid"],
    lambda k, v: not v.get("paid"),
    lambda k, v: v["paid"] and v["n"] > 3,
    lambda k, v: v.get("paid") or v["n"] > 3,
    lambda k, v: not (v.get("paid") or v["n"] > 3),
    lambda k, v: not (v.get("paid") and v["n"] > 3),
    lambda k, v: v.get("o") and v.get("o")["b"] == 1,
    lambda k, v: v.get("l") and v.get("l")[0] == 1,
    lambda k, v: v["n"] % 2,
    lambda k, v: not v["n"] % 2,
    lambda k, v: v.get("n", 0) > 3,
    lambda k, v: len(v["l"]),
    lambda k, v: not len(v["l"]),
    lambda k, v: v["s"].strip(),
    lambda k, v: not v["s"].strip(),
    lambda k, v: v["s"].split(),
    lambda k, v: v["n"] > 3 if v["st"] == "new" and v["n"] != 5 else v["n"] < 0,
    lambda k, v: v["n"] > 3 if v["st"] == "new" else v["paid"],
    lambda k, v: "a" in v and v["a"] is not None,
    lambda k, v: v["n"] if v["st"] == "new" else v["s"].strip(),
    lambda k, v: k == "k" and v["n"] > 3,
    keep,
]

NEVER: list[Callable[[Any], Any]] = [
    lambda v: {},
    lambda v: True,
    lambda v: [x for x in v],  # noqa: C416
    lambda v: {"a": 1, **v},
    lambda v: {**v, "a": 1, **v["o"]},
    lambda v: v | v["o"],
    lambda v: v["s"].title(),
    lambda v: v.items(),
    lambda v: v["s"][::-1],
    lambda v: "%s" % v["n"],  # noqa: UP031
    lambda v: v["a"] is True,
    lambda v: ~v["n"],
    lambda v: v["n"] & 1,
    lambda v: (v["a"], v["b"]) == (1, 2),
    lambda v: f"{v['n']!r}",
    lambda v: f"{v['s']:>8}",
    lambda v: print(v),  # noqa: T201
    lambda v: isinstance(v, dict),
    lambda v: sum(v["l"], 1),
    lambda v: max(v["l"], default=0),
    lambda v: (lambda x: x)(v),
    lambda v: v.a,
    lambda v: v["l"] + [1],
    lambda v: [*v["l"], 1],
    lambda v: v["a"] in v["b"],
    lambda v: v["s"].split(v["w"]),
    lambda v: v["s"].startswith(v["w"]),
    lambda v: 1 if v["a"] else len("abc"),
]
