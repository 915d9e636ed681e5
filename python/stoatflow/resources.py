"""Resources that functions share while an application runs: HTTP clients, connection pools, models.

Takes a function that creates one, returns a handle that is filled before the first record and emptied after the last.
Resources are opened on the application's event loop in the order of declaration, and closed in reverse. Created once
per run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Resource(Generic[T]):
    """A handle of an object that lives as long as the application: `client.value`.

    >>> import contextlib
    >>> builder = sf.StreamsBuilder()
    >>> rates = builder.resource(lambda: contextlib.nullcontext({"EUR": 2}))
    >>> builder.stream("n", value=int).map_values(lambda n: n * rates.value["EUR"]).print()
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("n", value=int).pipe(4)
    [map_values]: None, 8
    """

    def __init__(self, make: Callable[[], Any], line: str) -> None:
        """Created by `StreamsBuilder.resource`."""
        self._make = make
        self._line = line
        self._open: list[T] = []

    @property
    def name(self) -> str:
        """Name of the function that creates it.

        >>> def rates():
        ...     yield {"EUR": 2}
        >>> sf.StreamsBuilder().resource(rates).name
        'rates'
        """
        return getattr(self._make, "__name__", type(self._make).__name__)

    @property
    def value(self) -> T:
        """The open object; raises `RuntimeError` while no application runs.

        >>> def rates():
        ...     yield {"EUR": 2}
        ...     print("closed")
        >>> builder = sf.StreamsBuilder()
        >>> opened = builder.resource(rates)
        >>> builder.stream("n", value=int).map_values(lambda n: n * opened.value["EUR"]).print()
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", value=int).pipe(4)
        [map_values]: None, 8
        closed
        """
        # Read once: the application may end in another thread at any moment.
        made = self._open
        if not made:
            raise RuntimeError(
                f"{self._line} the resource '{self.name}' is not open: no application of its topology runs. "
                "Next: use it inside functions only"
            )
        return made[0]

    async def open(self, stack: AsyncExitStack) -> None:
        """Create it, on the event loop; its cleanup is pushed on the stack."""
        made = self._make()
        if inspect.isasyncgen(made):
            made = asynccontextmanager(lambda: made)()
        elif inspect.isgenerator(made):
            made = contextmanager(lambda: made)()
        elif inspect.isawaitable(made) and not hasattr(type(made), "__aenter__"):
            made = await made
        if hasattr(type(made), "__aenter__"):
            made = await stack.enter_async_context(made)
        elif hasattr(type(made), "__enter__"):
            made = stack.enter_context(made)
        self._open = [made]

    def forget(self) -> None:
        """Empty the handle: the object is closed."""
        self._open = []

    def __repr__(self) -> str:
        """Show its name and whether it is open."""
        return f"<Resource {self.name} ({'open' if self._open else 'closed'})>"
