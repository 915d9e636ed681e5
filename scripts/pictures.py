"""Draw the pictures of docs/explain/time.md and docs/guide/late-data.md: `pictures.py`, or `pictures.py --check`.

Runs the engine on the records below, in the test driver with its virtual clock, so that results are reproducible.
Writes SVG files beside the pages; with `--check` exit code 1 if they differ from the engine's results now. Draws only
results of a run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drawing import AMBER, BLUE, INK, LINE, RED, SOFT, TEAL, VIOLET, Drawing, Point

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

DOCS = Path(__file__).resolve().parents[1] / "docs"
SECOND = 1_000
WINDOWED = sf.Serdes.time_windowed(str, "10s")


class Clock(sf.ContextualProcessor[str, str, str, str]):
    """Notes the event time at each record."""

    def __init__(self, noted: list[int]) -> None:
        """Note times in this list."""
        self.noted = noted

    def process(self, record: sf.Record[str, str]) -> None:  # noqa: ARG002  # only its timestamp matters
        """Note the current event time."""
        self.noted.append(self.context.stream_time_ms)


def seconds(milliseconds: int) -> float:
    """Return seconds; 0 before the first record."""
    return max(0, milliseconds) / SECOND


# ---- one topic ahead of another -----------------------------------------------------------------

ARRIVALS = [
    ("web", 3), ("tills", 1), ("web", 8), ("web", 12), ("tills", 6), ("web", 17),
    ("web", 24), ("tills", 13), ("tills", 18), ("web", 29), ("tills", 22),
]  # fmt: skip


@dataclass
class Step:
    """The effect of one record."""

    topic: str
    at: float
    """Its timestamp, in seconds."""
    clock: float
    """Event time after it."""
    counted: bool
    closed: list[tuple[float, int]]
    """Ends and counts of the windows that it closed."""


def orders(tills: sf.Watermark, noted: list[int], counted: list[str]) -> sf.Topology:
    """Count orders of two topics in windows, and note event time."""
    builder = sf.StreamsBuilder()
    web = builder.stream("web", key=str, value=str, watermark=sf.Watermark.monotonic())
    both = web.merge(builder.stream("tills", key=str, value=str, watermark=tills))
    both.process(lambda: Clock(noted), name="clock")
    counts = both.group_by_key().windowed_by(sf.TimeWindows("10s", grace="0s")).count(store="counts")
    counts.to_stream().foreach(lambda key, _: counted.append(key.key))
    counts.suppress(sf.Suppressed.until_window_closes(), name="final").to_stream().to("final")
    return builder.build()


def two_clocks(semantics: str) -> list[Step]:
    """Run the arrivals with one of the clocks."""
    noted, counted, steps = list[int](), list[str](), list[Step]()
    topology = orders(sf.Watermark.monotonic(), noted, counted)
    with TopologyTestDriver(topology, {"time.semantics": semantics}) as driver:
        for topic, at in ARRIVALS:
            before = len(counted)
            driver.input(topic, str, str).pipe("all", "order", timestamp=at * SECOND)
            clock = driver.watermark if semantics == "watermark" else noted[-1]
            closed = driver.output("final", WINDOWED, sf.Serdes.int64()).read_all()
            ends = [(seconds(row.key.window.end), row.value) for row in closed]
            steps.append(Step(topic, at, seconds(clock), len(counted) > before, ends))
    return steps


def two_clocks_picture() -> str:
    """Draw both runs side by side."""
    drawing = Drawing(920, 430, "Orders of a web shop and of tills, counted under stream time and under watermarks")
    for left, semantics, colour in ((50, "stream-time", VIOLET), (500, "watermark", TEAL)):
        steps = two_clocks(semantics)
        panel = Panel(drawing, left, 60, 380, 280, len(steps) + 1, 30)
        drawing.heading((left, 32), f"time.semantics = {semantics}")
        panel.frame("order of arrival", "event time")
        drawing.steps([panel.at(0.5, 0), *(panel.at(n, step.clock) for n, step in enumerate(steps, 1))], colour)
        for n, step in enumerate(steps, 1):
            place = panel.at(n, step.at)
            (drawing.circle if step.topic == "web" else drawing.diamond)(place, BLUE if step.topic == "web" else AMBER)
            if not step.counted:
                drawing.cross(place, RED, radius=9)
            for end, count in step.closed:
                flag(drawing, panel.at(n, end), f"[{end - 10:g}, {end:g}) closes: {count}", colour)
    key(drawing, 50, 410, [("circle", BLUE, "web"), ("diamond", AMBER, "tills"), ("cross", RED, "dropped: too late")])
    key(drawing, 500, 410, [("line", VIOLET, "the highest timestamp"), ("line", TEAL, "the watermark")])
    return drawing.svg()


# ---- one topic falls silent ---------------------------------------------------------------------


def night(tills: sf.Watermark) -> tuple[list[tuple[float, float]], list[float]]:
    """Return pairs (wall clock, watermark), and the wall-clock times at which windows were closed."""
    closed, marks = list[float](), [(0.0, 0.0)]
    with TopologyTestDriver(orders(tills, [], []), {"time.semantics": "watermark"}) as driver:
        driver.input("tills", str, str).pipe("all", "order", timestamp=4 * SECOND)
        for now in range(60):
            if now % 10 == 5:
                driver.input("web", str, str).pipe("all", "order", timestamp=now * SECOND)
                marks.append((float(now), seconds(driver.watermark)))
            driver.advance("1s")
            marks.append((now + 1.0, seconds(driver.watermark)))
            rows = driver.output("final", WINDOWED, sf.Serdes.int64()).read_all()
            closed.extend(seconds(row.key.window.end) for row in rows)
    return marks, closed


def idle_picture() -> str:
    """Draw the watermark with and without idleness."""
    drawing = Drawing(760, 430, "The watermark while one of two topics is silent, with and without idleness")
    panel = Panel(drawing, 50, 60, 660, 290, 60, 60)
    drawing.heading((50, 28), "The watermark while the tills are silent")
    panel.frame("seconds by the clock", "event time")
    for name, colour, tills, at in (
        ("nobody is ever idle", RED, sf.Watermark.monotonic(), 26),
        ('tills with .idle("30s")', TEAL, sf.Watermark.monotonic().idle("30s"), 0),
    ):
        marks, closed = night(tills)
        drawing.steps([panel.at(*mark) for mark in marks], colour)
        ends = ", ".join(f"{end:g}" for end in closed)
        what = f"windows close that end at {ends}" if closed else "no window closes"
        drawing.text((60, 86 + at), f"{name}: {what}", fill=colour, size=13)
    for now in range(5, 60, 10):
        drawing.circle(panel.at(now, now), BLUE)
    drawing.diamond(panel.at(0, 4), AMBER)
    key(drawing, 50, 410, [("circle", BLUE, "a record of web"), ("diamond", AMBER, "the only record of tills")])
    return drawing.svg()


# ---- policies for late records ------------------------------------------------------------------

RECORDS = [3, 12, 8, 16, 9, 13, 21, 11]


def at_most_four_seconds(record: sf.ConsumedRecord, watermark: int) -> sf.LateVerdict:
    """Accept records that are at most four seconds late."""
    return "grace" if watermark - record.timestamp <= 4 * SECOND else sf.DLQ("letters")


POLICIES: list[tuple[str, Any]] = [
    ('"grace"', "grace"),
    ('"drop"', "drop"),
    ('DLQ("letters")', sf.DLQ("letters")),
    ("a function", sf.DecideLate(at_most_four_seconds, dead_letters=["letters"])),
]


def fates(late: Any) -> list[tuple[str, float]]:
    """Return what happened to each record, and event time before it."""
    seen, counted = list[int](), list[int]()
    builder = sf.StreamsBuilder()
    source = builder.stream("in", key=str, value=str, watermark=sf.Watermark.monotonic(), late=late)
    source.foreach(lambda *_: seen.append(1))
    windowed = source.group_by_key().windowed_by(sf.TimeWindows("10s", grace="5s"))
    windowed.count(store="counts").to_stream().foreach(lambda *_: counted.append(1))
    found: list[tuple[str, float]] = []
    with TopologyTestDriver(builder.build(), {"time.semantics": "watermark"}) as driver:
        for at in RECORDS:
            before, clock = (len(seen), len(counted)), driver.watermark / SECOND
            driver.input("in", str, str).pipe("k", "v", timestamp=at * SECOND)
            letters = len(driver.output("letters").read_all())
            went, was_counted = len(seen) > before[0], len(counted) > before[1]
            fate = "letter" if letters else "counted" if was_counted else "closed" if went else "dropped"
            found.append((fate, clock))
    return found


def late_picture() -> str:
    """Draw what happens to each record under each policy."""
    drawing = Drawing(820, 330, "Eight records under four policies for late records")
    left, column, row = 150, 80, 46
    clocks = [clock for _, clock in fates("grace")]
    drawing.text((20, 40), "record of", fill=SOFT)
    drawing.text((20, 62), "watermark before", fill=SOFT)
    for n, (at, clock) in enumerate(zip(RECORDS, clocks, strict=True)):
        x, is_late = left + column * (n + 0.5), at < clock
        drawing.text((x, 40), f"{at} s", size=14, anchor="middle", fill=RED if is_late else INK)
        drawing.text((x, 62), "none" if clock < 0 else f"{clock:g} s", anchor="middle", fill=SOFT)
    for line, (name, late) in enumerate(POLICIES):
        y = 84 + row * (line + 0.5)
        if line % 2 == 0:
            drawing.band((10, y - row / 2), (800, row))
        drawing.text((20, y + 4), f"late={name}" if not isinstance(late, sf.DecideLate) else name, size=12)
        for n, (fate, _) in enumerate(fates(late)):
            MARKS[fate](drawing, (left + column * (n + 0.5), y))
    words = {"counted": "counted", "closed": "its window is closed", "dropped": "left out", "letter": "dead letter"}
    for n, (fate, text) in enumerate(words.items()):
        x = 30 + n * 165
        MARKS[fate](drawing, (x, 302))
        drawing.text((x + 16, 306), text, fill=SOFT)
    drawing.text((680, 306), "red: late", fill=RED)
    return drawing.svg()


MARKS: dict[str, Callable[[Drawing, Point], None]] = {
    "counted": lambda drawing, at: drawing.circle(at, TEAL, radius=7),
    "closed": lambda drawing, at: drawing.circle(at, SOFT, radius=7, filled=False),
    "dropped": lambda drawing, at: drawing.cross(at, RED, radius=6),
    "letter": lambda drawing, at: drawing.envelope(at, VIOLET),
}


# ---- shared parts -------------------------------------------------------------------------------


@dataclass
class Panel:
    """An area with axes: from 0 to `most_x`, and windows of ten seconds up to `most_y`."""

    drawing: Drawing
    left: float
    top: float
    width: float
    height: float
    most_x: float
    most_y: float

    def at(self, x: float, y: float) -> Point:
        """Return the position of a pair."""
        return (self.left + self.width * x / self.most_x, self.top + self.height * (1 - y / self.most_y))

    def frame(self, x: str, y: str) -> None:
        """Draw windows, axes and their names."""
        for start in range(0, int(self.most_y), 10):
            if start % 20 == 0:
                corner = self.at(0, start + 10)
                self.drawing.band(corner, (self.width, self.height * 10 / self.most_y))
            place = self.at(0, start)
            self.drawing.text((place[0] - 8, place[1] + 4), f"{start}", size=11, fill=SOFT, anchor="end")
        for end in range(0, int(self.most_y) + 1, 10):
            self.drawing.line([self.at(0, end), self.at(self.most_x, end)], LINE)
        self.drawing.text((self.left - 30, self.top - 8), f"{y}, s", size=11, fill=SOFT)
        self.drawing.text((self.left + self.width, self.top + self.height + 20), x, size=11, fill=SOFT, anchor="end")


def flag(drawing: Drawing, at: Point, text: str, colour: str) -> None:
    """Mark an event."""
    drawing.circle(at, colour, radius=3)
    drawing.text((at[0] - 6, at[1] - 8), text, fill=colour, anchor="end")


def key(drawing: Drawing, x: float, y: float, entries: list[tuple[str, str, str]]) -> None:
    """Draw the legend."""
    for mark, colour, text in entries:
        if mark == "line":
            drawing.line([(x - 7, y - 4), (x + 7, y - 4)], colour, width=2.4)
        else:
            getattr(drawing, mark)((x, y - 4), colour)
        drawing.text((x + 14, y), text, fill=SOFT)
        x += 40 + 7 * len(text)


def pictures() -> dict[Path, str]:
    """Return every picture with what it must hold."""
    return {
        DOCS / "explain" / "pictures" / "two-clocks.svg": two_clocks_picture(),
        DOCS / "explain" / "pictures" / "idle.svg": idle_picture(),
        DOCS / "guide" / "pictures" / "late.svg": late_picture(),
    }


def main() -> int:
    """Write or check."""
    drawn = pictures()
    if "--check" in sys.argv[1:]:
        stale = [path for path, text in drawn.items() if not path.is_file() or path.read_text("utf-8") != text]
        for path in stale:
            print(f"{path.relative_to(DOCS.parent)} is not what the engine gives now; run: make docs", file=sys.stderr)
        return 1 if stale else 0
    for path, text in drawn.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        print(f"written: {path.relative_to(DOCS.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
