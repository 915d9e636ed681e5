"""Reads the OpenMetrics text of `/metrics`.

Takes text, returns families. Pure.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)",?')
_LABELS = r'(?:[A-Za-z_]\w*="(?:[^"\\]|\\.)*",?)*'
_SAMPLE = re.compile(rf"([A-Za-z_:][\w:]*)(?:\{{({_LABELS})\}})? (\S+)(?: \S+)?(?: # .*)?")
_ESCAPES = {r"\\": "\\", r"\"": '"', r"\n": "\n"}


class Sample(NamedTuple):
    """One value of a family; `suffix` is what its name has behind that of the family."""

    suffix: str
    labels: dict[str, str]
    value: float


class Family(NamedTuple):
    """A metric with all of its samples."""

    name: str
    kind: str
    unit: str
    help: str
    samples: list[Sample]


def parse(text: str) -> list[Family]:
    """Return the families of an exposition, in its order."""
    families: dict[str, Family] = {}
    current: Family | None = None
    for line in text.splitlines():
        if line.startswith("# "):
            _, what, *words = line.split(" ", 3)
            if not words:
                continue  # the end
            name, explained = words[0], "".join(words[1:])
            current = families.setdefault(name, Family(name, "unknown", "", "", []))
            if what == "TYPE":
                current = current._replace(kind=explained)
            elif what == "UNIT":
                current = current._replace(unit=explained)
            elif what == "HELP":
                current = current._replace(help=_unescaped(explained))
            families[name] = current
        elif current is not None and (found := _SAMPLE.fullmatch(line)):
            name, labels, value = found.groups()
            pairs = {label: _unescaped(given) for label, given in _LABEL.findall(labels or "")}
            current.samples.append(Sample(name.removeprefix(current.name), pairs, float(value)))
    return list(families.values())


def _unescaped(text: str) -> str:
    return re.sub(r"\\[\\\"n]", lambda found: _ESCAPES[found[0]], text)
