"""Finds the fewest inputs that show a difference.

Takes inputs, and a function that runs some of them and returns their first difference. Cuts after the input that shows
the difference, then removes inputs that don't matter: halves, quarters, single ones (delta debugging). Every result has
been run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from stoatflow.prove.compare import Difference
from stoatflow.prove.inputs import Input

Try = Callable[[Sequence[Input]], "Difference | None"]


@dataclass
class Shortened:
    """The remaining inputs."""

    inputs: list[Input]
    difference: Difference
    runs: int = 0
    is_complete: bool = True
    """False if the limit of runs was reached: further inputs might be removable."""
    is_repeated: bool = True
    """False if the same inputs did not show the difference a second time."""


@dataclass
class _Search:
    attempt: Try
    wanted: Difference
    most: int
    runs: int = 0

    @property
    def is_over(self) -> bool:
        return self.runs >= self.most

    def shows(self, inputs: Sequence[Input]) -> Difference | None:
        self.runs += 1
        found = self.attempt(inputs)
        return found if found is not None and found.is_like(self.wanted) else None


def shorten(
    inputs: Sequence[Input],
    difference: Difference,
    attempt: Try,
    most: int,
) -> Shortened:
    """Return the inputs that are needed, after at most `most` runs."""
    search = _Search(attempt, difference, most)
    kept = list(inputs)
    if difference.at is not None:
        kept = kept[: difference.at + 1]
    found = search.shows(kept)
    if found is None:
        return Shortened(kept, difference, search.runs, is_repeated=False)
    best = found
    if difference.at is None:
        kept, best = _prefix(kept, best, search)
    kept, best = _fewer(kept, best, search)
    return Shortened(kept, best, search.runs, is_complete=not search.is_over)


def _prefix(kept: list[Input], best: Difference, search: _Search) -> tuple[list[Input], Difference]:
    """Find, by bisection, a prefix that shows a difference although the prefix shorter by one input doesn't."""
    without, least = 0, len(kept)
    while least - without > 1 and not search.is_over:
        middle = (without + least) // 2
        found = search.shows(kept[:middle])
        if found is None:
            without = middle
        else:
            least, best = middle, found
    return kept[:least], best


def _fewer(kept: list[Input], best: Difference, search: _Search) -> tuple[list[Input], Difference]:
    size = max(len(kept) // 2, 1)
    while len(kept) > 1 and not search.is_over:
        begin, found_one = 0, False
        while begin < len(kept) and not search.is_over:
            rest = kept[:begin] + kept[begin + size :]
            found = search.shows(rest) if rest else None
            if found is None:
                begin += size
            else:
                kept, best, found_one = rest, found, True
                if found.at is not None and found.at + 1 < len(kept):
                    kept = kept[: found.at + 1]
        if size == 1 and not found_one:
            break
        size = max(size // 2, 1)
    return kept, best
