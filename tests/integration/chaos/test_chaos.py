"""Everything the DSL has, killed at seeded moments: what committed readers see is that of an undisturbed run.

`STOATFLOW_CHAOS_KILLS=40` kills more often, `STOATFLOW_CHAOS_SEED=7` from another seed. A failure says its seed; to
repeat it: `python tests/integration/chaos/run.py --seed SEED --kills KILLS`.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from topics import KafkaTopics

from chaos.application import INPUTS, OUTPUTS
from chaos.checks import Found, at_least, describe, exact, same, same_counts, steps
from chaos.inputs import Inputs
from chaos.run import Chaos

KILLS = int(os.environ.get("STOATFLOW_CHAOS_KILLS", "6"))
SEED = int(os.environ.get("STOATFLOW_CHAOS_SEED", "1"))
INTERNAL = ("words", "sums", "sums-final-store", "closed", "sessions", "totals", "since", "readings",
            "readings-final-store", "users", "people", "cities", "orders", "products", "named")  # fmt: skip
WINDOWED = ("sums", "closed", "sessions", "readings")


def told(chaos: Chaos, kills: int) -> str:
    """How to see it again."""
    again = f"run.py --seed {chaos.seed} --kills {kills} --guarantee {chaos.guarantee}"
    return f"\nkills: {dict(chaos.met)}\nagain: python tests/integration/chaos/{again}"


def test_undisturbed_and_again_without_state(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    """The check itself, topics and their settings; and a restore of everything gives nothing out once more."""
    chaos = Chaos(kafka, name, tmp_path / "state", SEED, "exactly_once_v2")
    chaos.run(kills=0)
    wrong = exact(Found(kafka, name), chaos.inputs)
    assert not wrong, describe(wrong) + told(chaos, 0)
    mine = {topic.removeprefix(f"{name}-") for topic in kafka.topics() if topic.startswith(f"{name}-")}
    changelogs = {topic.removesuffix("-changelog") for topic in mine if topic.endswith("-changelog")}
    assert changelogs >= {*INTERNAL, "clocks"}
    for store in changelogs:
        policy = set(kafka.config(f"{name}-{store}-changelog")["cleanup.policy"].split(","))
        assert policy == ({"compact", "delete"} if is_windowed(store) else {"compact"}), store
    retention = {store: int(kafka.config(f"{name}-{store}-changelog")["retention.ms"]) for store in WINDOWED}
    day = 24 * 3_600_000
    assert retention["closed"] == 2 * day  # what was said, and a day, as in Kafka Streams
    assert retention["sums"] == 15_000 + day
    before = {topic: kafka.ends(f"{name}-{topic}") for topic in OUTPUTS}
    chaos.wipe()
    chaos.finish()
    assert {topic: kafka.ends(f"{name}-{topic}") for topic in OUTPUTS} == before
    assert {topic: kafka.committed(name, f"{name}-{topic}") for topic in INPUTS} == {
        topic: kafka.ends(f"{name}-{topic}") for topic in INPUTS
    }


def is_windowed(store: str) -> bool:
    """Is its changelog one of windows (the two of a stream join have names of their own)?"""
    return store in WINDOWED or (store.startswith(("pairs", "meetings")) and "shared" not in store)


@pytest.mark.parametrize("seed", [SEED, SEED + 1])
def test_exactly_once(kafka: KafkaTopics, name: str, tmp_path: Path, seed: int) -> None:
    chaos = Chaos(kafka, name, tmp_path / "state", seed, "exactly_once_v2")
    chaos.run(KILLS)
    wrong = exact(Found(kafka, name), chaos.inputs)
    assert not wrong, describe(wrong) + told(chaos, KILLS)


def test_at_least_once(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    chaos = Chaos(kafka, name, tmp_path / "state", SEED + 2, "at_least_once")
    chaos.run(KILLS // 2)
    wrong = at_least(Found(kafka, name), chaos.inputs)
    assert not wrong, describe(wrong) + told(chaos, KILLS // 2)


def test_the_checks_see_what_they_should() -> None:
    """A check that can't fail proves nothing."""
    assert steps("it", {"a": [1, 2]}, {"a": 2}) == []
    broken: list[list[int | None]] = [[1], [1, 1, 2], [2, 1], [1, 2, 3], [1, None]]
    assert all(steps("it", {"a": one}, {"a": 2}) for one in broken)
    assert steps("it", {}, {"a": 1})
    assert same("it", {"a": 1}, {"a": 1}) == []
    assert same("it", {"a": 1}, {"b": 1})
    assert same_counts("it", Counter("aab"), Counter("aab")) == []
    assert "1 of 3 lost" in same_counts("it", Counter("ab"), Counter("aab"))[0]
    assert "1 too many" in same_counts("it", Counter("aabb"), Counter("aab"))[0]


def test_the_same_seed_gives_the_same() -> None:
    one, two, other = Inputs(5), Inputs(5), Inputs(6)
    for inputs in (one, two, other):
        inputs.round()
        inputs.closing()
    assert [row[:4] for row in one.rows] == [row[:4] for row in two.rows] != [row[:4] for row in other.rows]
