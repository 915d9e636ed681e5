"""Resolves what a user writes (`str`, `Serdes.json()`) to a serde, by one table."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

from stoatflow.errors import TopologyError
from stoatflow.serdes.base import Serde
from stoatflow.serdes.builtin import Serdes

T = TypeVar("T")
SerdeLike: TypeAlias = Serde[T] | type[T]
"""A serde, or a type that stands for one."""


class Unspecified:
    """A type without values. Only types that a type checker doesn't know match it: `dict` without its types matches
    `dict[Unspecified, Unspecified]`, a function that returns `Any` matches `Callable[..., Unspecified]`.
    """  # noqa: D205  # one sentence is not enough


BareDict: TypeAlias = type[dict[Unspecified, Unspecified]]
"""`dict` alone, whose types strict type checkers don't know: overloads treat it as `dict[str, Any]`."""

_BY_TYPE: dict[type, Serde[Any]] = {
    str: Serdes.string(),
    int: Serdes.int64(),
    float: Serdes.double(),
    bytes: Serdes.bytes(),
    dict: Serdes.json(),
    list: Serdes.json(),
}


def resolve(serde: SerdeLike[T]) -> Serde[T]:
    """Return the serde; raise `TopologyError` if this doesn't stand for one."""
    if isinstance(serde, Serde):
        return serde
    if isinstance(serde, type) and serde in _BY_TYPE:
        return _BY_TYPE[serde]
    # The views belong to the engine, which must not be imported before there is a plan.
    if isinstance(serde, type) and serde.__module__ == "stoatflow" and serde.__name__ in ("JsonObject", "JsonArray"):
        return Serdes.json()
    # `uuid` is imported only by programs that use it.
    if isinstance(serde, type) and serde.__module__ == "uuid" and serde.__name__ == "UUID":
        uuids: Serde[Any] = Serdes.uuid()
        return uuids
    from stoatflow.serdes.typed import TypedJsonSerde, is_typed  # only what needs it loads it

    if isinstance(serde, type) and is_typed(serde):
        return TypedJsonSerde(serde, validate=True)
    # `dict[str, int]` is an alias, not a type; its origin decides.
    origin = getattr(serde, "__origin__", None)
    if origin in _BY_TYPE:
        return _BY_TYPE[origin]
    # Imported here: the plan uses serdes.
    from stoatflow.plan.functions import user_line

    line = user_line()
    if isinstance(serde, type) and issubclass(serde, Serde):
        raise TopologyError(
            f"{line} the serde {serde.__name__} is a class, an object is needed", next_step=f"write {serde.__name__}()"
        )
    shown = serde.__name__ if isinstance(serde, type) else repr(serde)
    raise TopologyError(
        f"{line} {shown} is neither a serde nor a type that stands for one "
        "(str, int, float, bytes, uuid.UUID, dict, list, JsonObject, JsonArray, a dataclass, a TypedDict, "
        "a msgspec.Struct, a pydantic model)",
        next_step="use one of these types, Serdes.<name>(), or a subclass of Serde",
    )
