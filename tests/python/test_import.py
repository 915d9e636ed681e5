"""Importing the package costs next to nothing; names are loaded at their first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

import stoatflow as sf


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_import_is_fast() -> None:
    code = "import time; t = time.perf_counter(); import stoatflow; print(time.perf_counter() - t)"
    assert min(float(python(code)) for _ in range(3)) < 0.150


def test_import_loads_nothing_heavy() -> None:
    code = (
        "import sys, stoatflow; "
        "print([m for m in ('stoatflow._native', 'asyncio', 'json', 'inspect', 'pyspark') if m in sys.modules])"
    )
    assert python(code) == "[]"


def test_every_public_name_loads() -> None:
    names = vars(sf)["__all__"]  # hidden from type checkers, which see the imports
    assert len(names) > 30
    for name in names:
        assert getattr(sf, name) is not None
        assert name in dir(sf)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'KStreem'"):
        sf.KStreem  # type: ignore[attr-defined]  # noqa: B018
