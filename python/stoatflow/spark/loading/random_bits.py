"""Random numbers that depend only on a seed, a name and the number of a record, and values drawn with them.

Takes arrays of record numbers, returns arrays. The random bits are 64 bits of (seed, name, number), mixed by
splitmix64. Keeps no state, so any part of a load can be generated anywhere, in any order.
"""

from __future__ import annotations

import functools
import hashlib

import numpy as np

_TOP = float(2**53)


def mixed(seed: int, name: str, numbers: np.ndarray) -> np.ndarray:
    """Return 64 random bits for each number."""
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=8).digest()
    with np.errstate(over="ignore"):
        z = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(int.from_bytes(digest, "little"))
        for _ in range(2):
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            z ^= z >> np.uint64(31)
    return z


def below(bits: np.ndarray, span: int) -> np.ndarray:
    """Return integers from 0 to below `span`."""
    return (bits % np.uint64(span)).astype(np.int64)


def happens(bits: np.ndarray, share: float) -> np.ndarray:
    """Return which records are in a share of all records."""
    return (bits >> np.uint64(11)) < np.uint64(round(share * _TOP))


def ranked(bits: np.ndarray, count: int, skew: float) -> np.ndarray:
    """Return ranks from 0 to below `count`: rank n is about (n+1)**skew times rarer than the first."""
    if skew == 0.0:
        return below(bits, count)
    return weighted(bits, _zipf(count, skew))


def weighted(bits: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Return indexes into the table of `limits_of`."""
    return np.searchsorted(limits, bits >> np.uint64(11), side="right").astype(np.int64)


def limits_of(weights: np.ndarray) -> np.ndarray:
    """Return where each index ends, out of 2**53; the last end is left out, so that no value lies beyond."""
    sums = np.cumsum(weights, dtype=np.float64)
    limits: np.ndarray = np.floor(sums / sums[-1] * _TOP).astype(np.uint64)[:-1]
    return limits


@functools.lru_cache(maxsize=16)
def _zipf(count: int, skew: float) -> np.ndarray:
    return limits_of(np.arange(1, count + 1, dtype=np.float64) ** -skew)


@functools.lru_cache(maxsize=16)
def limits_by_weight(weights: tuple[float, ...]) -> np.ndarray:
    """Return the limits for a few weights."""
    return limits_of(np.array(weights, dtype=np.float64))


@functools.lru_cache(maxsize=4)
def letters(seed: int, length: int) -> np.ndarray:
    """Return a pool of letters and digits from which texts are cut."""
    alphabet = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", dtype=np.uint8)
    return alphabet[below(mixed(seed, "letters", np.arange(length)), len(alphabet))]


def murmur2(rows: np.ndarray) -> np.ndarray:
    """Return Kafka's murmur2 hash of keys of one length: a matrix of bytes, one row per key."""
    length = rows.shape[1]
    m = np.uint32(0x5BD1E995)
    with np.errstate(over="ignore"):
        h = np.full(rows.shape[0], np.uint32((0x9747B28C ^ length) & 0xFFFFFFFF), dtype=np.uint32)
        whole = length - length % 4
        words = np.ascontiguousarray(rows[:, :whole]).view("<u4") if whole else np.empty((rows.shape[0], 0), np.uint32)
        for at in range(words.shape[1]):
            k = words[:, at].astype(np.uint32) * m
            k ^= k >> np.uint32(24)
            h = (h * m) ^ (k * m)
        rest = length % 4
        for at in range(rest - 1, -1, -1):
            h ^= rows[:, whole + at].astype(np.uint32) << np.uint32(8 * at)
        if rest:
            h *= m
        h ^= h >> np.uint32(13)
        h *= m
        h ^= h >> np.uint32(15)
    return h


def partitions_of(rows: np.ndarray, partitions: int) -> np.ndarray:
    """Return the partition that Kafka's producers choose for keys of one length."""
    return ((murmur2(rows) & np.uint32(0x7FFFFFFF)) % np.uint32(partitions)).astype(np.int32)
