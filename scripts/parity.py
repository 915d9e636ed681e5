"""Write docs/reference/parity.md, which maps Kafka Streams' methods to ours: `parity.py`, or `parity.py --check`.

Takes files of tests/conformance: parity.json (public methods of Kafka Streams 4.1 to 4.4 and its test utilities, each
with its Python spelling or the reason why there is none), parity_classes.json (classes with one reason for all their
methods), kips.json (what came with 4.2 to 4.4), the recorded vectors, and the results of their last run (results.json,
which each run compares with its own); and the package itself. Writes the page, and the table from which `stoatflow
explain` and errors of the package name the counterpart of a method (explain/kafka_streams.json); exit code 1 if one is
stale, or if a spelling is not in the package. Each spelling is looked up in the package, and a run counts only if its
results are the same. tests/oracle/test_parity.py compares both lists with the methods of the real Kafka Streams.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "parity.md"
CONFORMANCE = ROOT / "tests" / "conformance"
NAMES = ROOT / "python" / "stoatflow" / "explain" / "kafka_streams.json"
NOTE = "<!-- Written by `make docs` (scripts/parity.py). Edits here are lost. -->"

_SPELLING = re.compile(r"(?P<path>[\w.]+)(\((?P<argument>\w*)=?\))?")


def exists(spelling: str) -> bool:
    """Whether the package has this class, method, property, field or argument."""
    match = _SPELLING.fullmatch(spelling)
    if match is None:
        return False
    found: Any = importlib.import_module("stoatflow")
    for name in match["path"].split("."):
        if name == "testing":
            found = importlib.import_module("stoatflow.testing")
        elif hasattr(found, name):
            found = getattr(found, name)
        else:
            return match["argument"] is None and name in _annotated(found)
    return not match["argument"] or match["argument"] in inspect.signature(found).parameters


def _annotated(cls: Any) -> set[str]:
    """Return fields without a default, which only the annotations list."""
    return {field for base in getattr(cls, "__mro__", ()) for field in getattr(base, "__annotations__", {})}


def vectors() -> Counter[str]:
    """Count, for each operator, the runs with equal results in which it occurs, by the class on which it is called."""
    results: dict[str, str] = json.loads((CONFORMANCE / "results.json").read_text("utf-8"))
    count: Counter[str] = Counter()
    for path in sorted((CONFORMANCE / "vectors").glob("*.json")):
        case = json.loads(path.read_text("utf-8"))
        if results[case["name"]] != "same":
            continue
        count.update(set(_methods(case["topology"])))
    return count


_GIVES = {
    "stream": "KStream", "table": "KTable", "global_table": "GlobalKTable", "to_table": "KTable",
    "to_stream": "KStream", "count": "KTable", "reduce": "KTable", "aggregate": "KTable", "cogroup": "CogroupedKStream",
}  # fmt: skip


def _methods(steps: list[dict[str, Any]]) -> list[str]:
    kinds: dict[str, str] = {}
    found = []
    for step in steps:
        op = step["op"]
        parent = kinds.get(step.get("from", ""), "StreamsBuilder")
        if op in ("group_by", "group_by_key"):
            made = "KGroupedTable" if parent == "KTable" else "KGroupedStream"
        elif op == "windowed_by":
            windowed = "SessionWindowed" if step["window"]["type"] == "session" else "TimeWindowed"
            made = windowed + ("CogroupedKStream" if parent == "CogroupedKStream" else "KStream")
        else:
            made = _GIVES.get(op, parent)
        kinds[step.get("id", "")] = made
        for branch in [*step.get("branches", []), *([step["default"]] if "default" in step else [])]:
            kinds[branch["id"]] = "KStream"
        found.append(f"{parent}.{'add_state_store' if op == 'state_store' else op}")
    return found


def page() -> tuple[str, list[str]]:
    """Return the page, and what is wrong with the table."""
    rows: list[dict[str, str]] = json.loads((CONFORMANCE / "parity.json").read_text("utf-8"))
    runs = vectors()
    results: dict[str, str] = json.loads((CONFORMANCE / "results.json").read_text("utf-8"))
    spelled = [row for row in rows if row.get("python")]
    wrong = [f"{row['java']}: the package has no {row['python']}" for row in spelled if not exists(row["python"])]
    bare = [row for row in rows if not row.get("python") and not row.get("why")]
    wrong += [f"{row['java']}: neither a spelling nor a reason" for row in bare]
    classes: list[dict[str, str]] = json.loads((CONFORMANCE / "parity_classes.json").read_text("utf-8"))
    kips: list[dict[str, str]] = json.loads((CONFORMANCE / "kips.json").read_text("utf-8"))
    same = list(results.values()).count("same")
    lines = [
        "# Kafka Streams, method by method",
        "",
        NOTE,
        "",
        f"Of {len(rows)} public methods of Kafka Streams 4.1 to 4.4 and its test utilities, {len(spelled)} have",
        "a spelling here, and each other one a reason. Whole classes without a counterpart are [listed at the",
        "end](#classes-without-a-counterpart). The tests compare both lists with the methods of the real Kafka Streams",
        "(`make test-oracle`, `make test-oracle VERSION=4.4.0`): none is missing.",
        "",
        "`X(y=)` is an argument of `X`. A version behind a method says since when Kafka Streams has it, or until when.",
        "*Runs* counts the runs recorded from Kafka Streams in which the method occurs and which give the same",
        "outputs, timestamps, headers, order and stores here (`make test-conformance`, which compares what it finds",
        f"with `tests/conformance/results.json`: {same} of {len(results)} runs give the same).",
        "They were recorded from 4.1.2; 4.4.0 gives",
        "[the same in all of them](../guide/proving-a-port.md#kafka-streams-42-to-44).",
    ]
    for section in dict.fromkeys(row["section"] for row in rows):
        lines += ["", f"## {section}", "", "| Kafka Streams | here | runs |", "|---|---|---|"]
        for row in rows:
            if row["section"] == section:
                spelling = row.get("python", "")
                here = f"`{spelling}`" if spelling else row["why"]
                lines.append(f"| `{row['java']}`{_versions(row)} | {here} | {runs.get(spelling) or ''} |")
    lines += ["", "## Classes without a counterpart", "", "`*` stands for any text.", ""]
    lines += ["| Kafka Streams | why, or what to use |", "|---|---|"]
    lines += [f"| `{one['classes']}` | {one['why']} |" for one in classes]
    lines += ["", "## What came with 4.2 to 4.4", ""]
    lines += ["| version | proposal | what | here |", "|---|---|---|---|"]
    lines += [f"| {kip['since']} | {kip['kip']} | {kip['what']} | {kip['here']} |" for kip in kips]
    return "\n".join([*lines, ""]), wrong


def names() -> str:
    """Return the package's table: a method, its spelling, or the reason why there is none."""
    rows: list[dict[str, str]] = json.loads((CONFORMANCE / "parity.json").read_text("utf-8"))
    table = [json.dumps([row["java"], row.get("python", ""), row.get("why", "")]) for row in rows]
    return "[\n{}\n]\n".format(",\n".join(table))


def _versions(row: dict[str, str]) -> str:
    return "".join(f", {word} {row[word]}" for word in ("since", "until") if word in row)


def main() -> int:
    """Write the page, or check it."""
    text, wrong = page()
    for line in wrong:
        print(line, file=sys.stderr)
    if "--check" in sys.argv:
        written = {PAGE: text, NAMES: names()}
        stale = [file for file, wanted in written.items() if not file.exists() or file.read_text("utf-8") != wanted]
        for file in stale:
            print(f"{file.relative_to(ROOT)} is stale. Next: make docs", file=sys.stderr)
        return int(bool(stale or wrong))
    PAGE.write_text(text, "utf-8")
    NAMES.write_text(names(), "utf-8")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
