"""Tables of an application's metrics, read from the engine's source: drops, metrics, names of Kafka Streams.

Takes the Rust files that define them, returns names with their texts. `reference.py` writes them into the package, for
`stoatflow explain`, and into the page of metrics; a test compares them with a running application's metrics.
"""

from __future__ import annotations

import re
from pathlib import Path

CRATES = Path(__file__).resolve().parents[1] / "crates"
ADMIN = CRATES / "engine" / "src" / "admin"
REASON = re.compile(r'((?:^/// .*\n)+)pub const \w+: &str = "(\w+)";', re.MULTILINE)
HANDLED = re.compile(r'\(Self::(\w+), (true|false)\) => "(\w+)"')
FAMILY = re.compile(r'\.(counter|gauge|durations|encode_descriptor)\(\s*"(\w+)",\s*"([^"]+)"')
TYPES = {"durations": "histogram", "encode_descriptor": "info"}
ENDINGS = {"counter": "_total", "info": "_info"}
METRIC = re.compile(r'metric\(\s*"(\w+)",\s*(\w+),\s*"([^"]+)",\s*"([^"]+)",?\s*\)')
CONTINUED = re.compile(r"\\\n\s*")


def drops() -> list[tuple[str, str]]:
    """Return the reasons for which records are dropped."""
    source = (CRATES / "operators" / "src" / "support" / "dropped.rs").read_text("utf-8")
    found = [(name, " ".join(text.replace("///", "").split())) for text, name in REASON.findall(source)]
    handlers = (CRATES / "core" / "src" / "handler.rs").read_text("utf-8")
    for where, dead_letter, name in HANDLED.findall(handlers):
        became = "it went to a dead-letter topic" if dead_letter == "true" else "its handler left it out"
        found.append((name, f"It failed in {where.lower()}, and {became}."))
    return found


def metrics() -> list[tuple[str, str, str]]:
    """Return name, type and text of each metric, by name."""
    found = []
    for file in [ADMIN / "metrics.rs", *(ADMIN / "metrics").glob("*.rs")]:
        prefix = "" if file.name == "process.rs" else "stoatflow_"
        for call, name, text in FAMILY.findall(file.read_text("utf-8")):
            kind = TYPES.get(call, call)
            found.append((f"{prefix}{name}{ENDINGS.get(kind, '')}", kind, text))
    return sorted(found)


def kafka_streams() -> list[tuple[str, str, str, str]]:
    """Return Kafka Streams' metrics that `/metrics` has: with type, our metrics, and their meaning here."""
    source = (ADMIN / "metrics" / "kafka_streams" / "names.rs").read_text("utf-8")
    return [(name, kind.lower(), ours, CONTINUED.sub("", text)) for name, kind, ours, text in METRIC.findall(source)]


def no_counterpart() -> list[tuple[str, list[str]]]:
    """Return Kafka Streams' metrics that `/metrics` doesn't have, by reason."""
    groups: list[tuple[str, list[str]]] = []
    for line in (Path(__file__).parent / "no_counterpart.txt").read_text("utf-8").splitlines():
        if line.startswith("  "):
            groups[-1][1].append(line.strip())
        elif line and not line.startswith("#"):
            groups.append((line, []))
    return groups
