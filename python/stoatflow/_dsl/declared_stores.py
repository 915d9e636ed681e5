"""Stores that are declared for processors, as nodes of a plan.

Takes a `StoreBuilder` and adds its node. Two different stores with one name are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from typing import TYPE_CHECKING, Any

from stoatflow._dsl.row_ttl import expiry_spec
from stoatflow.errors import TopologyError
from stoatflow.expressions import Expression
from stoatflow.handlers import handler
from stoatflow.indexes import index_specs
from stoatflow.plan import PlanBuilder, nodes
from stoatflow.plan.specs import ExpirySpec, RocksDBSpec
from stoatflow.rocksdb_config import rocksdb_spec
from stoatflow.serdes import resolve
from stoatflow.stores import StoreBuilder

if TYPE_CHECKING:
    from stoatflow.expressions import Expression
    from stoatflow.materialized import Consumed


def _node(store: StoreBuilder[Any, Any], line: str | None) -> nodes.StateStore:
    return nodes.StateStore(
        line=line,
        store=store.name,
        kind=store.kind,
        key=resolve(store.key),
        value=resolve(store.value),
        logged=store.logging is not False,
        in_memory=store.in_memory,
        topic=dict(store.logging) if isinstance(store.logging, Mapping) else {},
        indexes=index_specs(store.indexes, "Stores", line or ""),
        rocksdb=_rocksdb(store, line),
        expiry=expiry_spec((store.ttl, store.ttl_time, False), "Stores", line, forwards=False),
        headers=store.headers,
    )


def _rocksdb(store: StoreBuilder[Any, Any], line: str | None) -> RocksDBSpec | None:
    return rocksdb_spec(store.rocksdb, store.name, "Stores(rocksdb=)", line or "")


def _checked(store: object, method: str, line: str) -> StoreBuilder[Any, Any]:
    if not isinstance(store, StoreBuilder):
        raise TopologyError(
            f"{line} {method} needs a store from Stores, not {store!r}",
            next_step=f'write {method}(Stores.persistent_key_value("totals", key=str, value=int))',
        )
    return store


def add_store(plan: PlanBuilder, store: StoreBuilder[Any, Any], line: str) -> None:
    """Add a store to a plan."""
    plan.add(_node(_checked(store, "add_state_store", line), line))


def add_store_once(plan: PlanBuilder, store: StoreBuilder[Any, Any], line: str) -> None:
    """Add a store that a processor brings along, unless the plan has it: several processors may bring the same one."""
    wanted = _node(store, line)
    for node in plan.snapshot():
        if isinstance(node, nodes.StateStore) and node.store == wanted.store:
            if _content(node) != _content(wanted):
                raise TopologyError(
                    f"{line} two different stores are named '{wanted.store}' (the other one: {node.line})",
                    next_step="give each store its own name, or bring the same StoreBuilder along",
                )
            return
    plan.add(wanted)


def _content(node: nodes.StateStore) -> tuple[object, ...]:
    kind = node.kind
    shape = (kind.type, kind.retention_ms, kind.size_ms, kind.history_ms, kind.duplicates, kind.timestamped)
    indexes = [(i.name, _texts(i.fields), i.unique, i.each, _texts(i.storing)) for i in node.indexes]
    rocksdb = None if node.rocksdb is None else astuple(node.rocksdb)
    serdes = (_serde(node.key), _serde(node.value))
    expiry = None if node.expiry is None else _expiry(node.expiry)
    options = (node.logged, node.in_memory, dict(node.topic), node.headers)
    return (shape, *serdes, *options, indexes, rocksdb, expiry)


def _expiry(expiry: ExpirySpec) -> tuple[object, ...]:
    ttl = expiry.ttl
    return (ttl.to_json() if isinstance(ttl, Expression) else dict(ttl), expiry.clock)


def _texts(expressions: tuple[Expression, ...]) -> list[object]:
    return [expression.to_json() for expression in expressions]


def _serde(serde: Any) -> object:
    # A built-in serde may be a new object for each builder; a user's is the object itself.
    return serde.name if type(serde).__module__.startswith("stoatflow.") else id(serde)


def add_global_store(
    plan: PlanBuilder,
    store: StoreBuilder[Any, Any],
    topic: str,
    supplier: object,
    how: Consumed[Any, Any],
    line: str,
) -> None:
    """Add a global store: a processor keeps it from a topic."""
    from stoatflow.materialized import timestamp_spec
    from stoatflow.processor import supplied

    if how.watermark is not None:
        raise TopologyError(
            f"{line} add_global_store: its records are no part of event time", next_step="leave watermark= out"
        )
    checked = _checked(store, "add_global_store", line)
    if checked.ttl is not None:
        raise TopologyError(
            f"{line} add_global_store: the global store '{checked.name}' has no ttl: its content is that of its topic",
            next_step="leave ttl= out; a retention.ms of the topic limits how long its records are kept",
        )
    if checked.headers:
        raise TopologyError(
            f"{line} add_global_store: the global store '{checked.name}' keeps no headers",
            next_step="leave headers=True out: its processor reads the headers of each record",
        )
    # Resolved against an empty plan: the processor may name the global store, which must not become a
    # second node.
    ref, connected = supplied(PlanBuilder(), supplier, (), "add_global_store", line)
    if others := [name for name in connected if name != checked.name]:
        raise TopologyError(
            f"{line} add_global_store: {ref.display} names the store '{others[0]}', but can use '{checked.name}' only",
            next_step="leave other stores out; what needs them is a processor of its own, behind stream(...).process",
        )
    plan.add(
        nodes.GlobalStore(
            line=line,
            name=how.name,
            on_error=handler(how.on_error, "add_global_store", line),
            store=checked.name,
            kind=checked.kind,
            topic=topic,
            key=resolve(how.key),
            value=resolve(how.value),
            processor=ref,
            timestamp=timestamp_spec(how.timestamp, "add_global_store", line),
            rocksdb=_rocksdb(checked, line),
        )
    )
