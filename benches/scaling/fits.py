"""How a cost grows: the slope of a straight line through its points on logarithmic axes.

Takes points, returns an exponent: 0 is a constant cost, 1 a cost proportional to x. No slope is judged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Fit:
    """cost = factor * x ** slope; `r2` is the share of the variance that the line explains."""

    slope: float
    factor: float
    r2: float

    def __str__(self) -> str:
        """Format the fit for people."""
        return f"cost ~ x^{self.slope:+.2f} (R2 {self.r2:.2f})"


def fit(points: Sequence[tuple[float, float]]) -> Fit:
    """Least squares of the logarithms; needs at least two different x, all positive."""
    if len({x for x, _ in points}) < 2:
        raise ValueError("a slope needs two different points at least")
    if any(x <= 0 or y <= 0 for x, y in points):
        raise ValueError("logarithms need positive values")
    logs = [(math.log(x), math.log(y)) for x, y in points]
    mean_x, mean_y = (sum(pair[at] for pair in logs) / len(logs) for at in (0, 1))
    slope = sum((x - mean_x) * (y - mean_y) for x, y in logs) / sum((x - mean_x) ** 2 for x, _ in logs)
    differs = sum((y - mean_y) ** 2 for _, y in logs)
    left = sum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in logs)
    # Equal points lie on their line.
    return Fit(slope, math.exp(mean_y - slope * mean_x), 1 - left / differs if differs > 1e-12 else 1.0)
