"""`stoatflow demo` without PySpark: its lines, its check, and a run with a kill."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import stoatflow as sf
from stoatflow.cli import demo
from stoatflow.cli.demo_python import PythonSide, lines
from stoatflow.spark.report import Fault

Update = tuple[int, str, bytes | None]


def test_a_killed_word_count_is_checked_without_spark(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "stoatflow", "demo", "--checked-by", "python", "--lines", "200000"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[1/3] Python makes 200,000 lines" in done.stdout
    assert "SIGKILL to process" in done.stdout
    assert "1 time, and recovered" in done.stdout
    assert "OK: nothing lost, nothing counted twice" in done.stdout


def test_python_checks_where_pyspark_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert demo._checker() == "python"
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert demo._checker() == "spark"


def test_the_lines_are_the_same_for_a_seed_and_words_are_skewed() -> None:
    made = list(lines(2_000, 7))
    assert made == list(lines(2_000, 7))
    assert made != list(lines(2_000, 8))
    assert {len(line.split()) for line in made} == set(range(8, 13))
    often = Counter(word for line in made for word in line.split()).most_common(1)
    assert often[0][0] == "word00001"


def count(number: int) -> bytes:
    return number.to_bytes(8, "big")


RIGHT: list[Update] = [(0, "a", count(1)), (1, "b", count(1)), (0, "a", count(3))]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda updates: updates, None),
        (lambda updates: updates[:2], Fault.WRONG_COUNT),
        (lambda updates: [updates[0], updates[2]], Fault.MISSING_WORD),
        (lambda updates: [*updates, (0, "a", count(3))], Fault.REPEATED),
        (lambda updates: [updates[0], *updates, (0, "a", count(3))], Fault.REPEATED),
        (lambda updates: [*updates, (0, "a", count(2)), (0, "a", count(3))], Fault.WENT_BACK),
        (lambda updates: [*updates, (0, "c", count(1))], Fault.EXTRA_WORD),
        (lambda updates: [*updates, (0, "a", b"x")], Fault.BAD_VALUE),
        (lambda updates: [*updates, (0, "a", None)], Fault.BAD_VALUE),
        (lambda updates: [updates[0], updates[1], (1, "a", count(3))], Fault.SPLIT_KEY),
    ],
)
def test_each_fault_is_found(
    tmp_path: Path, change: Callable[[list[Update]], list[Update]], fault: Fault | None
) -> None:
    with sf.EmbeddedBroker(tmp_path / "broker") as broker:
        for topic in ("lines", "counts"):
            broker.create_topic(topic, 2)
        broker.produce("lines", None, "a B A", partition=0)
        broker.produce("lines", None, "a", partition=1)
        broker.produce_many("counts", [(part, key.encode(), value, 0) for part, key, value in change(RIGHT)])
    result = PythonSide(f"embedded:{tmp_path / 'broker'}", "lines", "counts", 2).reconcile()
    assert (result.input_records, result.input_words, result.expected_keys) == (2, 4, 2)
    assert result.ok == (fault is None), result.render()
    assert fault is None or result.faults[fault] >= 1, result.render()


def test_what_is_loaded_is_what_was_made(tmp_path: Path) -> None:
    side = PythonSide(f"embedded:{tmp_path / 'broker'}", "lines", "counts", 3)
    assert side.load(25_001, 7) == 25_001
    with sf.EmbeddedBroker(tmp_path / "broker") as broker:
        assert broker.topics() == {"lines": 3, "counts": 3}
        found = sorted(broker.read("lines"), key=lambda record: record.timestamp)
    assert [record.value for record in found] == [line.encode() for line in lines(25_001, 7)]
