"""All entries, from the engine's tables, and how they are found by name.

Takes the tables of the native module, the classes of errors and `measured.json`, returns entries. Never uses the
network, and defines no meaning itself.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from importlib.resources import files

from stoatflow._runtime.bridge import error_kinds, settings_schema, streams_config_markdown
from stoatflow.errors import ERRORS_BY_KIND
from stoatflow.explain.causes import CAUSES
from stoatflow.explain.entry import Entry

__all__ = ["TYPES", "entries", "find", "nearest"]

TYPES = {
    "Text": "text",
    "Path": "path",
    "Bool": "`true` or `false`",
    "Choice": "a word",
    "Count": "whole number",
    "Duration": "milliseconds",
    "Size": "bytes",
}
_ROW = re.compile(r"^\| `([^`]+)` \| (.+) \|$", re.MULTILINE)


def entries() -> list[Entry]:
    """Return all entries, by sort and in the order of the tables."""
    return [*_errors(), *_settings(), *_drops(), *_metrics(), *_kafka_streams()]


def find(name: str, among: Sequence[Entry]) -> list[Entry]:
    """Return the entries with this name; case and punctuation are ignored."""
    wanted = _plain(name)
    return [entry for entry in among if wanted in map(_plain, entry.names)]


def nearest(name: str, among: Sequence[Entry]) -> list[str]:
    """Return the names most similar to this one, the nearest first."""
    shown = {_plain(each): entry.name for entry in among for each in entry.names}
    alike = difflib.get_close_matches(_plain(name), shown, n=5, cutoff=0.6)
    within = [plain for plain in shown if len(name) > 2 and _plain(name) in plain]
    return list(dict.fromkeys(shown[plain] for plain in (*alike, *within)))[:5]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _errors() -> Iterator[Entry]:
    for kind, next_step, class_name in error_kinds():
        of, causes = ERRORS_BY_KIND[kind], CAUSES[kind]
        yield Entry(
            sort="error",
            name=class_name,
            other_names=(kind,),
            meaning=(of.__doc__ or "").strip().splitlines()[0],
            page=f"reference/errors.md#{class_name.lower()}",
            facts={"kind": kind, "exit code": str(of.exit_code)},
            causes=causes.usual,
            next_step=next_step,
            see=(*causes.see, f"docs/{causes.page}"),
        )


def _settings() -> Iterator[Entry]:
    for name, kind, default, text in settings_schema():
        yield Entry(
            sort="setting",
            name=name,
            other_names=(f"STOATFLOW_{name.upper().replace('.', '_')}",),
            meaning=text,
            page="reference/settings.md",
            facts={
                "type": TYPES.get(kind, kind),
                "default": "none: it is needed" if default is None else default,
                "variable": f"STOATFLOW_{name.upper().replace('.', '_')}",
            },
        )


def _drops() -> Iterator[Entry]:
    for name, text in _measured()["drops"]:
        yield Entry(
            sort="drop",
            name=name,
            meaning=text,
            page="reference/metrics.md#why-records-are-dropped",
            see=("`stoatflow_dropped_records_total` at `/metrics`: how many, by node and reason",),
        )


def _metrics() -> Iterator[Entry]:
    for name, kind, text in _measured()["metrics"]:
        yield Entry(
            sort="metric",
            name=name,
            other_names=(name.removeprefix("stoatflow_"), name.removesuffix("_total").removesuffix("_info")),
            meaning=text,
            page="reference/metrics.md#metrics",
            facts={"type": kind},
        )


def _kafka_streams() -> Iterator[Entry]:
    ours = {name for name, *_ in settings_schema()}
    for name, text in _ROW.findall(streams_config_markdown()):
        if name not in ours:
            yield Entry(
                sort="Kafka Streams",
                name=name,
                meaning=text.replace("\\|", "|"),
                page="reference/streams-config.md",
            )


def _measured() -> dict[str, list[list[str]]]:
    table: dict[str, list[list[str]]] = json.loads((files("stoatflow.explain") / "measured.json").read_text("utf-8"))
    return table
