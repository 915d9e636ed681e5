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
    """One line per record: `[label]: key, value`. To standard output, another stream, or a file's path."""

    to: TextIO | str | PathLike[str] | None = None
    label: str | None = None
    format: Callable[[K, V], str] | None = None

    @classmethod
    def to_sys_out(cls, label: str | None = None) -> Printed[Any, Any]:
        """To standard output."""
        return cls(None, label)

    @classmethod
    def to_file(cls, path: str | PathLike[str], label: str | None = None) -> Printed[Any, Any]:
        """To the end of a file."""
        return cls(path, label)

    def writer(self, label: str) -> Callable[[K, V], None]:
        """Give what writes one record. A file is opened for each record: nothing is lost in a buffer."""
        shown = self.label if self.label is not None else label
        shape = self.format or (lambda key, value: f"{key}, {value}")
        to = self.to

        def write(key: K, value: V) -> None:
            line = f"[{shown}]: {shape(key, value)}\n"
            if to is None:
                # Looked up now: a notebook or a test may have put another stream in its place.
                sys.stdout.write(line)
                sys.stdout.flush()
            elif isinstance(to, str | PathLike):
                with open(to, "a", encoding="utf-8") as file:
                    file.write(line)
            else:
                to.write(line)
                to.flush()

        return write
