"""mypy --strict infers key and value types through a chain, and refuses what does not fit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_types_are_inferred(tmp_path: Path) -> None:
    # Every wrong call in the files carries an ignore; --strict reports an ignore that is not needed.
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "tests/python/typing"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert ended.returncode == 0, ended.stdout + ended.stderr
