"""Arguments of `builder.scheduled(...)`.

Takes the arguments, returns the plan's node; raises `TopologyError` with the user's line for malformed arguments. The
engine checks the cron expression and the time zone when the topology is built.
"""

from __future__ import annotations

from datetime import timezone, tzinfo
from typing import Any, Literal, TypeAlias, get_args

from stoatflow.durations import Duration, Timestamp, duration_ms, timestamp_ms
from stoatflow.errors import TopologyError
from stoatflow.plan import nodes

CatchUp: TypeAlias = Literal["latest", "all", "skip"]
"""Which of the ticks that were missed while the application was down are made up for."""


def scheduled_node(
    name: str,
    every: Duration | None,
    cron: str | None,
    tz: str | tzinfo,
    start: Timestamp | None,
    catch_up: CatchUp,
    max_catch_up: int,
    line: str,
) -> nodes.Scheduled:
    """Return the node of a scheduled source."""

    def wrong(what: str, next_step: str) -> TopologyError:
        return TopologyError(f"{line} scheduled: {what}", next_step=next_step)

    if not isinstance(name, str) or not name:
        raise wrong(
            f"its first argument is its name, not {name!r}", 'write for example scheduled("heartbeat", every="30s")'
        )
    if (every is None) == (cron is None):
        what = "neither every= nor cron= is given" if every is None else "every= and cron= are given"
        raise wrong(what, 'write one of them: every="30s" or cron="*/5 * * * *"')
    if cron is not None and not isinstance(cron, str):
        raise wrong(f"cron={cron!r} is no text", 'write for example cron="*/5 * * * *", every five minutes')
    if catch_up not in get_args(CatchUp):
        raise wrong(f"catch_up={catch_up!r} is not known", 'use catch_up="latest", "all" or "skip"')
    if isinstance(max_catch_up, bool) or not isinstance(max_catch_up, int) or not 0 < max_catch_up < 2**32:
        raise wrong(f"max_catch_up={max_catch_up!r} is no number of ticks", "write for example max_catch_up=1000")
    return nodes.Scheduled(
        line=line,
        name=name,
        every_ms=None if every is None else _every(every, wrong),
        cron=cron,
        tz=_zone(tz, wrong),
        start_ms=None if start is None else _start(start, wrong),
        catch_up=catch_up,
        max_catch_up=max_catch_up,
    )


def _every(every: Duration, wrong: Any) -> int:
    try:
        ms = duration_ms(every)
    except (TypeError, ValueError) as error:
        raise wrong(f"every: {error}", 'write for example every="30s"') from None
    if ms < 1:
        raise wrong(f"every={every!r} is no interval", 'write at least a millisecond, for example every="30s"')
    return ms


def _start(start: Timestamp, wrong: Any) -> int:
    try:
        return timestamp_ms(start)
    except (TypeError, ValueError) as error:
        raise wrong(
            f"start: {error}", "write for example start=datetime(2026, 1, 5, 9, tzinfo=ZoneInfo('Europe/Berlin'))"
        ) from None


def _zone(tz: object, wrong: Any) -> str:
    if isinstance(tz, str):
        return tz
    if tz is timezone.utc:
        return "UTC"
    # `key` is the name of a ZoneInfo. Another tzinfo has no name by which its rules could be found.
    key = getattr(tz, "key", None)
    if isinstance(tz, tzinfo) and isinstance(key, str):
        return key
    raise wrong(
        f"tz={tz!r} is no name of a time zone", 'write for example tz="Europe/Berlin" or tz=ZoneInfo("Europe/Berlin")'
    )
