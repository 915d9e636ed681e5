"""What Confluent's serializers write before a value: the id of its schema.

Takes the arguments of a serde, refuses what can't be meant.
"""

from __future__ import annotations

from stoatflow.errors import TopologyError


def check_framing(place: str, name: str, framing: object, schema_id: object, **others: object) -> None:
    """Refuse a framing that doesn't exist, one without an id, and ids without a framing; `name` is the format's."""
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


def checked_id(number: object, place: str) -> int:
    """Give the id, if it is one."""
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < 2**32:
        raise TopologyError(
            f"{place}: {number!r} is no schema id",
            next_step="give a whole number of at most 32 bits, as a registry does",
        )
    return number
