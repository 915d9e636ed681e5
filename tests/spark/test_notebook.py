"""The notebook runs from its first cell to its last, and contains no stale output."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "examples" / "spark" / "shop.ipynb"
RUNNER = Path(__file__).with_name("run_notebook.py")


def test_the_notebook_runs(tmp_path: Path) -> None:
    """In its own process, with its own session, which it stops."""
    command = [sys.executable, str(RUNNER), str(NOTEBOOK)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False, cwd=tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr[-4000:]
    assert ended.stdout.count("verdict  OK") == 1
    assert ended.stdout.count("verdict  NOT OK") == 1
    assert re.search(r"^0 +\w+ +\d+ +\d+$", ended.stdout, re.MULTILINE)
    assert list(tmp_path.iterdir()) == []


def test_the_notebook_holds_no_outputs() -> None:
    notebook = json.loads(NOTEBOOK.read_text("utf-8"))
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    codes = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(codes) >= 10
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in codes)
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
