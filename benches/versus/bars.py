"""Grouped bars: a group per job, with a bar for each engine.

Takes groups of bars with their values, returns an SVG that is the same for the same groups. Each group has its own
scale, since only ratios within a job are meaningful; all scales start at 0.

Drawn by scripts/drawing.py, as the other pictures of the documentation. matplotlib was considered: its SVG has no text
alternative, no colours that follow a dark page, and its text may change with its version, so that a picture can't be
compared with its figures; horizontal bars need none of its features.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))

from drawing import AMBER, BLUE, INK, LINE, RED, SOFT, TEAL, VIOLET, Drawing

WIDTH, LEFT, LONGEST = 860, 130, 520
ROW, THICK, HEAD, GAP, TOP, BOTTOM = 22, 14, 26, 12, 66, 16
COLOURS = {
    "kstreams": SOFT, "native": TEAL, "lambda": BLUE, "arrow": VIOLET,
    "bare": AMBER, "bare-plain": AMBER, "handwritten": AMBER,
}  # fmt: skip


@dataclass(frozen=True)
class Bar:
    """One engine: median, minimum and maximum, and its ratio to the base engine."""

    name: str
    value: float
    low: float
    high: float
    ratio: float | None = None
    note: str = ""

    @property
    def label(self) -> str:
        """The label behind the bar."""
        ratio = "" if self.ratio is None else f" ({shown(self.ratio)}x)"
        return f"{shown(self.value)}{ratio}{' ' + self.note if self.note else ''}"


@dataclass(frozen=True)
class Group:
    """One job."""

    title: str
    bars: tuple[Bar, ...]


def shown(value: float) -> str:
    """A number with as many digits as are meaningful."""
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def described(groups: Sequence[Group]) -> str:
    """All figures as text."""
    return " ".join(
        f"{group.title}: " + ", ".join(f"{bar.name} {' '.join(bar.label.split())}" for bar in group.bars) + "."
        for group in groups
    )


def grouped(title: str, about: str, groups: Sequence[Group]) -> str:
    """Return the picture."""
    height = TOP + sum(HEAD + ROW * len(group.bars) + GAP for group in groups) + BOTTOM
    drawing = Drawing(WIDTH, height, title, description=f"{about} {described(groups)}")
    drawing.heading((20, 30), title)
    drawing.text((20, 50), about, fill=SOFT)
    y = TOP
    for group in groups:
        drawing.band((10, y), (WIDTH - 20, HEAD - 6))
        drawing.text((20, y + 14), group.title)
        y += HEAD
        longest = max((bar.high for bar in group.bars), default=0.0) or 1.0
        drawing.line([(LEFT, y - 2), (LEFT, y + ROW * len(group.bars) - 4)], LINE)
        for bar in group.bars:
            _row(drawing, y, bar, LONGEST / longest, group.title)
            y += ROW
        y += GAP
    return drawing.svg()


def _row(drawing: Drawing, y: float, bar: Bar, scale: float, group: str) -> None:
    middle = y + THICK / 2
    reported = f"{group}, {bar.name}: {' '.join(bar.label.split())}"
    drawing.text((LEFT - 8, y + THICK - 3), bar.name, anchor="end", fill=SOFT)
    drawing.bar((LEFT, y), (max(bar.value * scale, 1), THICK), COLOURS.get(bar.name, RED), reported)
    if bar.high > bar.low:  # the range of the repeats
        drawing.line([(LEFT + bar.low * scale, middle), (LEFT + bar.high * scale, middle)], INK, width=1.4)
    drawing.text((LEFT + max(bar.value, bar.high) * scale + 8, y + THICK - 3), bar.label)
