"""All moves of random topologies, by name. Tests choose which ones they allow."""

from __future__ import annotations

from semantics import join_moves, processor_moves, stream_moves, table_moves
from semantics.sketch import MOVES, Move

SOURCES = stream_moves.SOURCES


def all_moves() -> dict[str, Move]:
    """All moves that the modules have registered."""
    homes = {module.__name__ for module in (stream_moves, table_moves, join_moves, processor_moves)}
    return {name: made for name, made in MOVES.items() if made.__module__ in homes}
