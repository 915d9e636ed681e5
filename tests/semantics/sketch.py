"""A random topology under construction, and the registry of moves that extend it.

A move takes the topology so far and hypothesis' `draw`, and adds one operator (an aggregation with its grouping
counts as one), in the vectors' step format.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]
Serde = str | Json

TEXT_PREDICATES = ("len_gt_3", "starts_with_a", "has_x", "value_is_null")
# Sizes of count windows, in records; time windows have other sizes.
COUNTS = (1, 2, 3)
LONG_PREDICATES = ("is_even", "gt_2", "value_is_null")


@dataclass(frozen=True)
class Handle:
    """A result that later steps may use. `windowed`: its key is (the serde says how).

    `readable`: by key, from joins. `typed`: its serdes were named.
    """

    id: str
    kind: str
    value: str
    key: Serde = "string"
    versioned: bool = False
    stored: bool = False
    readable: bool = True
    typed: bool = True

    @property
    def windowed(self) -> bool:
        return isinstance(self.key, dict)

    @property
    def closes(self) -> bool:
        """Whether the key has a window that closes by time."""
        return isinstance(self.key, dict) and self.key.get("size_ms") not in COUNTS

    @property
    def predicates(self) -> tuple[str, ...]:
        return TEXT_PREDICATES if self.value == "string" else LONG_PREDICATES


@dataclass
class Sketch:
    """The topology so far."""

    steps: list[Json] = field(default_factory=list)
    handles: list[Handle] = field(default_factory=list)
    sources: list[Json] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    moves: list[str] = field(default_factory=list)
    names: int = 0

    def step(self, op: str, **fields: Any) -> str:
        """Add a step; return its id."""
        made = f"s{len(self.steps) + 1}"
        self.steps.append({"id": made, "op": op, **fields})
        self.used.add(fields.get("from", ""))
        self.used.add(fields.get("other", ""))
        return made

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def give(self, handle: Handle) -> None:
        self.handles.append(handle)

    def of(self, kind: str, *, windowed: bool | None = None, value: str | None = None) -> list[Handle]:
        """Results of a kind."""
        return [
            handle
            for handle in self.handles
            if handle.kind == kind and windowed in (None, handle.windowed) and value in (None, handle.value)
        ]

    def store(self, value: str, **more: Any) -> Json:
        return {"store": self.name("store-"), "key_serde": "string", "value_serde": value, **more}


Move = Callable[[Sketch, Draw], bool]
"""Adds an operator, and returns whether it could."""
MOVES: dict[str, Move] = {}
NEEDS: dict[str, tuple[str, ...]] = {}
"""What a move needs: "table", "plain stream" (its key is no window), "windowed table"."""


def move(*needs: str) -> Callable[[Move], Move]:
    """Register a move under its function's name."""

    def register(function: Move) -> Move:
        MOVES[function.__name__] = function
        NEEDS[function.__name__] = needs
        return function

    return register


def applies(name: str, sketch: Sketch) -> bool:
    """Whether the operands of the move exist. Two operands may be the same one."""
    windowed = {"plain": False, "windowed": True}
    parts = [need.rpartition(" ") for need in NEEDS[name]]
    return all(sketch.of(kind, windowed=windowed.get(how)) for how, _, kind in parts)


def pick(draw: Draw, options: list[Handle]) -> Handle:
    # Late results are more interesting than sources: prefer them a bit, and shrink toward them.
    return draw(st.sampled_from(list(reversed(options))))  # type: ignore[no-any-return]


def serdes(handle: Handle) -> Json:
    return {"key_serde": handle.key, "value_serde": handle.value}
