"""Records of a topic as Arrow batches: each a function of the seed and the record's number.

Takes a spec, a topic, a range of numbers. Returns batches with the columns of `SCHEMA`. Decides which records are late,
repeated, without a value or malformed. Works without Spark, and keeps no state.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stoatflow.spark.loading import columns, encode, random_bits
from stoatflow.spark.loading.fields import Drawing
from stoatflow.spark.loading.spec import LoadSpec, TimeSpec, TopicSpec

SCHEMA = pa.schema(
    [
        ("partition", pa.int32()),
        ("number", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.int64()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        ("kinds", pa.int32()),
    ]
)
SPARK_SCHEMA = (
    "partition int, number long, key binary, value binary, timestamp long, "
    "headers array<struct<key: string, value: binary>>, kinds int"
)
KINDS = {"duplicates": 1, "tombstones": 2, "null_keys": 4, "malformed": 8, "late": 16, "disordered": 32}
"""The bits of the column `kinds`."""

ROWS = 10_000
_BACK = 16
"""A duplicate repeats one of this many records before it."""
_MALFORMED = b"\xff\x00not what the format says"


def batches(
    spec: LoadSpec, topic: TopicSpec, start: int, stop: int, rows: int = ROWS, partition: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of these numbers; with `partition`, only those of one partition."""
    step = rows if partition is None else rows * topic.partitions
    for first in range(start, stop, step):
        numbers = np.arange(first, min(first + step, stop), dtype=np.uint64)
        if partition is not None:
            numbers = numbers[_Keyed(spec, topic, numbers).partitions() == partition]
        if len(numbers):
            yield batch(spec, topic, numbers)


class _Keyed:
    """Properties of records that are known before their values are generated."""

    def __init__(self, spec: LoadSpec, topic: TopicSpec, own: np.ndarray) -> None:
        self.topic = topic
        self.own = own
        self.repeats, self.numbers = _repeated(spec, topic, own)
        self.times, self.late, self.disordered = _times(spec, topic, self.numbers)
        self.drawing = Drawing(spec, topic, self.numbers, self.times)
        self.keys = self.drawing.keys()
        self.keyless = random_bits.happens(self.drawing.bits("/null-keys"), topic.faults.null_keys)

    def partitions(self) -> np.ndarray:
        """Return the partitions of the records."""
        in_turn = (self.own % np.uint64(self.topic.partitions)).astype(np.int32)
        if self.keys is None or self.topic.partitioner == "round-robin":
            return in_turn
        by_key = random_bits.partitions_of(self.keys, self.topic.partitions)
        return np.where(self.keyless, in_turn, by_key).astype(np.int32)

    def key_column(self) -> pa.Array:
        """Return the keys of the records."""
        if self.keys is None:
            return pa.nulls(len(self.own), pa.binary())
        known = columns.from_matrix(self.keys, pa.binary())
        return pc.if_else(pa.array(self.keyless), pa.scalar(None, pa.binary()), known)


def batch(spec: LoadSpec, topic: TopicSpec, own: np.ndarray) -> pa.RecordBatch:
    """Return the records of these numbers as one batch."""
    keyed, faults = _Keyed(spec, topic, own), topic.faults
    drawing = keyed.drawing
    empty = random_bits.happens(drawing.bits("/tombstones"), faults.tombstones)
    spoilt = random_bits.happens(drawing.bits("/malformed"), faults.malformed) & ~empty
    value = encode.values(topic, [drawing.field(each) for each in topic.fields])
    value = pc.if_else(pa.array(spoilt), pa.scalar(_MALFORMED, pa.binary()), value)
    value = pc.if_else(pa.array(empty), pa.scalar(None, pa.binary()), value)
    keyless = keyed.keyless & (keyed.keys is not None)
    kinds = (keyed.repeats, empty, keyless, spoilt, keyed.late, keyed.disordered)
    flags = sum(kind.astype(np.int32) << bit for bit, kind in enumerate(kinds))
    return pa.RecordBatch.from_arrays(
        [
            pa.array(keyed.partitions()),
            pa.array(own.astype(np.int64)),
            keyed.key_column(),
            value,
            pa.array(keyed.times),
            _headers(topic, drawing, len(own)),
            pa.array(flags, pa.int32()),
        ],
        schema=SCHEMA,
    )


def _repeated(spec: LoadSpec, topic: TopicSpec, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which records are duplicates, and the number of the record that each one contains."""

    def flagged(numbers: np.ndarray) -> np.ndarray:
        bits = random_bits.mixed(spec.seed, f"{topic.name}//duplicates", numbers)
        return random_bits.happens(bits, topic.faults.duplicates) & (numbers > 0)

    back = random_bits.below(random_bits.mixed(spec.seed, f"{topic.name}//back", own), _BACK).astype(
        np.uint64
    ) + np.uint64(1)
    original = own - np.minimum(back, own)
    # A duplicate isn't repeated again: the original always exists.
    repeats = flagged(own) & ~flagged(original)
    return repeats, np.where(repeats, original, own)


def _times(spec: LoadSpec, topic: TopicSpec, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return event times, and which of them are late or out of order."""
    time = topic.time

    def bits(name: str) -> np.ndarray:
        return random_bits.mixed(spec.seed, f"{topic.name}//{name}", numbers)

    times = time.start_ms + on_time(time, numbers)
    disordered = random_bits.happens(bits("disorder"), time.disorder if time.disorder_within_ms else 0.0)
    late = random_bits.happens(bits("late"), time.late if time.late_by_ms else 0.0)
    times = times - np.where(disordered, random_bits.below(bits("within"), time.disorder_within_ms + 1), 0)
    return times - np.where(late, time.late_by_ms, 0), late, disordered


def on_time(time: TimeSpec, numbers: np.ndarray) -> np.ndarray:
    """Return milliseconds since the start, without lateness: records at a rate, in bursts, with gaps."""
    at = numbers.astype(np.int64)
    if time.burst_every_ms and time.burst_length_ms and time.burst_factor > 1.0:
        burst = time.rate * time.burst_factor * time.burst_length_ms / 1000
        calm = time.rate * (time.burst_every_ms - time.burst_length_ms) / 1000
        cycle, within = np.divmod(at, max(1, round(burst + calm)))
        in_burst = within / (time.rate * time.burst_factor) * 1000
        behind = time.burst_length_ms + (within - burst) / time.rate * 1000
        elapsed = cycle * time.burst_every_ms + np.floor(np.where(within < burst, in_burst, behind)).astype(np.int64)
    else:
        elapsed = np.floor(at * (1000.0 / time.rate)).astype(np.int64)
    if time.gap_every_ms and time.gap_length_ms:
        elapsed = elapsed + elapsed // time.gap_every_ms * time.gap_length_ms
    whole: np.ndarray = elapsed.astype(np.int64)
    return whole


def _headers(topic: TopicSpec, drawing: Drawing, rows: int) -> pa.Array:
    kind = SCHEMA.field("headers").type
    if not topic.headers:
        return pa.nulls(rows, kind)
    names = [pa.array([each.name]).take(pa.array(np.zeros(rows, np.int64))) for each in topic.headers]
    values = [pc.cast(drawing.field(each).text(), pa.binary()) for each in topic.headers]
    pairs = pa.StructArray.from_arrays(
        [columns.interleaved(names, rows), columns.interleaved(values, rows)], fields=list(kind.value_type)
    )
    ends = pa.array(np.arange(rows + 1, dtype=np.int32) * len(topic.headers))
    return pa.ListArray.from_arrays(ends, pairs).cast(kind)
