"""Generates the fields of a spec as columns of a batch.

Takes a topic, a field, record numbers. Returns the field's value in each record, as text, and as a number if it is one.
Decides which random numbers a field uses. `encode` combines the fields.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stoatflow.spark.loading import columns, random_bits
from stoatflow.spark.loading.spec import FieldSpec, KeySpec, LoadSpec, TopicSpec

_POOL = 65_536
_WIDTH = 12
"""Digits of keys of an endless sequence."""


@dataclass(frozen=True)
class Column:
    """A field of some records."""

    kind: str
    """`text`, `whole` or `decimal`."""
    texts: pa.Array | None = None
    numbers: np.ndarray | None = None
    digits: int = 0

    def text(self) -> pa.Array:
        """Return it as text, numbers as in JSON."""
        if self.texts is not None:
            return self.texts
        assert self.numbers is not None  # noqa: S101  # one of both is set
        return (
            columns.decimal_text(self.numbers, self.digits) if self.digits_count else columns.whole_text(self.numbers)
        )

    @property
    def digits_count(self) -> bool:
        """Whether it is a number with decimals."""
        return self.kind == "decimal"

    def doubles(self) -> np.ndarray:
        """Return a decimal number as doubles."""
        assert self.numbers is not None  # noqa: S101
        return self.numbers / 10.0**self.digits


class Drawing:
    """Draws the fields of one topic for some records."""

    def __init__(self, spec: LoadSpec, topic: TopicSpec, numbers: np.ndarray, times: np.ndarray) -> None:
        """Keep what all fields need."""
        self._spec = spec
        self._topic = topic
        self._numbers = numbers
        self._times = times

    def bits(self, name: str) -> np.ndarray:
        """Return random bits for a name, for each record."""
        return random_bits.mixed(self._spec.seed, f"{self._topic.name}/{name}", self._numbers)

    def keys(self) -> np.ndarray | None:
        """Return the bytes of the keys as a matrix; `None` if the topic has no keys."""
        return _keys_of(self._topic, self._ranks(self._topic, "key"))

    def field(self, each: FieldSpec) -> Column:  # noqa: PLR0911  # one return per kind
        """Return the column of a field."""
        if each.kind in {"int", "float"}:
            bits, span = self.bits(each.name), each.high - each.low + 1
            drawn = random_bits.ranked(bits, span, each.skew) if each.skew else random_bits.below(bits, span)
            return Column("decimal" if each.kind == "float" else "whole", None, drawn + each.low, each.digits)
        if each.kind == "timestamp":
            return Column("whole", None, self._times)
        if each.kind == "index":
            return Column("whole", None, self._numbers.astype(np.int64))
        if each.kind == "choice":
            return Column("text", self._choice(each))
        if each.kind == "text":
            return Column("text", self._letters(each))
        if each.kind == "words":
            return Column("text", self._words(each))
        if each.kind == "reference":
            return Column("text", self._reference(each))
        if each.kind == "key":
            return Column("text", _key_texts(self._topic.key, self._ranks(self._topic, "key"), self._topic))
        return Column("text", pa.array([each.value]).take(pa.array(np.zeros(len(self._numbers), np.int64))))

    def _ranks(self, topic: TopicSpec, name: str) -> np.ndarray:
        """Draw keys of a topic (this one, or a referenced one), as numbers."""
        key = topic.key
        if key.kind == "sequential" and topic is self._topic:
            return (self._numbers % np.uint64(key.count) if key.count else self._numbers).astype(np.int64)
        count = key.count or topic.records
        return random_bits.ranked(self.bits(name), max(count, 1), key.skew if key.kind == "zipf" else 0.0)

    def _choice(self, each: FieldSpec) -> pa.Array:
        bits = self.bits(each.name)
        if each.weights is None:
            places = random_bits.below(bits, len(each.of))
        else:
            places = random_bits.weighted(bits, random_bits.limits_by_weight(each.weights))
        return pa.array(each.of, pa.string()).take(pa.array(places))

    def _letters(self, each: FieldSpec) -> pa.Array:
        pool = random_bits.letters(self._spec.seed, _POOL + each.longest)
        starts = random_bits.below(self.bits(each.name), _POOL)
        if each.longest == 0:
            return columns.from_matrix(np.empty((len(starts), 0), np.uint8), pa.string())
        rows = np.lib.stride_tricks.sliding_window_view(pool, each.longest)[starts]
        if each.shortest == each.longest:
            return columns.from_matrix(rows, pa.string())
        lengths = each.shortest + random_bits.below(self.bits(f"{each.name}/length"), each.longest - each.shortest + 1)
        return columns.from_masked(rows, lengths, pa.string())

    def _words(self, each: FieldSpec) -> pa.Array:
        lengths = each.shortest + random_bits.below(self.bits(f"{each.name}/length"), each.longest - each.shortest + 1)
        width = max(5, len(str(each.vocabulary)))
        words = []
        for at in range(each.longest):
            ranks = random_bits.ranked(self.bits(f"{each.name}/{at}"), each.vocabulary, each.skew)
            word = columns.from_matrix(columns.numbered(each.prefix, ranks + 1, width), pa.string())
            words.append(pc.if_else(pa.array(lengths > at), word, pa.scalar(None, pa.string())))
        if not words:
            return columns.from_matrix(np.empty((len(lengths), 0), np.uint8), pa.string())
        return pc.binary_join_element_wise(*words, " ", null_handling="skip")

    def _reference(self, each: FieldSpec) -> pa.Array:
        other = self._spec.topic(each.topic)
        texts = _key_texts(other.key, self._ranks(other, each.name), other)
        if each.match >= 1.0:
            return texts
        found = random_bits.happens(self.bits(f"{each.name}/match"), each.match)
        # No key of the other topic has this suffix.
        return pc.if_else(pa.array(found), texts, columns.joined(texts, "-nobody"))


def _width(key: KeySpec) -> int:
    return max(5, len(str(key.count))) if key.count else _WIDTH


def _keys_of(topic: TopicSpec, ranks: np.ndarray) -> np.ndarray | None:
    key = topic.key
    if key.kind == "none":
        return None
    return columns.big_long(ranks) if key.format == "long" else columns.numbered(key.prefix, ranks, _width(key))


def _key_texts(key: KeySpec, ranks: np.ndarray, topic: TopicSpec) -> pa.Array:
    if key.format == "long":
        return columns.whole_text(ranks)
    rows = _keys_of(topic, ranks)
    return columns.from_matrix(rows, pa.string())
