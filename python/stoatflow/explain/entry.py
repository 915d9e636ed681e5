"""An entry of `stoatflow explain`. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

__all__ = ["Entry", "Sort"]

Sort: TypeAlias = Literal["error", "setting", "metric", "drop", "Kafka Streams", "method of Kafka Streams"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """The meaning of a name."""

    sort: Sort
    name: str
    meaning: str
    page: str
    """Page with more, below docs/."""
    other_names: tuple[str, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    """Short facts, such as the default of a setting."""
    causes: tuple[str, ...] = ()
    next_step: str = ""
    see: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All names by which it is found."""
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
