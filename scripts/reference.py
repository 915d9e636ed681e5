"""Write the pages of docs/reference that the engine knows best: `reference.py`, or `reference.py --check`.

Takes: the tables of the native module, and that of the batch twin. Gives: settings.md, streams-config.md, errors.md and
spark.md; with `--check` exit code 1 if they are stale. Never: knows a setting or an error itself.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

from stoatflow import errors
from stoatflow._runtime.bridge import error_kinds, settings_schema, streams_config_markdown
from stoatflow.spark.twin import faithful

ROOT = Path(__file__).resolve().parents[1]
PAGES = ROOT / "docs" / "reference"
TESTS = ROOT / "tests"
NOTE = "<!-- Written by `make docs` (scripts/reference.py) from the engine's own tables. Edits here are lost. -->"

TYPES = {
    "Text": "text",
    "Path": "path",
    "Bool": "`true` or `false`",
    "Choice": "a word",
    "Count": "whole number",
    "Duration": "milliseconds",
    "Size": "bytes",
}


def settings_page() -> str:
    """Return the page of all settings."""
    rows = [
        f"| `{name}` | {TYPES.get(kind, kind)} | {_default(default)} | {_cell(text)} |"
        for name, kind, default, text in settings_schema()
    ]
    return "\n".join(
        [
            "# Settings",
            "",
            NOTE,
            "",
            "Names are those of Kafka Streams where it has the setting. How to give them, and in which order they win:",
            "[configuration](../guide/configuration.md).",
            "",
            "| name | type | default | what it does |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def streams_config_page() -> str:
    """Return the page of Kafka Streams' names."""
    return f"""# Every name of Kafka Streams' StreamsConfig

{NOTE}

A configuration of Kafka Streams starts as it is. Names that mean something here are taken over or mapped; the others
are accepted, and one line of the log for each says why it doesn't matter. With `config.strict=true` (or `strict=True`)
they are refused. Names that nobody knows are always refused. How to move an application:
[moving from Kafka Streams](../guide/moving-from-kafka-streams.md).

{streams_config_markdown()}"""


def errors_page() -> str:
    """Return the page of all errors."""
    rows = [f"| {_class(kind)} | `{kind}` | {_meaning(kind)} | {_cell(action)} |" for kind, action in error_kinds()]
    return "\n".join(
        [
            "# Errors",
            "",
            NOTE,
            "",
            "Every error is a `StoatFlowError`, one class per action that its reader has to take. It carries",
            "`message`, `kind`, `next_step` and `coordinates` (what is known of function, node, store, topic,",
            "partition, offset, lane, epoch). The exception of a function of yours is the `__cause__` of a",
            "`ProcessingError`. `exit_code` is what the command line ends with: 2 for wrong settings, arguments or",
            "topologies, 3 for `StalledError`, 4 for `FencedError` (both: a script too that doesn't catch it), and 1",
            "for every other error. [Deploying](../guide/deploying.md) tells what a supervisor does with them.",
            "",
            "Two classes are no `StoatFlowError`. `RowError` (of a row and a reason) is yours to raise, in a function",
            "of [`map_batches`](../guide/arrow.md). `WorkerError` is what a worker answered instead of a result:",
            "`on_error` of an [`offload`](../guide/offload.md) gets it.",
            "",
            "| class | kind | what happened | what to do, unless the message knows better |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def spark_page() -> str:
    """Return the page of what the batch twin does the same, with a difference, or not at all."""
    rows = [f"| `{name}` | {_verdict(verdict)} |" for name, verdict in faithful.OPERATORS.items()]
    others = [f"| {name} | {_verdict(verdict)} |" for name, verdict in faithful.OTHERS.items()]
    listed = (TESTS / "spark" / "twin_differs.txt").read_text("utf-8").splitlines()
    differs = [line for line in listed if line and not line.startswith("#")]
    count = len(list((TESTS / "conformance" / "vectors").glob("*.json")))
    same = count - len(differs)
    why = Counter(line.partition(": ")[2] for line in differs)
    return "\n".join(
        [
            "# What the batch twin does the same",
            "",
            NOTE,
            "",
            "[The batch twin](../guide/outgrow-one-machine.md) runs the same engine in Spark's tasks. What can't be",
            "the same there is refused by name, before the first record.",
            "",
            f"**{same} of the {count} recorded vectors of Kafka Streams ({same / count:.0%}) come out the same**:",
            "records by key in their order with timestamps and headers, and stores at the end. The others:",
            "",
            *(f"- {reason}: {number}" for reason, number in why.items()),
            "",
            "## Operators",
            "",
            "| operator | |",
            "|---|---|",
            *rows,
            "",
            "## Settings and the rest",
            "",
            "| what | |",
            "|---|---|",
            *others,
            "",
        ]
    )


def _verdict(verdict: faithful.Verdict) -> str:
    return _cell(verdict.what if verdict.what == faithful.SAME else f"**{verdict.what}**: {verdict.text}")


def pages() -> dict[Path, str]:
    """Return every page with what it must hold."""
    return {
        PAGES / "settings.md": settings_page(),
        PAGES / "streams-config.md": streams_config_page(),
        PAGES / "errors.md": errors_page(),
        PAGES / "spark.md": spark_page(),
    }


def stale() -> list[str]:
    """Return the names of pages that don't hold what they must."""
    return [page.name for page, text in pages().items() if not page.is_file() or page.read_text("utf-8") != text]


def _default(default: str | None) -> str:
    return "**needed**" if default is None else f"`{default}`"


def _class(kind: str) -> str:
    return f"`{errors.ERRORS_BY_KIND[kind].__name__}`"


def _meaning(kind: str) -> str:
    return _cell((errors.ERRORS_BY_KIND[kind].__doc__ or "").strip().splitlines()[0])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    """Write or check."""
    if "--check" in sys.argv[1:]:
        found = stale()
        for name in found:
            print(f"docs/reference/{name} is stale; run: make docs", file=sys.stderr)
        return 1 if found else 0
    for page, text in pages().items():
        page.write_text(text, "utf-8")
        print(f"written: docs/reference/{page.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
