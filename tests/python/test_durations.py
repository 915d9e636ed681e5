"""Durations and timestamps: bare numbers are no durations, naive datetimes no timestamps."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from stoatflow.durations import duration_ms, timeout_s, timestamp_ms


@pytest.mark.parametrize(
    ("duration", "ms"),
    [
        ("100ms", 100),
        ("5m", 300_000),
        ("1.5 s", 1500),
        ("2h", 7_200_000),
        ("1d", 86_400_000),
        (timedelta(seconds=2), 2000),
    ],
)
def test_durations(duration: Any, ms: int) -> None:
    assert duration_ms(duration) == ms


@pytest.mark.parametrize("wrong", [5, 5.0, "5", "5 minutes", "-1s", timedelta(seconds=-1), None])
def test_invalid_durations_are_refused(wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        duration_ms(wrong)


@pytest.mark.parametrize("wrong", ["-1s", timedelta(seconds=-1)])
def test_a_negative_duration_is_called_negative(wrong: Any) -> None:
    with pytest.raises(ValueError, match="is negative"):
        duration_ms(wrong)


def test_timestamps() -> None:
    assert timestamp_ms(5) == 5
    assert timestamp_ms(datetime(1970, 1, 2, tzinfo=timezone.utc)) == 86_400_000
    assert timestamp_ms(datetime(2024, 1, 1, 0, 0, 0, 1000, tzinfo=timezone.utc)) == 1704067200001
    for wrong in (datetime(1970, 1, 2), 1.5, True):  # noqa: DTZ001  # that is the point
        with pytest.raises((TypeError, ValueError)):
            timestamp_ms(wrong)  # type: ignore[arg-type]


def test_timeouts() -> None:
    assert timeout_s(None) is None
    assert timeout_s(2) == 2.0
    assert timeout_s("100ms") == 0.1
    assert timeout_s(timedelta(seconds=1)) == 1.0
    assert timeout_s(-1) == 0.0
