"""Arithmetic of expressions: the operators of Python, and methods of numbers.

A base class of `Expression`, which makes the trees. For null the result is null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stoatflow.expressions.expression import Expression, Literal, Operand


class Arithmetic:
    """Operators and methods of numbers."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _then(self, op: str, other: Operand) -> Expression: ...

        def _after(self, op: str, other: Operand) -> Expression: ...

        def _call(self, function: str, *args: Operand) -> Expression: ...

    def __add__(self, other: Expression | Literal) -> Expression:
        """Add numbers, or join texts."""
        return self._then("add", other)

    def __radd__(self, other: Literal) -> Expression:
        """Add numbers, or join texts."""
        return self._after("add", other)

    def __sub__(self, other: Expression | Literal) -> Expression:
        """Subtract."""
        return self._then("sub", other)

    def __rsub__(self, other: Literal) -> Expression:
        """Subtract."""
        return self._after("sub", other)

    def __mul__(self, other: Expression | Literal) -> Expression:
        """Multiply."""
        return self._then("mul", other)

    def __rmul__(self, other: Literal) -> Expression:
        """Multiply."""
        return self._after("mul", other)

    def __truediv__(self, other: Expression | Literal) -> Expression:
        """Divide; the result is always a float, as in Python."""
        return self._then("div", other)

    def __rtruediv__(self, other: Literal) -> Expression:
        """Divide; the result is always a float, as in Python."""
        return self._after("div", other)

    def __floordiv__(self, other: Expression | Literal) -> Expression:
        """Divide and round down, as in Python."""
        return self._then("floor_div", other)

    def __rfloordiv__(self, other: Literal) -> Expression:
        """Divide and round down, as in Python."""
        return self._after("floor_div", other)

    def __mod__(self, other: Expression | Literal) -> Expression:
        """Return the remainder, with the divisor's sign, as in Python."""
        return self._then("mod", other)

    def __rmod__(self, other: Literal) -> Expression:
        """Return the remainder, with the divisor's sign, as in Python."""
        return self._after("mod", other)

    def __neg__(self) -> Expression:
        """Negate a number."""
        return self._call("neg")

    def __pow__(self, other: Expression | Literal) -> Expression:
        """Raise to a power, as in Python: integers stay integers, except for negative exponents."""
        return self._call("pow", other)

    def pow(self, exponent: Expression | Literal) -> Expression:
        """Raise to a power.

        >>> sf.value.pow(2).evaluate(5)
        25
        """
        return self**exponent

    def abs(self) -> Expression:
        """Return the absolute value.

        >>> sf.value.abs().evaluate(-3)
        3
        """
        return self._call("abs")

    __abs__ = abs  # noqa: A003  # Python's own names are the best known

    def round(self, digits: int | None = None) -> Expression:
        """Round as Python does, halves to even; without `digits` the result is an integer.

        >>> sf.value.round(1).evaluate(2.345)
        2.3
        """
        return self._call("round", *(() if digits is None else (digits,)))

    __round__ = round  # noqa: A003

    def floor(self) -> Expression:
        """Return the largest integer that is not larger.

        >>> sf.value.floor().evaluate(2.7)
        2
        """
        return self._call("floor")

    __floor__ = floor

    def ceil(self) -> Expression:
        """Return the smallest integer that is not smaller.

        >>> sf.value.ceil().evaluate(2.1)
        3
        """
        return self._call("ceil")

    __ceil__ = ceil

    def sqrt(self) -> Expression:
        """Return the square root.

        >>> sf.value.sqrt().evaluate(9)
        3.0
        """
        return self._call("sqrt")

    def clip(self, low: Operand = None, high: Operand = None) -> Expression:
        """Limit the value to the bounds.

        >>> sf.value.clip(0, 100).evaluate(250)
        100
        """
        return self._call("clip", low, high)
