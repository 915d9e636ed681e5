"""One thing that is explained. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

__all__ = ["Entry", "Sort"]

Sort: TypeAlias = Literal["error", "setting", "metric", "drop", "Kafka Streams"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What a name means."""

    sort: Sort
    name: str
    meaning: str
    page: str
    """Where more of it stands, below docs/."""
    other_names: tuple[str, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    """Short ones, such as the default of a setting."""
    causes: tuple[str, ...] = ()
    next_step: str = ""
    see: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All names that it is found by."""
        return (self.name, *self.other_names)

    def to_json(self) -> dict[str, object]:
        """Return it as plain data."""
        return {
            "sort": self.sort,
            "name": self.name,
            "other_names": list(self.other_names),
            "meaning": self.meaning,
            **{name.replace(" ", "_"): value for name, value in self.facts.items()},
            "causes": list(self.causes),
            "next_step": self.next_step,
            "see": list(self.see),
            "page": f"docs/{self.page}",
        }
