"""What a type checker knows of scheduled sources."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from typing_extensions import assert_type

import stoatflow as sf

builder = sf.StreamsBuilder()
assert_type(builder.scheduled("beat", every="30s"), sf.KStream[str, int])
assert_type(builder.scheduled("report", cron="0 2 * * *", tz=ZoneInfo("Europe/Berlin")), sf.KStream[str, int])
start = datetime(2026, 1, 5, 9, tzinfo=timezone.utc)
builder.scheduled("weekly", every=timedelta(days=7), start=start, catch_up="all", max_catch_up=10)
builder.scheduled("both", every="1s", cron="* * * * *")  # type: ignore[call-overload]
builder.scheduled("none")  # type: ignore[call-overload]
builder.scheduled("rule", every="1s", catch_up="never")  # type: ignore[call-overload]
