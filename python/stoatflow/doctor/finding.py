"""What the doctor says about one place of a topology.

Takes facts, gives text and plain data. Owns the words of the report.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal[
    "expression", "blocking call", "own state", "changed view", "late binding", "store names", "open transaction"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something to change, where it is, and what to write."""

    kind: Kind
    line: str
    """File and line, as in errors."""
    node: str
    """The node's name, as `describe()` has it; empty if it is about a store."""
    op: str
    function: str
    """What is written there."""
    message: str
    next_step: str
    expression: str = ""
    differences: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Give it as plain data."""
        data = {name: getattr(self, name) for name in self.__slots__}
        return {**data, "differences": list(self.differences)}

    def __str__(self) -> str:
        """Give it as the report shows it."""
        node = f" '{self.node}'" if self.node else ""
        where = self.line or ("the broker" if self.kind == "open transaction" else "the topology")
        lines = [f"{where}: {self.op}{node}: {self.message}"]
        if self.function:
            lines.append(f"    {self.function}")
        lines += [f"    Next: {self.next_step}", *(f"      - {each}" for each in self.differences)]
        return "\n".join(lines)
