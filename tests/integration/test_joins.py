"""Joins on a real broker: as in the test driver, across restarts, with lost state, with one lane and with several."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import driver_comparison
import pytest
from driver_comparison import Entry, Phase
from topics import KafkaTopics

import stoatflow as sf

Sides = Callable[[sf.StreamsBuilder, str], sf.KStream[str, str]]


def pair(left: str | None, right: str | None) -> str:
    return f"{left}+{right}"


def records(seed: int, frm: int, to: int, count: int = 60, nulls: float = 0.0) -> list[Entry]:
    """Sorted by time."""
    rng = random.Random(seed)
    times = sorted(rng.randrange(frm, to) for _ in range(count))
    return [(f"k{rng.randrange(9)}", None if rng.random() < nulls else f"k{rng.randrange(9)}", at) for at in times]


def phases(nulls: float = 0.0) -> list[Phase]:
    """Each side twice, alternating."""
    return [
        ("left", records(1, 0, 30_000, nulls=nulls)),
        ("right", records(2, 0, 35_000, nulls=nulls)),
        ("left", records(3, 32_000, 60_000, nulls=nulls)),
        ("right", records(4, 40_000, 90_000, nulls=nulls)),
    ]


def inner(builder: sf.StreamsBuilder, name: str) -> sf.KStream[str, str]:
    left, right = (builder.stream(f"{name}-{side}", key=str, value=str) for side in ("left", "right"))
    return left.join(right, pair, sf.JoinWindows("10s", grace="1h"), joined=sf.StreamJoined(str, str, str, name="meet"))


def table_outer(builder: sf.StreamsBuilder, name: str) -> sf.KStream[str, str]:
    left, right = (builder.table(f"{name}-{side}", key=str, value=str, store=side) for side in ("left", "right"))
    return left.outer_join(right, pair, store=sf.Materialized("both", value=str)).to_stream()


def foreign_key(builder: sf.StreamsBuilder, name: str) -> sf.KStream[str, str]:
    left, right = (builder.table(f"{name}-{side}", key=str, value=str, store=side) for side in ("left", "right"))
    return left.left_join(
        right, pair, foreign_key=lambda value: value, store=sf.Materialized("fk", value=str), name="fk"
    ).to_stream()


def stream_table(builder: sf.StreamsBuilder, name: str) -> sf.KStream[str, str]:
    right = builder.table(f"{name}-right", key=str, value=str, store="right")
    return builder.stream(f"{name}-left", key=str, value=str).left_join(right, pair)


def rekeyed_stream_table(builder: sf.StreamsBuilder, name: str) -> sf.KStream[str, str]:
    right = builder.table(f"{name}-right", key=str, value=str, store="right")
    left = builder.stream(f"{name}-left", key=str, value=str).select_key(lambda _, value: value)
    return left.join(right, pair, joined=sf.Joined(key=str))


def versioned(builder: sf.StreamsBuilder, name: str) -> sf.KStream[str, str]:
    right = builder.table(f"{name}-right", key=str, value=str, store=sf.Materialized("right", history="1h"))
    left = builder.stream(f"{name}-left", key=str, value=str)
    return left.left_join(right, pair, joined=sf.Joined(name="as-of"))


def versioned_with_grace(builder: sf.StreamsBuilder, name: str) -> sf.KStream[str, str]:
    right = builder.table(f"{name}-right", key=str, value=str, store=sf.Materialized("right", history="1h"))
    left = builder.stream(f"{name}-left", key=str, value=str)
    return left.left_join(right, pair, joined=sf.Joined(str, str, str, name="as-of", grace="20s"))


CASES: list[tuple[Sides, int]] = [
    (inner, 1), (inner, 4), (table_outer, 4), (stream_table, 4), (rekeyed_stream_table, 1),
    (rekeyed_stream_table, 4), (versioned, 4), (versioned_with_grace, 1),
]  # fmt: skip


def built(kind: Sides, name: str) -> sf.Topology:
    """One join with its topics."""
    builder = sf.StreamsBuilder()
    kind(builder, name).to(f"{name}-out", key=str, value=str)
    return builder.build()


@pytest.mark.parametrize(("kind", "lanes"), CASES)
def test_like_the_test_driver(kafka: KafkaTopics, name: str, tmp_path: Path, kind: Sides, lanes: int) -> None:
    given = phases(nulls=0.2 if kind is table_outer else 0.0)
    driver_comparison.check(kafka, name, tmp_path / "state", lambda: built(kind, name), given, lanes=lanes)


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_foreign_key_join_ends_like_the_test_driver(
    kafka: KafkaTopics, name: str, tmp_path: Path, lanes: int
) -> None:
    """An answer to a row that has changed is dropped, so intermediate rows depend on batches; the last does not."""
    given = phases(nulls=0.2)
    driver_comparison.check(
        kafka, name, tmp_path / "state", lambda: built(foreign_key, name), given, lanes=lanes, last_only=True
    )


@pytest.mark.parametrize("lanes", [4])
def test_a_global_table_is_read_first(kafka: KafkaTopics, name: str, tmp_path: Path, lanes: int) -> None:
    def build() -> sf.Topology:
        builder = sf.StreamsBuilder()
        places = builder.global_table(f"{name}-places", key=str, value=str, store="places")
        visits = builder.stream(f"{name}-visits", key=str, value=str)
        visits.left_join(places, lambda _, value: value, pair).to(f"{name}-out", key=str, value=str)
        return builder.build()

    given: list[Phase] = [
        ("places", records(5, 0, 1_000, nulls=0.2)),
        ("visits", records(6, 0, 1_000)),
        ("places", records(7, 1_000, 2_000, nulls=0.2)),
        ("visits", records(8, 1_000, 2_000)),
    ]
    driver_comparison.check(kafka, name, tmp_path / "state", build, given, lanes=lanes)
    assert not any("places-changelog" in topic for topic in kafka.topics() if topic.startswith(name))
