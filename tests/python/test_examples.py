"""The examples run as a newcomer runs them, and print what they should."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

EXPECTED = {
    "word_count.py": [
        "  6 to",
        "  2 be",
        "  2 sleep",
        "  1 die",
        "  1 dream",
        "  1 is",
        "  1 not",
        "  1 or",
        "  1 perchance",
        "  1 question",
        "  1 that",
        "  1 the",
    ],
    "json_filter.py": [
        'ann {"id": 1, "amount": 250, "size": "large"}',
        'ann {"id": 5, "amount": 1200, "size": "huge"}',
    ],
}


def run(arguments: list[str], folder: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("STOATFLOW_")}
    result = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment | {"TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_every_example_is_tested() -> None:
    assert sorted(path.name for path in EXAMPLES.glob("*.py")) == sorted(EXPECTED)


@pytest.mark.parametrize("example", sorted(EXPECTED))
def test_it_prints(example: str, tmp_path: Path) -> None:
    assert run([str(EXAMPLES / example)], tmp_path).splitlines() == EXPECTED[example]


@pytest.mark.parametrize("example", sorted(EXPECTED))
def test_it_can_be_described(example: str, tmp_path: Path) -> None:
    text = run(["-m", "stoatflow", "describe", str(EXAMPLES / example)], tmp_path)
    assert text.startswith("Topologies:")
