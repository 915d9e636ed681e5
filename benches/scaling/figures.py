"""Puts a run's figures into a page: `scaling.py --page docs/reference/scaling.md` replaces the text between two marks.

Takes the JSON of `scaling.py` and a page; writes tables, slopes and the arithmetic of the model between the marks. The
rest of the page stays unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from series import SERIES
from thread_cpu import CALLER, ROLES

BEGIN, END = "<!-- figures: written by scaling.py --page -->", "<!-- end of figures -->"
# Load from which the machine counts as busy.
BUSY = 0.7
# Without the waiting thread of the benchmark, which is no part of the engine.
SHOWN = tuple(role for role in ROLES if role != CALLER)


def put(page: Path, found: Mapping[str, Any]) -> None:
    """Rewrite the page."""
    text = page.read_text("utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"{page} has no place for figures: a line {BEGIN!r} and, behind it, {END!r}")
    before, rest = text.split(BEGIN)
    page.write_text(f"{before}{BEGIN}\n\n{as_markdown(found)}\n\n{END}{rest.split(END)[1]}", "utf-8")


def as_markdown(found: Mapping[str, Any]) -> str:
    """Tables of all series, then the model."""
    machine, conditions = found["machine"], found["conditions"]
    ran = f"{machine['cpu']}, {machine['cores']} cores, Python {machine['python']}, StoatFlow {machine['stoatflow']}"
    least = f"{conditions['records']:,} records, the least of {conditions['rounds']} rounds"
    lanes = f"{conditions['lanes']} lanes where they are not what grows"
    parts = [f"Measured on {machine['date']}: {ran}; {least}, {lanes}. The load before was {machine['load']:.1f}."]
    if machine["load"] > BUSY:
        parts.append(
            "Other work kept the cores busy: CPU is more than on a quiet machine, and records a second, with the share "
            "of the model that they are, mean little."
        )
    for name, points in found["series"].items():
        parts += [f"### {name}", _table(name, points)]
        if name in found["fits"]:
            fit = found["fits"][name]
            parts.append(f"CPU per record ~ x^{fit['slope']:.2f} (R² {fit['r2']:.2f}).")
    if found["models"]:
        parts.append("### The model")
        parts += [f"```text\n{model['arithmetic']}\n```" for model in found["models"].values()]
    return "\n\n".join(parts)


def _table(name: str, points: Sequence[Mapping[str, Any]]) -> str:
    lines = [
        f"| {SERIES[name].title} | CPU µs | {' | '.join(SHOWN)} | peak MB |",
        f"|{'---|' * (len(SHOWN) + 3)}",
    ]
    for one in points:
        roles = " | ".join(f"{one['by_role_us'][role]:.2f}" for role in SHOWN)
        lines.append(f"| {one['x']:,} | **{one['cpu_us']:.2f}** | {roles} | {one['peak_rss_mb']:.0f} |")
    return "\n".join(lines)
