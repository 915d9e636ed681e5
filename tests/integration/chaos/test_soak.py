"""Minutes of steady work with kills: memory, file handles and threads stay bounded, and the result is exact.

`STOATFLOW_TEST_SOAK_MINUTES=30` makes it long (so does `make soak`); 0.5 is the minimum for a useful result.
"""

from __future__ import annotations

import os
from pathlib import Path

from topics import KafkaTopics

from chaos.run import check_results
from chaos.soak import MORE_FILES, MORE_MIB, MORE_THREADS, Sample, Soak, growth

MINUTES = float(os.environ.get("STOATFLOW_TEST_SOAK_MINUTES", "1.5"))


def test_nothing_grows(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    soak = Soak(kafka, name, tmp_path / "state", 1, MINUTES)
    wrong = soak.run()
    assert not wrong, f"{wrong}\n{soak.report()}"
    right, text = check_results(kafka, soak.chaos)
    assert right, text


def test_growth_is_detected() -> None:
    """A check that can't fail proves nothing."""
    steady = [Sample(200.0, 90, 30)] * 60
    assert growth(steady)[2] == []
    warming = [Sample(50.0, 20, 5)] * 10 + steady
    assert growth(warming)[2] == []
    for leak in (
        Sample(250.0 + MORE_MIB + 1, 90, 30),
        Sample(200.0, 91 + MORE_FILES, 30),
        Sample(200.0, 90, 31 + MORE_THREADS),
        Sample(2_000.0, 90, 30),
    ):
        assert growth([*steady, leak])[2], leak
