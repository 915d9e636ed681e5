"""The StoatFlow side: each workload as a topology, in its flavours.

Takes a workload, a flavour, topics; returns a topology, or the reason why this StoatFlow cannot build it. Written as a
user would. Imports nothing that is installed only for measuring: this is the measured process.

`native` uses only expressions, `lambda` only plain Python functions, `arrow` functions of batches wherever possible,
otherwise the usual operators with expressions.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, NamedTuple

import stoatflow_shop

import stoatflow as sf

LEAST = 20
# Members of newer versions: a static name would not type-check with older ones.
_new: Any = sf


class Topics(NamedTuple):
    """Input topics, which of them is counted, and output topics."""

    inputs: list[str]
    outputs: list[str]

    @property
    def output(self) -> str:
        """The only output topic."""
        (only,) = self.outputs
        return only


def filter_native(builder: sf.StreamsBuilder, at: Topics) -> None:
    """W1 with expressions."""
    order = sf.value
    (
        builder.stream(at.inputs[0], value=dict)
        .filter(order["amount"] >= LEAST)
        .map_values(
            sf.obj(
                id=order["id"],
                user=order["user"].str.upper(),
                amount=order["amount"],
                ts=order["ts"],
                pad=order["pad"],
            )
        )
        .to(at.output, value=dict)
    )


def filter_lambda(builder: sf.StreamsBuilder, at: Topics) -> None:
    """W1 with functions."""
    (
        builder.stream(at.inputs[0], value=dict)
        .filter(lambda _, order: order["amount"] >= LEAST)
        .map_values(lambda order: {**order, "user": order["user"].upper()})
        .to(at.output, value=dict)
    )


def filter_arrow(builder: sf.StreamsBuilder, at: Topics) -> None:
    """W1 with functions of batches."""
    pa, pc = _arrow()
    number, text = pa.int64(), pa.string()
    schema = pa.schema([("id", number), ("user", text), ("amount", number), ("ts", number), ("pad", text)])

    def kept(batch: Any) -> Any:
        rows = batch.filter(pc.greater_equal(batch["amount"], LEAST))
        at_user = rows.schema.get_field_index("user")
        return rows.set_column(at_user, "user", pc.utf8_upper(rows["user"]))

    stream: Any = builder.stream(at.inputs[0], value=dict)
    stream.map_batches(kept, schema=schema).to(at.output, value=dict)


def _arrow() -> tuple[Any, Any]:
    """Import pyarrow, an extra that the other flavours don't need."""
    return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.compute")


def count_native(builder: sf.StreamsBuilder, at: Topics) -> None:
    """W2 with expressions."""
    _count(_lines(builder, at).flat_map_values(sf.value.str.lower().str.split()), sf.value, at)


def count_lambda(builder: sf.StreamsBuilder, at: Topics) -> None:
    """W2 with functions."""
    _count(_lines(builder, at).flat_map_values(lambda line: line.lower().split()), lambda _, word: word, at)


def count_arrow(builder: sf.StreamsBuilder, at: Topics) -> None:
    """W2 with a function of batches that splits lines into words."""
    pa, pc = _arrow()

    def words(batch: Any) -> Any:
        split = pc.utf8_split_whitespace(pc.utf8_lower(batch["value"]))
        return pa.record_batch({"value": pc.list_flatten(split), "_row": pc.list_parent_indices(split)})

    lines: Any = _lines(builder, at)
    _count(lines.map_batches(words, schema=pa.schema([("value", pa.string())])), sf.value, at)


def _lines(builder: sf.StreamsBuilder, at: Topics) -> sf.KStream[bytes, str]:
    return builder.stream(at.inputs[0], key=bytes, value=str)


def _count(words: sf.KStream[Any, str], word: Any, at: Topics) -> None:
    counts = words.group_by(word, key=str, value=str).count(store="counts")
    counts.to_stream().to(at.output, key=str, value=int)


def sum_native(builder: sf.StreamsBuilder, at: Topics) -> None:
    """W3 with a native aggregation."""
    _sum(_by_user(builder, at), at, _new.sum(sf.value["amount"]))


def sum_lambda(builder: sf.StreamsBuilder, at: Topics) -> None:
    """W3 with functions."""
    _sum(_by_user(builder, at), at, lambda: 0, lambda _, payment, total: total + payment["amount"])


def sum_arrow(builder: sf.StreamsBuilder, at: Topics) -> None:
    """W3 with a function of batches that selects the amount."""
    _sum(_amounts(_by_user(builder, at), "amount"), at, _new.sum(sf.value["amount"]))


def _amounts(stream: sf.KStream[str, Any], member: str) -> sf.KStream[str, Any]:
    """Select one member, an integer."""
    pa, _ = _arrow()

    def picked(batch: Any) -> Any:
        return batch.select([member])

    batches: sf.KStream[str, Any] = stream.map_batches(picked, schema=pa.schema([(member, pa.int64())]))
    return batches


def _by_user(builder: sf.StreamsBuilder, at: Topics) -> sf.KStream[str, Any]:
    return builder.stream(at.inputs[0], key=str, value=dict)


def _sum(payments: sf.KStream[str, Any], at: Topics, *how: Any) -> None:
    windowed: Any = payments.group_by_key().windowed_by(sf.TimeWindows("1m", grace="30s"))
    windowed.aggregate(*how, store="sums", value=int).to_stream().to(at.output)


def join_native(builder: sf.StreamsBuilder, at: Topics) -> None:
    """W4 with an expression over both sides."""
    order, profile = _new.left, _new.right
    joined = sf.obj(
        id=order["id"], user=order["user"], amount=order["amount"], name=profile["name"], city=profile["city"]
    )
    _join(builder, at, joined)


