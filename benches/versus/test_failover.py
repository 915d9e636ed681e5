"""The benchmark of failovers: its rows, and the comparison without which it reports no time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[2] / "tests" / "integration")]

import stoatflow_failover  # noqa: E402
from failover import table  # noqa: E402
from large_rows import ROW_BYTES, key_of, row_of, shuffled  # noqa: E402

import stoatflow as sf  # noqa: E402

KEYS, FED = 500, 20


def test_every_key_is_written_once_and_rows_differ_by_version() -> None:
    assert sorted(shuffled(place, KEYS) for place in range(KEYS)) == list(range(KEYS))
    assert {len(row_of(number, version)) for number in (0, 123_456_789) for version in (0, 1)} == {ROW_BYTES}
    assert row_of(7, 0) != row_of(7, 1)
    assert row_of(7, 0)[40:] != row_of(8, 0)[40:]


@pytest.mark.parametrize(
    ("missing", "outdated", "found"),
    [(None, None, []), (3, None, ["499 rows instead of 500", "the row of"]), (None, 5, ["the row of"])],
)
def test_a_row_that_is_missing_or_outdated_is_found(
    tmp_path: Path, missing: int | None, outdated: int | None, found: list[str]
) -> None:
    rows = [(shuffled(place, KEYS), 0) for place in range(KEYS) if place != missing]
    rows += [(shuffled(place, KEYS), 1) for place in range(FED) if place not in {missing, outdated}]
    with sf.EmbeddedBroker() as broker:
        broker.create_topic("in")
        for number, version in rows:
            broker.produce("in", key_of(number), row_of(number, version))
        config = {"application.id": "failover", "state.dir": str(tmp_path)}
        with sf.StoatFlow(stoatflow_failover.topology("in"), config, broker=broker) as app:
            wrong = stoatflow_failover.differences(app, KEYS, FED)
    assert len(wrong) == len(found)
    assert all(text in said for text, said in zip(found, wrong, strict=True))


def test_each_start_is_a_row() -> None:
    one = {"gigabytes": 2.0, "start": "SIGKILL", "seconds": 1.5, "restore_seconds": 0.5, "cpu_seconds": 0.4}
    text = table([{**one, "peak_rss_mb": 100, "disk_mb": 900}])
    assert "SIGKILL" in text.splitlines()[1]
    assert [float(part) for part in text.splitlines()[1].split() if part[0].isdigit()] == [2, 1.5, 0.5, 0.4, 100, 900]
