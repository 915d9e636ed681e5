"""The result of a reconciliation: one row per part, with examples.

Takes counts from any engine; returns a table for people and a verdict. Knows nothing of Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Part:
    """One output compared with what the inputs require."""

    name: str
    wanted: int
    found: int
    missing: int = 0
    duplicated: int = 0
    wrong: int = 0
    disorder: int = 0
    """Keys whose values are in another order than their inputs."""
    examples: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether it is right and not empty."""
        return self.wanted > 0 and not (self.missing or self.duplicated or self.wrong or self.disorder)


@dataclass
class Findings:
    """All parts."""

    inputs: int = 0
    parts: list[Part] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether everything is right."""
        return bool(self.parts) and all(part.ok for part in self.parts)

    def render(self) -> str:
        """The report."""
        columns = ("wanted", "found", "missing", "duplicated", "wrong", "disorder")
        lines = [
            f"Reconciliation by PySpark of {self.inputs:,} input records, outputs read committed",
            f"  {'part':<44}" + "".join(f"{name:>12}" for name in columns),
        ]
        for part in self.parts:
            numbers = "".join(f"{getattr(part, name):>12,}" for name in columns)
            lines.append(f"  {part.name:<44}{numbers}")
            lines += [f"      {example}" for example in part.examples]
            if not part.wanted:
                lines.append("      nothing was wanted: this proves nothing")
        totals = {name: sum(getattr(part, name) for part in self.parts) for name in columns}
        lines.append(f"  {'all':<44}" + "".join(f"{totals[name]:>12,}" for name in columns))
        verdict = "OK" if self.ok else "NOT OK"
        reported = ", ".join(f"{name} {totals[name]}" for name in columns[2:])
        lines.append(f"  verdict: {verdict}: {reported} ({self.seconds:.0f} s)")
        return "\n".join(lines)
