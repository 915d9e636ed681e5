"""W2: counts the words of lines of 8 to 12 words; a vocabulary of 10,000 words, Zipf.

Takes a load, returns its lines and the expected counts. Defines the vocabulary. Independent of the engines.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Mapping

from workloads.reading import Cell, Form, long_by_text, members, number_by_text
from workloads.workload import Input, Load, Output, Row, Workload

VOCABULARY = 10_000
SHORTEST, LONGEST = 8, 12
_CHUNK = 20_000


def vocabulary(seed: int) -> list[str]:
    """10,000 distinct lower-case words of 3 to 10 letters, most frequent first."""
    rng = random.Random(f"vocabulary {seed}")
    found: dict[str, None] = {}
    while len(found) < VOCABULARY:
        found["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 10)))] = None
    return list(found)


def lines(load: Load) -> Iterator[str]:
    """The lines. Each begins with a capital, so that lower-casing has an effect."""
    words = vocabulary(load.seed)
    weights = list(itertools.accumulate(1.0 / rank for rank in range(1, VOCABULARY + 1)))
    rng = random.Random(f"lines {load.seed}")
    left = load.records
    while left > 0:
        lengths = [rng.randint(SHORTEST, LONGEST) for _ in range(min(left, _CHUNK))]
        drawn = iter(rng.choices(words, cum_weights=weights, k=sum(lengths)))
        for length in lengths:
            yield " ".join(itertools.islice(drawn, length)).capitalize()
        left -= len(lengths)


def rows(load: Load) -> Iterator[Row]:
    """Without keys; line n goes to partition n modulo the number of partitions."""
    for number, line in enumerate(lines(load)):
        yield Row(None, line.encode(), partition=number % load.partitions)


def true_counts(load: Load) -> Mapping[str, Cell]:
    """The expected final table, counted in Python."""
    counts: Counter[str] = Counter()
    for line in lines(load):
        counts.update(line.lower().split())
    return dict(counts)


def read_from_pathway(_: bytes, value: bytes | None) -> tuple[str, Cell] | None:
    """Parse a row of Pathway, which retracts a word's old count with a separate record, before or after the new one."""
    row = members(value)
    word, count, diff = row.get("word"), row.get("count"), row.get("diff")
    if not isinstance(word, str) or not isinstance(count, int) or diff not in {1, -1}:
        raise Form(f"not a word, a count and a diff but {(value or b'')[:80]!r}")
    return (word, count) if diff == 1 else None


WORKLOAD = Workload(
    name="w2",
    title="word count",
    inputs=(Input("lines", rows),),
    outputs=(
        Output(
            "counts",
            long_by_text,
            updates=True,
            forms={"quix": number_by_text, "bytewax": number_by_text, "pathway": read_from_pathway},
        ),
    ),
    wanted=true_counts,
    flavours=("native", "lambda", "arrow"),
    limits={"handwritten": true_counts},
)
