"""Where an expression is not the function that it stands for: said with it, or it is not proposed.

Takes nothing, gives sentences. What holds for every expression is said once, in `docs/guide/doctor.md`.
"""

from __future__ import annotations

from enum import Enum


class Difference(Enum):
    """A corner in which the two differ. `{}`: what is meant."""

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
        """Return the sentence."""
        return self.value.format(what)