def join_lambda(builder: sf.StreamsBuilder, at: Topics) -> None:
    """W4 with a function."""
    _join(builder, at, lambda order, profile: {**order, "name": profile["name"], "city": profile["city"]})


def join_arrow(builder: sf.StreamsBuilder, at: Topics) -> None:
    """W4 with a function of batches that selects members of an order, before the join: tables have no batches."""
    pa, _ = _arrow()
    schema = pa.schema([("id", pa.int64()), ("user", pa.string()), ("amount", pa.int64())])

    def picked(batch: Any) -> Any:
        return batch.select(schema.names)

    joined = _new.left | {"name": _new.right["name"], "city": _new.right["city"]}
    _join(builder, at, joined, lambda orders: orders.map_batches(picked, schema=schema))


def _join(
    builder: sf.StreamsBuilder, at: Topics, joiner: Any, before: Callable[[Any], Any] = lambda orders: orders
) -> None:
    orders, profiles = at.inputs
    table = builder.table(profiles, key=str, value=dict, store="profiles")
    stream = before(builder.stream(orders, key=str, value=dict))
    stream.join(table, joiner).to(at.output, key=str, value=dict)


def sessions_native(builder: sf.StreamsBuilder, at: Topics) -> None:
    """W5 with a native aggregation."""
    _sessions(_by_user(builder, at), at, _new.agg(n=_new.count(), spent=_new.sum(sf.value["spent"])))


def sessions_lambda(builder: sf.StreamsBuilder, at: Topics) -> None:
    """W5 with functions."""
    _sessions(
        _by_user(builder, at),
        at,
        lambda: {"n": 0, "spent": 0},
        lambda _, click, session: {"n": session["n"] + 1, "spent": session["spent"] + click["spent"]},
        lambda _, one, two: {"n": one["n"] + two["n"], "spent": one["spent"] + two["spent"]},
    )


def sessions_arrow(builder: sf.StreamsBuilder, at: Topics) -> None:
    """W5 with a function of batches that selects the amount."""
    clicks = _amounts(_by_user(builder, at), "spent")
    _sessions(clicks, at, _new.agg(n=_new.count(), spent=_new.sum(sf.value["spent"])))


def _sessions(clicks: sf.KStream[str, Any], at: Topics, *how: Any) -> None:
    windowed: Any = clicks.group_by_key().windowed_by(sf.SessionWindows("10s", grace="30s"))
    windowed.aggregate(*how, store="sessions", value=dict).to_stream().to(at.output)


def shop_native(builder: sf.StreamsBuilder, at: Topics) -> None:
    """W7 with expressions."""
    stoatflow_shop.shop_native(builder, stoatflow_shop.Topics(*at.inputs, *at.outputs))


def shop_lambda(builder: sf.StreamsBuilder, at: Topics) -> None:
    """W7 with functions."""
    stoatflow_shop.shop_lambda(builder, stoatflow_shop.Topics(*at.inputs, *at.outputs))


def shop_arrow(builder: sf.StreamsBuilder, at: Topics) -> None:
    """W7 with functions of batches."""
    pa, _ = _arrow()
    stoatflow_shop.shop_arrow(builder, stoatflow_shop.Topics(*at.inputs, *at.outputs), pa)


Program = Callable[[sf.StreamsBuilder, Topics], None]

PROGRAMS: dict[tuple[str, str], Program] = {
    ("w1", "native"): filter_native,
    ("w1", "lambda"): filter_lambda,
    ("w1", "arrow"): filter_arrow,
    ("w2", "native"): count_native,
    ("w2", "lambda"): count_lambda,
    ("w2", "arrow"): count_arrow,
    ("w3", "native"): sum_native,
    ("w3", "lambda"): sum_lambda,
    ("w3", "arrow"): sum_arrow,
    ("w4", "native"): join_native,
    ("w4", "lambda"): join_lambda,
    ("w4", "arrow"): join_arrow,
    ("w5", "native"): sessions_native,
    ("w5", "lambda"): sessions_lambda,
    ("w5", "arrow"): sessions_arrow,
    ("w7", "native"): shop_native,
    ("w7", "lambda"): shop_lambda,
    ("w7", "arrow"): shop_arrow,
}


# Features of newer versions, by the programs that use them.
NEEDS = {
    ("w3", "native"): ["sum"],
    ("w3", "arrow"): ["sum"],
    ("w4", "native"): ["left", "right"],
    ("w4", "arrow"): ["left", "right"],
    ("w5", "native"): ["agg", "count", "sum"],
    ("w5", "arrow"): ["agg", "count", "sum"],
    ("w7", "native"): ["agg", "count", "last", "left", "right", "sum"],
    ("w7", "arrow"): ["agg", "count", "last", "left", "right", "sum"],
}


def why_not(workload: str, flavour: str) -> str | None:
    """What this installation lacks for it, as text; `None` if nothing."""
    if (workload, flavour) not in PROGRAMS:
        return f"there is no program for {workload} in the flavour {flavour}"
    needs = NEEDS.get((workload, flavour), [])
    missing = [f"sf.{name}" for name in needs if not hasattr(sf, name)]
    if flavour == "arrow":
        missing += [] if hasattr(sf.KStream, "map_batches") else ["KStream.map_batches"]
        missing += [] if importlib.util.find_spec("pyarrow") else ["pyarrow"]
    return f"this StoatFlow ({sf.__version__}) has no {', no '.join(missing)}" if missing else None


def topology(workload: str, flavour: str, at: Topics) -> sf.Topology:
    """The job as a user would write it."""
    builder = sf.StreamsBuilder()
    PROGRAMS[workload, flavour](builder, at)
    return builder.build()
