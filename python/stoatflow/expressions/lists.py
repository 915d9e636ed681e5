"""Methods of lists: `sf.value.list`.

Takes an expression whose value is a list, returns further expressions. For null the result is null; sums, means and
extremes skip null elements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoatflow.expressions.expression import Expression, Operand


class ListMethods:
    """Methods of a list: `sf.value.list`."""

    __slots__ = ("_of",)

    def __init__(self, of: Expression) -> None:
        """Created by `Expression.list`."""
        self._of = of

    def len(self) -> Expression:
        """Return the number of elements."""
        return self._of.len()

    def get(self, index: Expression | int) -> Expression:
        """Return an element by index; null if there is none."""
        return self._of[index]

    def first(self) -> Expression:
        """Return the first element; null if there is none."""
        return self._of[0]

    def last(self) -> Expression:
        """Return the last element; null if there is none."""
        return self._of[-1]

    def slice(self, start: Expression | int | None = None, stop: Expression | int | None = None) -> Expression:
        """Return the elements from `start` to before `stop`: `sf.value[start:stop]`."""
        return self._of._call("slice", start, stop)

    def contains(self, item: Operand) -> Expression:
        """Whether an element equals this."""
        return self._of._call("list_contains", item)

    def sum(self) -> Expression:
        """Return the sum; 0 if there is nothing to add."""
        return self._of._call("list_sum")

    def mean(self) -> Expression:
        """Return the mean; null if there is nothing to add."""
        return self._of._call("list_mean")

    def min(self) -> Expression:
        """Return the smallest element; null if there is none."""
        return self._of._call("list_min")

    def max(self) -> Expression:
        """Return the largest element; null if there is none."""
        return self._of._call("list_max")

    def join(self, between: Expression | str) -> Expression:
        """Join texts with this separator."""
        return self._of._call("list_join", between)

    def sort(self, *, descending: bool = False) -> Expression:
        """Sort numbers or texts; nulls come first."""
        return self._of._call("list_sort", descending)

    def unique(self) -> Expression:
        """Return each distinct element once, in order of first occurrence."""
        return self._of._call("list_unique")

    def reverse(self) -> Expression:
        """Return the elements in reverse order."""
        return self._of._call("list_reverse")
