"""The parts of windowed keys: `sf.key.key`, `sf.key.window.start`, `sf.key.window.end`.

Named as the attributes of `Windowed`, which functions get. Only `sf.key` has them, so that `sf.value.key` stays an
error.
"""

from __future__ import annotations

from stoatflow.expressions.expression import Expression


class RecordKey(Expression):
    """The record's key, `sf.key`, which may be windowed.

    For type checkers: `sf.key` itself is an `Expression` that has these properties too. If it had a class of its own,
    Python would turn `sf.value > sf.key` round.
    """

    __slots__ = ()

    @property
    def key(self) -> Expression:
        """The key without its window.

        >>> sf.key.key.evaluate(key=sf.Windowed("ann", sf.Window(0, 60_000)))
        'ann'
        """
        return self._call("windowed_key")

    @property
    def window(self) -> KeyWindow:
        """The window of the key.

        >>> sf.key.window.start.evaluate(key=sf.Windowed("ann", sf.Window(0, 60_000)))
        0
        """
        return KeyWindow(self)


class KeyWindow:
    """The window of a windowed key: `sf.key.window`."""

    __slots__ = ("_of",)

    def __init__(self, of: Expression) -> None:
        """Created by `RecordKey.window`."""
        self._of = of

    @property
    def start(self) -> Expression:
        """The start, in milliseconds since 1970.

        >>> sf.key.window.start.dt.iso().evaluate(key=sf.Windowed("ann", sf.Window(0, 60_000)))
        '1970-01-01T00:00:00.000Z'
        """
        return self._of._call("window_start")

    @property
    def end(self) -> Expression:
        """The end, in milliseconds since 1970: exclusive, but for sessions the time of their last record.

        >>> sf.key.window.end.evaluate(key=sf.Windowed("ann", sf.Window(0, 60_000)))
        60000
        """
        return self._of._call("window_end")
