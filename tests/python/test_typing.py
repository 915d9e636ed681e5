"""mypy --strict and pyright in strict mode infer key and value types through a chain, and reject wrong calls."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import stoatflow as sf

ROOT = Path(__file__).parents[2]
PACKAGES = {"durations", "expressions", "serdes", "testing"}
"""Modules that users import besides the names of the root."""


def pyright(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    assert importlib.util.find_spec("pyright"), "pyright is missing. Next: scripts/setup.sh typing"
    # It would query npm for a newer version of itself.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYRIGHT_")}
    # `--verifytypes` uses the first `python` in PATH to find packages, whatever --pythonpath says.
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=environment | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
    )


def test_mypy_infers_types(tmp_path: Path) -> None:
    # Every wrong call in the files has an ignore; --strict reports an ignore that is not needed.
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "tests/python/typing"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_pyright_infers_types() -> None:
    """In the same files, and in all examples, as [tool.pyright] in pyproject.toml configures."""
    ended = pyright("--project", str(ROOT), cwd=ROOT)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "0 errors" in ended.stdout


def test_every_public_type_is_known(tmp_path: Path) -> None:
    """No public name has a type that a checker must guess: `pyright --verifytypes`."""
    ended = pyright("--ignoreexternal", "--outputjson", "--verifytypes", "stoatflow", cwd=tmp_path)
    symbols: list[dict[str, Any]] = json.loads(ended.stdout)["typeCompleteness"]["symbols"]
    homes = PACKAGES | set(vars(sf)["_HOMES"]) | set(vars(sf)["__all__"])
    public = [each for each in symbols if each["isExported"] and each["name"].split(".")[1:2][0] in homes]
    assert len(public) > 1500
    guessed = {
        each["name"]: [one["message"] for one in each["diagnostics"]]
        for each in public
        if not each["isTypeKnown"] or each["isTypeAmbiguous"]
    }
    assert guessed == {}
