"""Confluent's framing: the schema id before a value.

Takes the arguments of a serde, refuses combinations without a meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stoatflow.errors import TopologyError

if TYPE_CHECKING:
    from stoatflow.registry import SchemaRegistry


def check_framing(place: str, name: str, framing: object, schema_id: object, **others: object) -> None:
    """Refuse an unknown framing, one without an id, and ids without a framing; `name` is that of the format."""
    if framing not in {"plain", "confluent"}:
        raise TopologyError(
            f"{place}: there is no framing {framing!r}", next_step='write framing="plain" or framing="confluent"'
        )
    if framing == "confluent":
        if schema_id is None:
            raise TopologyError(
                f"{place}: Confluent's framing writes a schema id before each value, and none is given",
                next_step="give the id that the registry has for this schema: schema_id=...",
            )
        checked_id(schema_id, place)
    elif schema_id is not None or any(other is not None for other in others.values()):
        (other,) = others
        raise TopologyError(
            f"{place}: plain {name} holds no schema id, so schema_id= and {other}= mean nothing",
            next_step='write framing="confluent", or leave them out',
        )


def check_registry(
    place: str, registry: object, subject: object, schema: object, **ids: object
) -> SchemaRegistry | None:
    """Return the registry, if there is one; refuse arguments that have no meaning with it, or without it."""
    if registry is None:
        if subject is not None:
            raise TopologyError(
                f"{place}: subject= names a schema of a registry, and none is given",
                next_step="write registry=sf.SchemaRegistry(...)",
            )
        return None
    from stoatflow.registry import SchemaRegistry  # needed only with a registry

    if not isinstance(registry, SchemaRegistry):
        raise TopologyError(
            f"{place}: registry={type(registry).__name__} is no SchemaRegistry",
            next_step='write registry=sf.SchemaRegistry("http://localhost:8081")',
        )
    given = [name for name, value in ids.items() if value]
    if given:
        raise TopologyError(
            f"{place}: ids come from the registry, so {' and '.join(f'{name}=' for name in given)} mean nothing",
            next_step="leave them out, or registry=",
        )
    if schema is None and subject is None:
        raise TopologyError(
            f"{place} needs a schema, or the name of a subject that has one",
            next_step='give the schema, or subject="orders-value" for its latest version in the registry',
        )
    return registry


def checked_id(number: object, place: str) -> int:
    """Return the id; raise if it is invalid."""
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**32:
        raise TopologyError(
            f"{place}: {number!r} is no schema id",
            next_step="give a whole number of at most 32 bits, as a registry does",
        )
    return number
