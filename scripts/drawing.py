"""A small SVG writer: the pictures of the documentation need only lines, marks and words.

Takes coordinates of the data, returns text that is the same for the same data (numbers have one decimal), so that a
picture can be compared with its data. Independent of what is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

INK, SOFT, LINE, BAND = "#17242a", "#55666d", "#dce3e1", "#f3f5f4"
TEAL, BLUE, AMBER, VIOLET, RED = "#0b7a70", "#2f66b0", "#a8660c", "#7350b5", "#b3342c"
CARD = "#ffffff"
# The colours on a dark page, for pictures that follow the page's scheme.
DARK = {
    CARD: "#161d21", INK: "#e6edef", SOFT: "#a4b2b8", LINE: "#3a474d", BAND: "#212a2f",
    TEAL: "#33b5a6", BLUE: "#75a8ea", AMBER: "#dd9d45", VIOLET: "#ad92ef", RED: "#e8776d",
}  # fmt: skip

Point = tuple[float, float]


def number(value: float) -> str:
    """Return a number with at most one decimal."""
    return f"{round(value, 1):g}"


@dataclass
class Drawing:
    """A picture on a white card, readable on dark pages too; with a `description` it follows the page's colour scheme.

    The description is the text alternative for screen readers.
    """

    width: int
    height: int
    title: str
    description: str = ""
    parts: list[str] = field(default_factory=list)

    def add(self, tag: str, content: str | None = None, **attributes: object) -> None:
        """Add an element; `_` in the name of an attribute is `-`."""
        shown = " ".join(
            f'{name.rstrip("_").replace("_", "-")}="{number(value) if isinstance(value, float | int) else value}"'
            for name, value in attributes.items()
        )
        self.parts.append(f"<{tag} {shown}/>" if content is None else f"<{tag} {shown}>{escape(content)}</{tag}>")

    def text(self, at: Point, content: str, *, size: float = 12, fill: str = INK, anchor: str = "start") -> None:
        """Write words."""
        self.add("text", content, x=at[0], y=at[1], font_size=size, fill=fill, text_anchor=anchor)

    def heading(self, at: Point, content: str) -> None:
        """Write a heading."""
        self.add("text", content, x=at[0], y=at[1], font_size=14, fill=INK, font_weight="bold")

    def line(self, points: Sequence[Point], colour: str, *, width: float = 1, dash: str = "none") -> None:
        """Draw a line through points."""
        path = "M" + " L".join(f"{number(x)} {number(y)}" for x, y in points)
        self.add("path", d=path, fill="none", stroke=colour, stroke_width=width, stroke_dasharray=dash)

    def steps(self, points: Sequence[Point], colour: str, *, width: float = 2.4, dash: str = "none") -> None:
        """Draw a step line."""
        path: list[Point] = []
        for at, (x, y) in enumerate(points):
            if at:
                path.append((x, points[at - 1][1]))
            path.append((x, y))
        self.line(path, colour, width=width, dash=dash)

    def circle(self, at: Point, colour: str, *, radius: float = 5, filled: bool = True) -> None:
        """Draw a round mark."""
        fill = colour if filled else "#ffffff"
        self.add("circle", cx=at[0], cy=at[1], r=radius, fill=fill, stroke=colour, stroke_width=1.6)

    def diamond(self, at: Point, colour: str, *, radius: float = 6) -> None:
        """Draw a diamond."""
        (x, y), r = at, radius
        points = " ".join(f"{number(a)},{number(b)}" for a, b in ((x, y - r), (x + r, y), (x, y + r), (x - r, y)))
        self.add("polygon", points=points, fill=colour, stroke=colour)

    def cross(self, at: Point, colour: str, *, radius: float = 6) -> None:
        """Draw a cross."""
        (x, y), r = at, radius
        self.line([(x - r, y - r), (x + r, y + r)], colour, width=2.4)
        self.line([(x - r, y + r), (x + r, y - r)], colour, width=2.4)

    def envelope(self, at: Point, colour: str) -> None:
        """Draw an envelope."""
        x, y = at
        self.add("rect", x=x - 9, y=y - 6, width=18, height=12, rx=2, fill="#ffffff", stroke=colour, stroke_width=1.8)
        self.line([(x - 8, y - 5), (x, y + 2), (x + 8, y - 5)], colour, width=1.8)

    def band(self, corner: Point, size: Point, fill: str = BAND) -> None:
        """Fill a rectangle."""
        self.add("rect", x=corner[0], y=corner[1], width=size[0], height=size[1], fill=fill)

    def bar(self, corner: Point, size: Point, fill: str, told: str) -> None:
        """Draw a rectangle with a tooltip."""
        (x, y), (width, height) = ([number(one) for one in pair] for pair in (corner, size))
        shape = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="2" fill="{fill}"/>'
        self.parts.append(f"<g><title>{escape(told)}</title>{shape}</g>")

    def svg(self) -> str:
        """Return the whole picture."""
        if self.description:
            return self._with_description()
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" role="img" font-family="system-ui, sans-serif">'
        )
        card = f'<rect width="{self.width}" height="{self.height}" rx="10" fill="#ffffff" stroke="{LINE}"/>'
        return "\n".join([head, f"<title>{escape(self.title)}</title>", card, *self.parts, "</svg>", ""])

    def _with_description(self) -> str:
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" role="img" aria-labelledby="title description" '
            'font-family="system-ui, sans-serif">'
        )
        words = [
            f'<title id="title">{escape(self.title)}</title>',
            f'<desc id="description">{escape(self.description)}</desc>',
        ]
        # The attributes hold the colours of a light page; a style sheet overrides them.
        rules = [f'[{what}="{light}"]{{{what}:{dark}}}' for light, dark in DARK.items() for what in ("fill", "stroke")]
        style = f"<style>@media (prefers-color-scheme: dark) {{{' '.join(rules)}}}</style>"
        card = f'<rect width="{self.width}" height="{self.height}" rx="10" fill="{CARD}" stroke="{LINE}"/>'
        return "\n".join([head, *words, style, card, *self.parts, "</svg>", ""])
