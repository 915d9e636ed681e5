"""Where and how `KStream.print` writes records."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from typing import Any, Generic, TextIO, TypeVar

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True)
class Printed(Generic[K, V]):
    """One line per record: `[label]: key, value`. Written to standard output, another stream, or a file.

    >>> builder = sf.StreamsBuilder()
    >>> how = sf.Printed(label="orders", format=lambda key, value: f"{key} ordered {value}")
    >>> builder.stream("orders", key=str, value=int).print(how)
    >>> with TopologyTestDriver(builder.build()) as driver:
    ...     driver.input("orders", str, int).pipe("ann", 3)
    [orders]: ann ordered 3
    """

    to: TextIO | str | PathLike[str] | None = None
    label: str | None = None
    format: Callable[[K, V], str] | None = None

    @classmethod
    def to_sys_out(cls, label: str | None = None) -> Printed[Any, Any]:
        """Print to standard output.

        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("n", key=str, value=int).print(sf.Printed.to_sys_out("numbers"))
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe("a", 1)
        [numbers]: a, 1
        """
        return cls(None, label)

    @classmethod
    def to_file(cls, path: str | PathLike[str], label: str | None = None) -> Printed[Any, Any]:
        """Append to a file.

        >>> from pathlib import Path
        >>> builder = sf.StreamsBuilder()
        >>> builder.stream("n", key=str, value=int).print(sf.Printed.to_file("seen.txt", "numbers"))
        >>> with TopologyTestDriver(builder.build()) as driver:
        ...     driver.input("n", str, int).pipe("a", 1)
        >>> Path("seen.txt").read_text().splitlines()
        ['[numbers]: a, 1']
        """
        return cls(path, label)

    def writer(self, label: str) -> Callable[[K, V], None]:
        """Return a function that writes one record. A file is opened for each record, so nothing is lost in a buffer.

        >>> write = sf.Printed().writer("numbers")
        >>> write("a", 1)
        [numbers]: a, 1
        """
        shown = self.label if self.label is not None else label
        shape = self.format or (lambda key, value: f"{key}, {value}")
        to = self.to

        def write(key: K, value: V) -> None:
            line = f"[{shown}]: {shape(key, value)}\n"
            if to is None:
                # Looked up at each call: a notebook or a test may have replaced the stream.
                sys.stdout.write(line)
                sys.stdout.flush()
            elif isinstance(to, str | PathLike):
                with open(to, "a", encoding="utf-8") as file:
                    file.write(line)
            else:
                to.write(line)
                to.flush()

        return write
