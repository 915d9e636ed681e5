"""The blocks of the guides that need Spark run, except one on Sail; tests/python/test_docs.py runs the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide"


def blocks(page: Path) -> Iterator[str]:
    """Return the marked blocks, with the page's line numbers."""
    lines = page.read_text("utf-8").splitlines()
    for start, line in enumerate(lines):
        if line == "```python no-run":
            yield "\n" * (start + 1) + "\n".join(lines[start + 1 : lines.index("```", start)])


@pytest.mark.parametrize(("page", "count"), [("outgrow-one-machine", 3), ("spark-reconcile", 1)])
def test_the_guide_runs(
    spark: SparkSession, page: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("stoatflow.spark.session.local_session", lambda **_: nullcontext(spark))
    found = [block for block in blocks(GUIDE / f"{page}.md") if "pysail" not in block]
    assert len(found) == count
    for block in found:
        names: dict[str, Any] = {"__name__": "__main__"}
        # The page is this repository's own.
        exec(compile(block, f"{page}.md", "exec"), names)  # noqa: S102
