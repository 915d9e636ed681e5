"""Which recorded runs give the same results here, written by the tests that run them.

Takes the outcome of each comparison, writes `results.json`, which is kept in git: the table of
docs/reference/parity.md is counted from it, so it can't claim a run that did not pass. With
`STOATFLOW_TEST_RESULTS=write` (`make docs`) the file is written, otherwise it must match this run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

FILE = Path(__file__).with_name("results.json")
WORDS = {True: "same", False: "differs"}
_found: dict[str, bool] = {}


@contextmanager
def of(run: str) -> Iterator[None]:
    """Record the outcome of a comparison; its exceptions are passed on."""
    _found[run] = False
    yield
    _found[run] = True


def compare(runs: Iterable[str]) -> None:
    """Write the file if requested, after all runs; otherwise raise `AssertionError` if it differs."""
    names = set(runs)
    found = {run: WORDS[same] for run, same in sorted(_found.items())}
    if os.environ.get("STOATFLOW_TEST_RESULTS") == "write":
        assert set(found) == names, "only some of the vectors were run: the file is left as it was"
        FILE.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    kept = json.loads(FILE.read_text("utf-8"))
    assert set(kept) == names, "results.json does not name all vectors, or others. Next: make docs"
    # With `-k` only some were run.
    assert {run: kept[run] for run in found} == found, "results.json is not what this run found. Next: make docs"
