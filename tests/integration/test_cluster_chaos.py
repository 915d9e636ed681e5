"""Word counts on three secured brokers, through one fault after another: nothing missing, duplicated or wrong.

`STOATFLOW_TEST_CLUSTER_FAULTS=50` causes more faults, `STOATFLOW_TEST_CLUSTER_SEED=7` uses another seed. A failure
prints its seed and the faults; to repeat it: `make chaos-cluster SEED=`. That command is the long run.
"""

from __future__ import annotations

import os
import struct
import sys
from collections import Counter
from pathlib import Path

import pytest
from broker.partitioned_cluster import PartitionedCluster
from chaos.cluster_checks import EXACTLY, CheckedApplication
from chaos.cluster_faults import LEAST_S, Kind, schedule
from chaos.cluster_run import ClusterChaos, report
from chaos.harness import KAFKA
from chaos.supervised import Counted
from topics import Row

FAULTS = int(os.environ.get("STOATFLOW_TEST_CLUSTER_FAULTS", str(len(Kind))))
SEED = int(os.environ.get("STOATFLOW_TEST_CLUSTER_SEED", "1"))


@pytest.mark.long
def test_every_fault_on_three_brokers(tmp_path: Path) -> None:
    """Each kind of fault once."""
    with PartitionedCluster(version=KAFKA) as cluster:
        chaos = ClusterChaos(cluster, tmp_path, SEED, FAULTS, lambda line: print(line, file=sys.stderr))  # noqa: T201
        try:
            chaos.run()
        except BaseException:
            sys.stderr.write("\n".join([*chaos.violations, report(chaos)]))
            raise
        wrong, figures = chaos.check_results()
    again = f"again: make chaos-cluster SEED={SEED} FAULTS={FAULTS}"
    assert not wrong, "\n".join([*wrong, report(chaos), figures, again])
    assert len(chaos.done) == FAULTS


def test_a_schedule_has_every_kind_and_is_fixed_by_its_seed() -> None:
    for seed in range(20):
        faults = schedule(seed, 50)
        assert faults == schedule(seed, 50)
        times = Counter(fault.kind for fault in faults)
        assert times.keys() == set(Kind)
        assert set(times.values()) == {3, 4}
        assert all(fault.hold_s >= LEAST_S.get(fault.kind, 0.0) for fault in faults)
        assert {fault.overlaps for fault in faults} == {fault.kills for fault in faults} == {True, False}
    assert schedule(1, 50) != schedule(2, 50)


class Made:
    """Topics built by hand, each with one partition."""

    def __init__(self, name: str, given: list[str], counts: dict[str, list[int]]) -> None:
        pairs = [
            (word.encode(), struct.pack(">q", count)) for word, all_counts in counts.items() for count in all_counts
        ]
        out = [Row(0, number, *pair) for number, pair in enumerate(pairs)]
        self.rows = {
            f"from-{name}": [Row(0, number, None, line.encode()) for number, line in enumerate(given)],
            f"to-{name}": out,
            f"{name}-counts-changelog": list(out),
        }
        self.offset = len(given)
        self.hidden = 0

    def read(self, topic: str) -> list[Row]:
        """Its rows."""
        return self.rows[topic]

    def ends(self, topic: str, isolation: str = "read_uncommitted") -> dict[int, int]:
        """Including records hidden by an open transaction."""
        return {0: len(self.rows[topic]) + (self.hidden if isolation == "read_uncommitted" else 0)}

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """The committed offset."""
        del group, topic
        return {0: self.offset}


GIVEN = ["a b", "a"]


def found(guarantee: str, counts: dict[str, list[int]], written: list[str] | None = None, **changed: int) -> str:
    """The result of the check."""
    made = Made("w", GIVEN, counts)
    for what, value in changed.items():
        setattr(made, what, value)
    application = Counted("w", {"processing.guarantee": guarantee}, Path())
    return " ".join(CheckedApplication(made, application, Counter(written or GIVEN), patience=0.0).wrong)


def test_the_check_detects_faults() -> None:
    """A check that can't fail proves nothing."""
    good = {"a": [1, 2], "b": [1]}
    once, least = EXACTLY, "at_least_once"
    assert found(once, good) == found(least, good) == ""
    assert "twice [2]" in found(once, {"a": [1, 2, 2], "b": [1]})
    assert "missing [1]" in found(once, {"a": [2], "b": [1]})
    assert "in order: False" in found(once, {"a": [2, 1], "b": [1]})
    assert "changelog: 1 words are wrong" in found(once, {"a": [1], "b": [1]})
    assert found(least, {"a": [1, 2, 1, 2, 3], "b": [1]}) == ""
    assert "too few" in found(least, {"a": [1], "b": [1]})
    assert "left out" in found(least, {"a": [1, 3], "b": [1]})
    for guarantee in (once, least):
        assert "w, offsets: committed {0: 1}" in found(guarantee, good, offset=1)
        assert "transactions: one is open in to-w" in found(guarantee, good, hidden=1)
        assert "1 lines are lost" in found(guarantee, good, ["a b", "a", "c"])
        assert found(guarantee, good, ["a b"]) == ""
