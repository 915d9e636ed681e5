"""The stores of a topology, with the facts by which they are compared.

Takes a topology, returns facts. A store's maker is the operator that writes it; its path consists of the operators from
the sources to the maker. They distinguish stores with generated names.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from stoatflow.plan.named_values import named_values
from stoatflow.upgrade.formats import SerdeFormat, layout, segment_ms, serde_format

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from stoatflow.serdes import Serde
    from stoatflow.topology import Topology

# Members of an operator that hold a running number, or a line of the user's file.
_NUMBERS = {
    "source", "sink", "store", "stores", "own", "other", "pending", "positions", "buffer", "clock", "time", "to",
    "stage", "of", "join", "line", "processor", "udf",
}  # fmt: skip
_SERDES = ("key", "value", "left_value", "right_value", "foreign")
_WRITES = ("store", "own", "pending", "positions", "buffer", "timers")
_GENERATED = re.compile(r"-\d{10}")
_PLACE = re.compile(r"^\S+:\d+ ")


@dataclass(frozen=True)
class StoreFacts:
    """What is known about a store."""

    name: str
    is_named: bool
    key: SerdeFormat
    value: SerdeFormat
    kind: Mapping[str, Any]
    is_logged: bool
    is_in_memory: bool
    is_cached: bool
    copied_topic: str | None
    """For a global table: the topic from which it is read at each start."""
    topics: tuple[str, ...]
    indexes: tuple[str, ...]
    rocksdb: Mapping[str, Any]
    """The RocksDB options of the store."""
    maker: str
    line: str | None
    times: Mapping[str, Any]
    """Sizes, grace and gaps of the maker."""
    aggregations: tuple[str, ...]
    waiting: tuple[SerdeFormat, ...]
    """For a store of pending records, whose rows are raw bytes: the formats that the maker writes into them."""
    path: tuple[str, ...]

    @property
    def is_made_of_its_table(self) -> bool:
        """Whether it is the index of the `ttl` of a table or store, which each start rebuilds."""
        return self.maker.startswith("expire")

    @property
    def layout(self) -> str:
        """What the store keeps for a key."""
        return layout(self.kind)

    @property
    def segment_ms(self) -> int | None:
        """Duration of its segments."""
        return segment_ms(self.kind)

    def changelog(self, application: str | None) -> str | None:
        """Return the name of its changelog topic."""
        return f"{application or '<application.id>'}-{self.name}-changelog" if self.is_logged else None


def stores_of(topology: Topology, *, in_memory: bool = False) -> list[StoreFacts]:
    """List a topology's stores; `in_memory`: all of them are in memory (`default.dsl.store`)."""
    plan = json.loads(topology.plan.physical_json)
    custom = topology.encoded.serdes
    whole = {topic for source in plan["sources"] if source["global"] for topic in source["topics"]}
    walk = _Walk(plan)
    found = []
    for store in plan["stores"]:
        node, role = walk.maker(store["id"])
        op = {} if node is None else node["op"]
        copied = store["source_changelog"]
        found.append(
            StoreFacts(
                name=store["name"],
                is_named=store["named"],
                key=serde_format(store["key"], custom),
                value=serde_format(store["value"], custom),
                kind=store["kind"],
                is_logged=store["logged"],
                is_in_memory=in_memory or store["in_memory"],
                is_cached=store["cached"],
                copied_topic=copied if copied in whole else None,
                topics=tuple(store["upstream_topics"]),
                indexes=tuple(json.dumps(index, sort_keys=True) for index in store.get("indexes", ())),
                rocksdb=store.get("rocksdb", {}),
                maker=f"{op.get('op', 'store')}{role}",
                line=None if node is None else node["line"],
                times=_times(op),
                aggregations=tuple(_aggregations(op)),
                waiting=_waiting(store, op, custom),
                path=() if node is None else walk.path(node),
            )
        )
    return found


class _Walk:
    """Walks from a store to its maker, and up to the sources."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self._plan = plan
        self._nodes: list[Any] = plan["nodes"]
        self._parents: dict[int, list[int]] = {}
        for node in self._nodes:
            for child in [*node["children"], *(node["op"].get("to") or [])]:
                self._parents.setdefault(child, []).append(node["id"])

    def maker(self, store: int) -> tuple[Any, str]:
        """Return the operator that writes a store, and its role there; an operator whose result it is comes first."""
        for member in _WRITES:
            for node in self._nodes:
                if node["op"].get(member) == store:
                    left = node["op"].get("left")
                    side = "" if left is None else " (left)" if left else " (right)"
                    return node, side if member in ("store", "own") else f"{side} {member}"
        for node in self._nodes:
            if store in (node["op"].get("stores") or []):
                return node, ""
        return None, ""

    def path(self, node: Any) -> tuple[str, ...]:
        """Return the operators from the sources to a node, each once, as text without numbers and lines."""
        seen: dict[int, None] = {}
        todo = [node["id"]]
        while todo:
            at = todo.pop()
            if at not in seen:
                seen[at] = None
                todo += self._parents.get(at, [])
        # An exchange only follows a change of the key; its own name is generated.
        return tuple(self._text(self._nodes[at]) for at in sorted(seen) if self._nodes[at]["op"]["op"] != "exchange")

    def _text(self, node: Any) -> str:
        op = node["op"]
        if op["op"] == "source":
            source = self._plan["sources"][op["source"]]
            return f"source {source['topics'] or source['pattern']}"
        own = "" if _GENERATED.search(node["name"]) else f" {node['name']}"
        functions = [number for number in named_values(op, "udf") if isinstance(number, int)]
        called = [_PLACE.sub("", self._plan["functions"][number]) for number in functions]
        return f"{op['op']}{own} {json.dumps(_plain(op), sort_keys=True)} {called}"


def _plain(part: Any) -> Any:
    if isinstance(part, dict):
        return {name: _plain(each) for name, each in part.items() if name not in _NUMBERS}
    return [_plain(each) for each in part] if isinstance(part, list) else part


def _times(op: Mapping[str, Any]) -> dict[str, Any]:
    own = {name: each for name, each in op.items() if name.endswith("_ms")}
    return {**(op.get("window") or {}), **(op.get("until") or {}), **own}


def _aggregations(part: Any) -> Iterator[str]:
    """Find the native aggregations of an operator, which determine the format of a store's rows."""
    if isinstance(part, dict):
        if "aggregation" in part:
            yield json.dumps(_plain(part["aggregation"]), sort_keys=True)
        for each in part.values():
            yield from _aggregations(each)
    elif isinstance(part, list):
        for each in part:
            yield from _aggregations(each)


def _waiting(store: Mapping[str, Any], op: Mapping[str, Any], custom: Sequence[Serde[Any]]) -> tuple[SerdeFormat, ...]:
    if store["kind"]["type"] not in ("time_ordered", "timers"):
        return ()
    return tuple(serde_format(op[name], custom) for name in _SERDES if op.get(name) is not None)
