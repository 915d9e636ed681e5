"""The blocks of the guides that need Spark run; tests/python/test_docs.py runs the others."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"


def block(page: Path) -> str:
    """Give the one block that is marked, with the page's line numbers."""
    lines = page.read_text("utf-8").splitlines()
    start = lines.index("```python no-run")
    return "\n" * (start + 1) + "\n".join(lines[start + 1 : lines.index("```", start)])


@pytest.mark.parametrize("page", ["outgrow-one-machine", "spark-reconcile"])
def test_the_guide_runs(spark: SparkSession, page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("stoatflow.spark.session.local_session", lambda **_: nullcontext(spark))
    names: dict[str, Any] = {"__name__": "__main__"}
    # The page is this repository's own.
    exec(compile(block(GUIDE / f"{page}.md"), f"{page}.md", "exec"), names)  # noqa: S102
