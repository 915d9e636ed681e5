"""Encodes frozen nodes as the JSON that `plan/src/logical.rs` decodes, and the tables beside it.

Takes nodes, returns bytes, callables, their names and custom serdes. Never drops a field silently: a field that can't
be encoded is a bug, and raises.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

from stoatflow.aggregations import Aggregation
from stoatflow.asynchronous import Awaiting
from stoatflow.errors import TopologyError
from stoatflow.expressions import Expression
from stoatflow.handlers import ErrorHandler
from stoatflow.plan.annotations import returned
from stoatflow.plan.node_base import LateFunction, Node, ProcessorRef, TimestampFunction, Udf
from stoatflow.plan.settings import NO_PLAN_SETTINGS, PlanSettings
from stoatflow.plan.specs import Spec
from stoatflow.serdes import (
    AvroSerde,
    BuiltinSerde,
    JsonSchemaSerde,
    ProtobufSerde,
    Serde,
    SessionWindowedSerde,
    TimeWindowedSerde,
)

VERSION = 1


@dataclass(frozen=True, slots=True)
class EncodedPlan:
    """A plan as it is passed to the engine."""

    data: dict[str, Any]
    functions: tuple[Callable[..., Any], ...]
    serdes: tuple[Serde[Any], ...]
    processors: tuple[Callable[[], Any], ...] = ()
    function_uses: tuple[tuple[int, str], ...] = ()
    """For each function, the node and the field that refer to it first."""
    processor_uses: tuple[int, ...] = ()
    """For each processor, its node."""

    @property
    def json(self) -> str:
        """The plan as text."""
        return json.dumps(self.data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))

    @property
    def function_names(self) -> list[str]:
        """Names of the functions, in order."""
        names: list[str] = self.data["functions"]
        return names

    @property
    def processor_names(self) -> list[str]:
        """Names of the processors, in order."""
        names: list[str] = self.data["processors"]
        return names


class _Tables:
    def __init__(self, *, shared: bool, defaults: PlanSettings) -> None:
        self.shared = shared
        self.defaults = defaults
        self.at = (0, "")
        self.line: str | None = None
        self.function_uses: list[tuple[int, str]] = []
        self.processor_uses: list[int] = []
        self.functions: list[Callable[..., Any]] = []
        self.names: list[str] = []
        self.serdes: list[Serde[Any]] = []
        self.processors: list[ProcessorRef] = []

    def function(self, udf: Udf) -> int:
        for index, (call, name) in enumerate(zip(self.functions, self.names, strict=True)):
            if self.shared and call is udf.call and name == udf.display:
                return index
        self.function_uses.append(self.at)
        self.functions.append(udf.call)
        self.names.append(udf.display)
        return len(self.functions) - 1

    def processor(self, processor: ProcessorRef) -> int:
        self.processor_uses.append(self.at[0])
        self.processors.append(processor)
        return len(self.processors) - 1

    def serde(self, serde: Serde[Any]) -> object:
        serde = self.defaults.resolved(serde)
        if isinstance(serde, BuiltinSerde):
            return serde.name
        if isinstance(serde, TimeWindowedSerde):
            return {"time_windowed": self.serde(serde.inner), "size_ms": serde.size_ms}
        if isinstance(serde, SessionWindowedSerde):
            return {"session_windowed": self.serde(serde.inner)}
        if isinstance(serde, AvroSerde | ProtobufSerde | JsonSchemaSerde):
            return serde.to_plan(self.custom(serde) if serde.calls_python else None)
        return {"custom": self.custom(serde)}

    def custom(self, serde: Serde[Any]) -> int:
        for index, known in enumerate(self.serdes):
            if known is serde:
                return index
        self.serdes.append(serde)
        return len(self.serdes) - 1

    def field(self, content: object) -> object:  # noqa: PLR0911, C901  # one return per form
        if isinstance(content, Expression):
            return {"expr": content.to_plan()}
        if isinstance(content, Aggregation):
            return {"aggregation": content.to_json()}
        if isinstance(content, Udf):
            index = self.function(content)
            return {"udf": index} if not isinstance(content.call, Awaiting) else awaited(content.call, index)
        if isinstance(content, Serde):
            return self.serde(content)
        if isinstance(content, ProcessorRef):
            return self.processor(content)
        if isinstance(content, TimestampFunction):
            return {"udf": self.function(content.udf)}
        if isinstance(content, LateFunction):
            call: dict[str, object] = {"udf": self.function(content.udf)}
            return {"call": {**call, "topics": list(content.topics)} if content.topics else call}
        if isinstance(content, Spec):
            return self.members(content)
        if isinstance(content, ErrorHandler):
            return content.spec(self.function)
        if isinstance(content, Mapping):
            return dict(content)
        if isinstance(content, tuple):
            return [self.field(item) if isinstance(item, Spec | Expression) else item for item in content]
        if isinstance(content, str | int | float | bool):
            return content
        raise TypeError(f"a plan has no form for {content!r}")

    def node(self, at: int, node: Node) -> dict[str, object]:
        self.at, self.line = (at, ""), node.line
        return {"op": node.op, **self.members(node)}

    def members(self, item: Node | Spec) -> dict[str, object]:
        members: dict[str, object] = {}
        for field in fields(item):
            content = getattr(item, field.name)
            default = field.default_factory() if field.default_factory is not MISSING else field.default
            # Expressions have no truth value: only plain data is compared.
            plain = isinstance(content, str | int | tuple | Mapping)
            if content is not None and not (plain and content == default):
                if isinstance(item, Node):
                    self.at = (self.at[0], field.name)
                if field.name == "key" and isinstance(content, Serde):
                    check_key(self.defaults.resolved(content), self.line)
                members["from" if field.name == "parent" else field.name] = self.field(content)
            elif content is None and field.name == "timestamp" and self.defaults.timestamp is not None:
                members[field.name] = self.defaults.timestamp
        return members


def check_key(serde: Serde[Any], line: str | None) -> None:
    """Raise `TopologyError` if equal keys may get different bytes from this serde, or one within it."""
    within: Any = serde
    while within is not None:
        if not getattr(within, "deterministic", True):
            raise TopologyError(
                f"{line or 'settings'} the serde '{serde.name}' is for values: equal keys need equal bytes, and "
                "encrypting gives other bytes each time",
                next_step="encrypt values only; or write deterministic=True, with a deterministic cipher (AES-SIV)",
            )
        within = getattr(within, "inner", None)


def awaited(how: Awaiting[Any, Any], index: int) -> dict[str, object]:
    """Encode an async function with the limits that the engine needs."""
    return {"async": {"udf": index, "concurrency": how.concurrency, "park_after_ms": how.park_after_ms}}


def encode(nodes: Sequence[Node], *, shared: bool = True, defaults: PlanSettings = NO_PLAN_SETTINGS) -> EncodedPlan:
    """Encode the plan of these nodes. With `shared=False`, a function that two nodes use gets two entries."""
    tables = _Tables(shared=shared, defaults=defaults)
    encoded = [tables.node(at, node) for at, node in enumerate(nodes)]
    forms = {str(index): returned(call) for index, call in enumerate(tables.functions)}
    results = {index: form for index, form in forms.items() if form is not None}
    standing = {"default_key": defaults.key, "default_value": defaults.value}
    data = {
        "version": VERSION,
        "nodes": encoded,
        **{name: tables.serde(serde) for name, serde in standing.items() if serde is not None},
        **({"single_store_self_join": True} if defaults.single_store_self_join else {}),
        "functions": tables.names,
        **({"results": results} if results else {}),
        "serdes": [serde.name for serde in tables.serdes],
        "processors": [processor.display for processor in tables.processors],
    }
    suppliers = tuple(processor.supplier for processor in tables.processors)
    return EncodedPlan(
        data,
        tuple(tables.functions),
        tuple(tables.serdes),
        suppliers,
        tuple(tables.function_uses),
        tuple(tables.processor_uses),
    )
