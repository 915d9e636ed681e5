"""The input of the word count benchmark (W2): lines of 8 to 12 words, 10,000-word vocabulary, Zipf, seeded.

Takes: a number of lines and a seed. Gives: the lines, the true counts, and the filled topic.
Owns: nothing. Never: depends on the clock or on the order of a set: the same seed is the same input everywhere.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from confluent_kafka import KafkaError, Message, Producer

VOCABULARY = 10_000
SHORTEST, LONGEST = 8, 12
_CHUNK = 20_000


@dataclass(frozen=True)
class Workload:
    """A reproducible input."""

    lines: int
    seed: int
    partitions: int = 8


def vocabulary(seed: int) -> list[str]:
    """10,000 different lower-case words of 3 to 10 letters, most frequent first."""
    rng = random.Random(f"vocabulary {seed}")
    found: dict[str, None] = {}
    while len(found) < VOCABULARY:
        found["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 10)))] = None
    return list(found)


def generate(load: Workload) -> Iterator[str]:
    """The lines. Each begins with a capital, so that lower-casing has something to do."""
    words = vocabulary(load.seed)
    weights = list(itertools.accumulate(1.0 / rank for rank in range(1, VOCABULARY + 1)))
    rng = random.Random(f"lines {load.seed}")
    left = load.lines
    while left > 0:
        lengths = [rng.randint(SHORTEST, LONGEST) for _ in range(min(left, _CHUNK))]
        drawn = iter(rng.choices(words, cum_weights=weights, k=sum(lengths)))
        for length in lengths:
            yield " ".join(itertools.islice(drawn, length)).capitalize()
        left -= len(lengths)


def true_counts(load: Workload) -> dict[str, int]:
    """What the final table must be, counted by Python."""
    counts: Counter[str] = Counter()
    for line in generate(load):
        counts.update(line.lower().split())
    return dict(counts)


def fill_topic(bootstrap: str, topic: str, load: Workload) -> None:
    """Writes line n to partition n modulo the number of partitions, without keys."""
    refused: list[str] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,  # keeps the order and writes each line once
            "linger.ms": 50,
            "queue.buffering.max.messages": 500_000,
            "log_level": 3,  # a broker that has just started makes it repeat its first question, with a warning
        }
    )
    for number, line in enumerate(generate(load)):
        while True:
            try:
                producer.produce(topic, value=line.encode(), partition=number % load.partitions, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    left = producer.flush(120)
    if left or refused:
        raise RuntimeError(
            f"{left} lines were not delivered, {len(refused)} refused ({refused[:1]}): look at the broker's log"
        )
