"""Windows on a real broker: as in the test driver, across restarts, with lost state, with one lane and with several."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import driver_comparison
import pytest
from driver_comparison import Entry
from topics import KafkaTopics

import stoatflow as sf

COUNT = 120


def records(seed: int, late: tuple[int, ...] = (0,)) -> list[Entry]:
    """Two minutes; a last record moves time beyond every window."""
    rng = random.Random(seed)
    times = sorted(rng.randrange(20_000, 140_000) for _ in range(COUNT))
    entries: list[Entry] = [(f"k{rng.randrange(6)}", f"v{n}", at - rng.choice(late)) for n, at in enumerate(times)]
    return [*entries, ("end", "last", 400_000)]


def tumbling(grouped: sf.KGroupedStream[str, str]) -> object:
    return grouped.windowed_by(sf.TimeWindows("10s", grace="5s")).count(store="s").to_stream()


def hopping_suppressed(grouped: sf.KGroupedStream[str, str]) -> object:
    windows = sf.TimeWindows("20s", advance="5s", grace="5s")
    counts = grouped.windowed_by(windows).count(store="s")
    return counts.suppress(sf.Suppressed.until_window_closes(), name="final").to_stream()


def on_window_close(grouped: sf.KGroupedStream[str, str]) -> object:
    windowed = grouped.windowed_by(sf.TimeWindows("10s", grace="5s")).emit_strategy(sf.EmitStrategy.on_window_close())
    return windowed.count(store=sf.Materialized("s", retention="1d")).to_stream()


def sliding(grouped: sf.KGroupedStream[str, str]) -> object:
    windowed = grouped.windowed_by(sf.SlidingWindows("5s", grace="5s"))
    return windowed.reduce(lambda one, two: f"{one} {two}", store="s").to_stream()


def sessions(grouped: sf.KGroupedStream[str, str]) -> object:
    windowed = grouped.windowed_by(sf.SessionWindows("4s", grace="10s"))
    return windowed.aggregate(
        lambda: "", lambda _, value, agg: f"{agg} {value}", lambda _, one, two: f"{one}+{two}", store="s", value=str
    ).to_stream()


def sessions_on_window_close(grouped: sf.KGroupedStream[str, str]) -> object:
    windowed = grouped.windowed_by(sf.SessionWindows("4s", grace="1s"))
    closing = windowed.emit_strategy(sf.EmitStrategy.on_window_close())
    return closing.count(store=sf.Materialized("s", retention="1d")).to_stream()


def time_limit(grouped: sf.KGroupedStream[str, str]) -> object:
    counts = grouped.count(store="s")
    return counts.suppress(sf.Suppressed.until_time_limit("15s"), name="held").to_stream()


# With a time limit, several lanes emit at the commit, so the number of updates depends on the commits.
CASES = [
    (tumbling, 4), (hopping_suppressed, 1), (hopping_suppressed, 4), (on_window_close, 1), (on_window_close, 4),
    (sliding, 1), (sessions, 1), (sessions, 4), (sessions_on_window_close, 4), (time_limit, 1),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "lanes"), CASES)
def test_like_the_test_driver(
    kafka: KafkaTopics, name: str, tmp_path: Path, kind: Callable[[sf.KGroupedStream[str, str]], object], lanes: int
) -> None:
    # With several lanes, which records are late depends on the commit, so there are none.
    given = records(7, late=(0,) if lanes > 1 else (0, 0, 0, 4_000, 12_000))

    def build() -> sf.Topology:
        builder = sf.StreamsBuilder()
        grouped = builder.stream(f"{name}-in", key=str, value=str).group_by_key()
        kind(grouped).to(f"{name}-out")  # type: ignore[attr-defined]
        return builder.build()

    thirds = [given[:40], given[40:80], given[80:]]
    driver_comparison.check(kafka, name, tmp_path / "state", build, [("in", part) for part in thirds], lanes=lanes)


@pytest.mark.parametrize("lanes", [4])
def test_deduplicate_and_cogroup(kafka: KafkaTopics, name: str, tmp_path: Path, lanes: int) -> None:
    def build() -> sf.Topology:
        builder = sf.StreamsBuilder()
        one, two = (builder.stream(f"{name}-{topic}", key=str, value=str) for topic in ("one", "two"))
        once = one.deduplicate(within="6s", store="seen")
        once.to(f"{name}-once")
        (
            once.group_by_key()
            .cogroup(lambda _, value, agg: f"{agg} {value}")
            .cogroup(two.group_by_key(), lambda _, value, agg: f"{agg} ({value})")
            .aggregate(lambda: "", store="both", value=str)
            .to_stream()
            .to(f"{name}-both")
        )
        return builder.build()

    given, more = records(8), records(9)
    phases = [("one", given[:60]), ("two", more[:60]), ("two", more[60:]), ("one", given[60:])]
    driver_comparison.check(kafka, name, tmp_path / "state", build, phases, lanes=lanes, outputs=("once", "both"))
