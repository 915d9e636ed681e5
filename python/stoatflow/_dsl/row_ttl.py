"""The time to live of rows, as plan data.

Takes `ttl=`, `ttl_time=` and `ttl_forward=` of a `Materialized`, or the first two of a store of processors; raises
`TopologyError` if they contradict each other.
"""

from __future__ import annotations

from stoatflow.durations import Duration
from stoatflow.errors import TopologyError
from stoatflow.expressions import Expression
from stoatflow.plan.specs import ExpirySpec
from stoatflow.windows import span_ms


def expiry_spec(
    how: tuple[Duration | Expression | None, str | None, bool], where: str, line: str | None, *, forwards: bool = True
) -> ExpirySpec | None:
    """Return the expiry of rows; `how`: ttl, ttl_time, ttl_forward; `where` names the declaration in errors.

    `forwards`: whether the declaration has ttl_forward.
    """
    ttl, time, forward = how
    if time not in (None, "event", "processing"):
        raise TopologyError(
            f"{line} {where}(ttl_time={time!r}) is not known",
            next_step='write ttl_time="event" or ttl_time="processing"',
        )
    if ttl is None:
        if time is not None or forward:
            given = "ttl_time=, ttl_forward=) are" if forwards else "ttl_time=) is"
            raise TopologyError(
                f"{line} {where}({given} given without ttl=", next_step='add ttl="30d", or leave them out'
            )
        return None
    rule = ttl if isinstance(ttl, Expression) else {"fixed": span_ms(ttl, f"{where}(ttl=)", least=1)}
    return ExpirySpec(rule, time or "event", forward=bool(forward))
