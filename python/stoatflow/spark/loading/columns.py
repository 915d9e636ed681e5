"""Builds columns of text and bytes from arrays of numbers, without a loop over rows.

Takes numpy arrays, returns pyarrow arrays of strings or bytes. Independent of fields.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MOST_VARINT = 10


def from_matrix(rows: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Return each row of a matrix of bytes as one value."""
    count, width = rows.shape
    offsets = np.arange(count + 1, dtype=np.int64) * width
    return _array(offsets, np.ascontiguousarray(rows).reshape(-1), kind)


def from_masked(rows: np.ndarray, lengths: np.ndarray, kind: pa.DataType) -> pa.Array:
    """Return the first `lengths` bytes of each row of a matrix."""
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return _array(offsets, rows[np.arange(rows.shape[1]) < lengths[:, None]], kind)


def _array(offsets: np.ndarray, data: np.ndarray, kind: pa.DataType) -> pa.Array:
    if offsets[-1] > 2**31 - 1:
        raise ValueError("a batch of more than 2 GB: make smaller ones")
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(kind, len(offsets) - 1, buffers)


def numbered(prefix: str, numbers: np.ndarray, width: int) -> np.ndarray:
    """Return a prefix and a number with leading zeros as a matrix of bytes."""
    start = np.frombuffer(prefix.encode(), dtype=np.uint8)
    rows = np.empty((len(numbers), len(start) + width), dtype=np.uint8)
    rows[:, : len(start)] = start
    rest = numbers.astype(np.int64)
    for at in range(width - 1, -1, -1):
        rest, digit = np.divmod(rest, 10)
        rows[:, len(start) + at] = digit + ord("0")
    return rows


def whole_text(numbers: np.ndarray) -> pa.Array:
    """Return integers as text."""
    return pc.cast(pa.array(numbers), pa.string())


def decimal_text(numbers: np.ndarray, digits: int) -> pa.Array:
    """Return numbers with this many decimals, from integers in units of the last digit."""
    if digits == 0:
        return pc.binary_join_element_wise(whole_text(numbers), ".0", "")
    before, behind = np.divmod(np.abs(numbers), 10**digits)
    sign = pc.if_else(pa.array(numbers < 0), "-", "")
    after = from_matrix(numbered("", behind, digits), pa.string())
    return joined(sign, whole_text(before), ".", after)


def joined(*pieces: pa.Array | str | bytes) -> pa.Array:
    """Concatenate the pieces of each row; a piece may be one constant for all rows."""
    last = b"" if any(_is_bytes(piece) for piece in pieces) else ""
    return pc.binary_join_element_wise(*pieces, last)


def _is_bytes(piece: pa.Array | str | bytes) -> bool:
    return isinstance(piece, bytes) or (isinstance(piece, pa.Array) and pa.types.is_binary(piece.type))


def varint(numbers: np.ndarray) -> pa.Array:
    """Encode unsigned numbers as varints: groups of seven bits, the lowest first, as in Avro and Protobuf."""
    rest = numbers.astype(np.uint64)
    rows = np.empty((len(rest), MOST_VARINT), dtype=np.uint8)
    lengths = np.ones(len(rest), dtype=np.int64)
    for at in range(MOST_VARINT):
        more = rest >> np.uint64(7)
        rows[:, at] = (rest & np.uint64(0x7F)).astype(np.uint8) | np.where(more > 0, 0x80, 0).astype(np.uint8)
        lengths += more > 0
        rest = more
    return from_masked(rows, lengths, pa.binary())


def zigzag(numbers: np.ndarray) -> pa.Array:
    """Encode signed numbers as in Avro (zigzag): small ones of either sign are short."""
    signed = numbers.astype(np.int64)
    return varint(((signed << 1) ^ (signed >> 63)).view(np.uint64))


def little_double(numbers: np.ndarray) -> pa.Array:
    """Encode doubles as eight bytes, little-endian."""
    return from_matrix(numbers.astype("<f8").view(np.uint8).reshape(-1, 8), pa.binary())


def big_long(numbers: np.ndarray) -> np.ndarray:
    """Encode signed numbers as eight bytes, big-endian, as a matrix."""
    matrix: np.ndarray = numbers.astype(">i8").view(np.uint8).reshape(-1, 8)
    return matrix


def interleaved(columns: Sequence[pa.Array], rows: int) -> pa.Array:
    """Return the columns' values row by row in one array."""
    count = len(columns)
    whole = pa.concat_arrays(columns)
    places = np.arange(rows * count, dtype=np.int64)
    return whole.take(pa.array((places % count) * rows + places // count))
