"""One finding of the doctor about a place of a topology.

Takes facts, returns text and plain data. Owns the wording of the report.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal[
    "expression",
    "blocking call",
    "own state",
    "changed view",
    "late binding",
    "store names",
    "unused result",
    "open transaction",
    "settings",
    "open files",
    "state directory",
    "disk",
    "instance",
    "clock",
    "broker",
    "topic",
    "permission",
    "table source",
    "position",
    "orphans",
]

_ON_THE_BROKER: tuple[Kind, ...] = (
    "open transaction", "broker", "topic", "permission", "table source", "position", "orphans",
)  # fmt: skip
_WHERE: dict[Kind, str] = {
    **dict.fromkeys(_ON_THE_BROKER, "the broker"),
    "settings": "the settings",
    **dict.fromkeys(("open files", "state directory", "disk", "instance", "clock"), "this machine"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something to change, where it is, and what to write."""

    kind: Kind
    line: str
    """File and line, as in errors."""
    node: str
    """The node's name, as in `describe()`; empty if the finding is about a store."""
    op: str
    function: str
    """The function's source."""
    message: str
    next_step: str
    expression: str = ""
    differences: tuple[str, ...] = ()

    @classmethod
    def of_surroundings(cls, kind: Kind, message: str, next_step: str, *, op: str = "", node: str = "") -> Finding:
        """Return a finding that is not about a line of the topology; `op` and `node` may name a topic and its role."""
        return cls(kind=kind, line="", node=node, op=op, function="", message=message, next_step=next_step)

    def to_json(self) -> dict[str, object]:
        """Return the finding as plain data."""
        data = {name: getattr(self, name) for name in self.__slots__}
        return {**data, "differences": list(self.differences)}

    def __str__(self) -> str:
        """Return the finding as text of the report."""
        node = f" '{self.node}'" if self.node else ""
        where = self.line or _WHERE.get(self.kind, "the topology")
        what = f"{self.op}{node}".strip()
        lines = [": ".join(part for part in (where, what, self.message) if part)]
        if self.function:
            lines.append(f"    {self.function}")
        lines += [f"    Next: {self.next_step}", *(f"      - {each}" for each in self.differences)]
        return "\n".join(lines)
