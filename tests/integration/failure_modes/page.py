"""The page about each failure: docs/guide/failure-modes.md.

Takes what was seen, returns the section of the page. Never causes a failure itself.
"""

from __future__ import annotations

import re
from pathlib import Path

from failure_modes.modes import Mode, Seen

PAGE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "failure-modes.md"
HEAD = """\
<!-- Written by tests/integration/test_failure_modes.py with STOATFLOW_TEST_WRITE_PAGES=1. -->

# Failure modes

The symptoms of each usual failure, and what to do. A test causes each failure on a real broker and compares the
symptoms with this page. `N` stands for a number, `BROKER` for an address, `APPLICATION` for `application.id`.

Under `exactly_once_v2` none of these failures loses a record or counts one twice: readers don't see a transaction that
isn't committed, and its records are processed again. Most failures raise an
[alert](monitoring.md#alerts-and-what-to-do), and by the [exit code](lifecycle.md#exit-codes) a supervisor knows whether
to start the application again.
"""


def section(mode: Mode, seen: Seen) -> str:
    """The section about a failure, from what was seen."""
    rows = [(f"`{path}`" if path.startswith("/") else path, what) for path, what in seen.endpoints]
    rows += [("`/metrics`", f"`{metric}`") for metric in seen.metrics]
    for finding in seen.findings:
        link = finding.page.removeprefix("docs/guide/")
        rendered = f"{finding.message}. Next: {finding.next_step}"
        rows.append(("doctor and console", f"{finding.severity}, [`{finding.code}`]({link}): {rendered}"))
    rows += [("log", f"`{level}` {message}") for level, message in seen.log]
    rows += [("error", f"Next: {seen.next_step}")] * bool(seen.next_step)
    rows += [("in the end", seen.end)]
    table = ["| where | what |", "|---|---|", *(f"| {where} | {_cell(what)} |" for where, what in rows)]
    happens = (mode.cause.__doc__ or "").strip()
    return "\n".join([f"## {mode.title}", "", happens, "", *table, "", *_wrapped(f"Do: {mode.do}"), ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;") if "`" not in text else text


def _wrapped(text: str, width: int = 118) -> list[str]:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines


def rendered(mode: Mode) -> str:
    """The current section of the page."""
    text = PAGE.read_text("utf-8") if PAGE.exists() else ""
    found = re.search(rf"^## {re.escape(mode.title)}\n.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    return found[0].rstrip("\n") + "\n" if found else ""
