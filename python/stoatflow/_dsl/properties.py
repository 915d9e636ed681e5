"""Java's `.properties` files: names and values, with comments, continued lines and escapes."""

from __future__ import annotations

import re

_PAIR = re.compile(r"((?:\\.|[^\\=:\s])*)\s*(?:[=:]\s*)?(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse(text: str) -> dict[str, str]:
    """Return names and values; the last value of a name counts, as in Java."""
    pairs: dict[str, str] = {}
    for line in _lines(text):
        found = _PAIR.fullmatch(line)
        if found is not None:
            pairs[_plain(found[1])] = _plain(found[2])
    return pairs


def _lines(text: str) -> list[str]:
    """Return lines without comments; a line that ends with a backslash continues on the next one."""
    lines: list[str] = []
    goes_on = False
    for raw in text.splitlines():
        line = raw.lstrip()
        if not goes_on and (not line or line[0] in "#!"):
            continue
        ends_with_backslash = (len(line) - len(line.rstrip("\\"))) % 2 == 1
        line = line[:-1] if ends_with_backslash else line
        if goes_on:
            lines[-1] += line
        else:
            lines.append(line)
        goes_on = ends_with_backslash
    return lines


def _plain(text: str) -> str:
    def meant(found: re.Match[str]) -> str:
        what = found[1]
        return chr(int(what[1:], 16)) if len(what) > 1 else _LETTERS.get(what, what)

    return _ESCAPE.sub(meant, text)
