"""Methods of texts: `sf.value.str`.

Takes an expression whose value is a text, returns further expressions. Names and meanings are those of Python's `str`,
and `re` for patterns; for null the result is null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoatflow.expressions.expression import Expression, Literal


class TextMethods:
    """Methods of a text: `sf.value.str`."""

    __slots__ = ("_of",)

    def __init__(self, of: Expression) -> None:
        """Created by `Expression.str`."""
        self._of = of

    def lower(self) -> Expression:
        """Convert to lower case."""
        return self._of._made("str_lower")

    def upper(self) -> Expression:
        """Convert to upper case."""
        return self._of._made("str_upper")

    def len(self) -> Expression:
        """Return the number of characters."""
        return self._of.len()

    def strip(self, chars: Expression | str | None = None) -> Expression:
        """Remove these characters at both ends; by default whitespace."""
        return self._of._made("str_strip") if chars is None else self._of._call("str_strip_chars", chars)

    def lstrip(self, chars: Expression | str | None = None) -> Expression:
        """Remove these characters (by default whitespace) at the start."""
        return self._of._call("str_lstrip", *(() if chars is None else (chars,)))

    def rstrip(self, chars: Expression | str | None = None) -> Expression:
        """Remove these characters (by default whitespace) at the end."""
        return self._of._call("str_rstrip", *(() if chars is None else (chars,)))

    def split(self, by: str | None = None, n: int = -1) -> Expression:
        """Split at a separator, or at runs of whitespace without one; at most `n` splits."""
        if by == "":
            raise ValueError("split(''): an empty separator; leave it out to split at white space")
        checked = None if by is None else text("split", by)
        if n < 0:
            return self._of._made("str_split", by=checked)
        return self._of._call("str_split_n", checked, n)

    def contains(self, text_: Expression | str) -> Expression:
        """Whether it contains this text."""
        return self._of._made("str_contains", text=text("contains", text_))

    def startswith(self, text_: Expression | str) -> Expression:
        """Whether it starts with this text."""
        return self._of._made("str_starts_with", text=text("startswith", text_))

    def endswith(self, text_: Expression | str) -> Expression:
        """Whether it ends with this text."""
        return self._of._made("str_ends_with", text=text("endswith", text_))

    def slice(self, start: Expression | int | None = None, stop: Expression | int | None = None) -> Expression:
        """Return the characters from `start` to before `stop`: `sf.value[start:stop]`."""
        return self._of._call("slice", start, stop)

    def replace(self, old: Expression | str, new: Expression | str, count: Expression | int = -1) -> Expression:
        """Replace each occurrence of a text, or the first `count`."""
        return self._of._call("str_replace", old, new, count)

    def removeprefix(self, prefix: Expression | str) -> Expression:
        """Remove this prefix, if present."""
        return self._of._call("str_removeprefix", prefix)

    def removesuffix(self, suffix: Expression | str) -> Expression:
        """Remove this suffix, if present."""
        return self._of._call("str_removesuffix", suffix)

    def zfill(self, width: Expression | int) -> Expression:
        """Pad with zeros after the sign."""
        return self._of._call("str_zfill", width)

    def ljust(self, width: Expression | int, fill: str = " ") -> Expression:
        """Pad at the end."""
        return self._of._call("str_ljust", width, _one(fill))

    def rjust(self, width: Expression | int, fill: str = " ") -> Expression:
        """Pad at the start."""
        return self._of._call("str_rjust", width, _one(fill))

    def find(self, what: Expression | str) -> Expression:
        """Return the index of the first occurrence, or -1."""
        return self._of._call("str_find", what)

    def count(self, what: Expression | str) -> Expression:
        """Return the number of non-overlapping occurrences."""
        return self._of._call("str_count", what)

    def matches(self, pattern: str) -> Expression:
        """Whether the pattern occurs in it. Write `^...$` to match the whole text."""
        return self._of._call("str_matches", text("matches", pattern))

    def extract(self, pattern: str, group: int | str = 1) -> Expression:
        """Return a group of the first match of the pattern (0: all of the match), or null."""
        return self._of._call("str_extract", text("extract", pattern), group)

    def extract_all(self, pattern: str, group: int | str = 0) -> Expression:
        """Return all matches of the pattern, as a list."""
        return self._of._call("str_extract_all", text("extract_all", pattern), group)

    def replace_regex(self, pattern: str, replacement: str) -> Expression:
        r"""Replace all matches of the pattern: `\1` and `\g<name>` in the replacement are its groups."""
        return self._of._call("str_replace_regex", text("replace_regex", pattern), text("replace_regex", replacement))

    def to_int(self, base: int = 10, *, strict: bool = True) -> Expression:
        """Convert to an integer like `int(text, base)`; with `strict=False` null if it isn't one."""
        return self._of._call("str_to_int", base, strict)

    def to_timestamp(self, tz: str | None = None, *, strict: bool = True) -> Expression:
        """Parse ISO 8601 to milliseconds since 1970; a time without an offset is in `tz` (UTC)."""
        return self._of._call("str_to_timestamp", tz or "UTC", strict)


def text(method: str, given: Expression | Literal) -> str:
    """Return a text unchanged; refuse an expression where the engine needs the text in advance."""
    if not isinstance(given, str):
        raise TypeError(f"{method} takes a text, not {type(given).__name__}: it is not evaluated for each record")
    return given


def _one(fill: str) -> str:
    if not isinstance(fill, str) or len(fill) != 1:
        raise ValueError(f"the fill must be one character, not {fill!r}")
    return fill
