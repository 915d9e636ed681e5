"""Differences between a suggested expression and its function; without them it isn't suggested.

A table of sentences. Differences that hold for every expression are listed in `docs/guide/doctor.md`.
"""

from __future__ import annotations

from enum import Enum


class Difference(Enum):
    """A case in which both differ. `{}`: the part of the function."""

    NULL = "null or missing: where the function raises, the expression goes on with null"
    LEFT_OUT = "null or missing: the aggregation leaves it out, where the function raises or takes it in"
    DEFAULT = "{}: null counts as missing"
    EMPTY = "{}: only null is replaced, not what is empty, 0 or false"
    TRUTH = "{}: must be true, false or null; anything else is an error"
    NUMBERS = "{}: numbers only; a text or a list is an error"
    JOINED = "{}: numbers or texts; lists are not joined"
    ORDERED = "{}: numbers with numbers or texts with texts; lists have no order"
    LIST = "{}: of a list only"
    TEXT = "{}: of a text only"
    OBJECT = "{}: of an object only"
    PLAIN = "{}: the function raises for a list or an object"
    SPELT = "{}: null gives null and not 'None'; a list or an object gives its JSON"
    DIGITS = "{}: of texts, ASCII digits only, and no 'nan' or 'inf'"
    SUM = "{}: the last digit of a sum of floats may differ (Python 3.12 and later rounds in another way)"
    READ_ONCE = "{}: read when the topology is built, not at each call"
    MADE = "the value is made by a Python function: the expression sees its JSON"
    STORED = (
        "the store goes on from what it holds only if that is written alike: the reference of aggregations says how"
    )

    def about(self, what: str = "") -> str:
        """Return the sentence about this part."""
        return self.value.format(what)
