"""The rows of the benchmark of failovers: a key and about 1,000 bytes of JSON, computed from a number."""

from __future__ import annotations

import random
from functools import cache

ROW_BYTES = 1_000
# A step coprime to any round number of keys: every key once, in pseudo-random order.
STRIDE = 1_299_709
_POOL = 1 << 20


@cache
def _pool() -> str:
    """Hexadecimal digits, which compress to half: a row is a part of them."""
    return random.Random(7).randbytes((_POOL + ROW_BYTES) // 2).hex()


def shuffled(place: int, keys: int) -> int:
    """The number at a place of the order in which keys are written."""
    return place * STRIDE % keys


def key_of(number: int) -> str:
    """The key of a number."""
    return f"customer-{number:09d}"


def row_of(number: int, version: int) -> str:
    """The key's row in a version."""
    head = f'{{"id":{number},"version":{version},"payload":"'
    start = number * 7919 % _POOL
    return f'{head}{_pool()[start : start + ROW_BYTES - len(head) - 2]}"}}'
