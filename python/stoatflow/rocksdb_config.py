"""RocksDB options of a store.

`RocksDBConfig` is frozen data for `Materialized(rocksdb=)` and `Stores`. Options that it leaves out are those of the
settings `rocksdb.*`. Types are checked here, ranges of numbers by the engine.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from stoatflow.errors import TopologyError
from stoatflow.plan.functions import given
from stoatflow.plan.specs import RocksDBSpec

__all__ = ["RocksDBConfig", "Size", "rocksdb_spec"]

Size: TypeAlias = int | str
"""Bytes, or text such as `"64KiB"`."""

_UNITS: Final = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)
_WORDS: Final = {"compression": ("none", "lz4", "zstd"), "compaction": ("level", "universal")}
_WHY: Final = {"fifo": ". RocksDB's fifo deletes the oldest rows of a store, and the changelog would bring them back"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RocksDBConfig:
    """RocksDB options of a store: `RocksDBConfig(compression="zstd", block_size="16KiB")`.

    `compression` of its files is "none", "lz4" or "zstd". `block_size` is the approximate number of bytes that are
    read, cached and compressed together. `bloom_bits` are the bits per key of a Bloom filter, 0 for no filter.
    `compaction` is "level" or "universal". `cache_size` gives the store its own block cache, taken out of
    `state.memory.max.bytes`, so that it and other stores don't evict each other's blocks.

    All options may change from run to run: existing rows stay as they were written until they are compacted.

    >>> sf.RocksDBConfig(compression="zstd", block_size="16KiB")
    RocksDBConfig(compression='zstd', block_size='16KiB', bloom_bits=None, compaction=None, cache_size=None)

    >>> builder = sf.StreamsBuilder()
    >>> kept = sf.Materialized("orders", rocksdb=sf.RocksDBConfig(compression="zstd"))
    >>> orders = builder.table("orders", key=str, value=dict, store=kept)
    >>> seen = sf.Stores.key_value("seen", key=str, value=int, rocksdb=sf.RocksDBConfig(bloom_bits=0))
    """

    compression: Literal["none", "lz4", "zstd"] | None = None
    block_size: Size | None = None
    bloom_bits: int | None = None
    compaction: Literal["level", "universal"] | None = None
    cache_size: Size | None = None


def rocksdb_spec(config: object, store: str | None, argument: str, line: str) -> RocksDBSpec | None:
    """Return a `RocksDBConfig` as plan data; raise `TopologyError` for anything else."""
    how = given(config, RocksDBConfig, None, argument, line)
    if how is None:
        return None
    where = f"{line} {argument} of the store {store!r}: RocksDBConfig"
    for name, known in _WORDS.items():
        word = getattr(how, name)
        if word is not None and word not in known:
            raise TopologyError(
                f"{where}({name}={word!r}) is not known{_WHY.get(str(word), '')}",
                next_step=f"write {' or '.join(map(repr, known))}",
            )
    bits = how.bloom_bits
    if bits is not None and (isinstance(bits, bool) or not isinstance(bits, int) or bits < 0):
        raise TopologyError(
            f"{where}(bloom_bits={bits!r}) is no number of bits", next_step="write bloom_bits=10, or 0 for no filter"
        )
    return RocksDBSpec(
        how.compression,
        _bytes(how.block_size, f"{where}(block_size="),
        bits,
        how.compaction,
        _bytes(how.cache_size, f"{where}(cache_size="),
    )


def _bytes(size: object, where: str) -> int | None:
    if size is None or (isinstance(size, int) and not isinstance(size, bool) and size >= 0):
        return size
    match = _SIZE.fullmatch(size) if isinstance(size, str) else None
    unit = None if match is None else _UNITS.get(match[2].lower())
    if match is None or unit is None:
        raise TopologyError(f"{where}{size!r}) is no size", next_step='write bytes, or text such as "64KiB", "16MiB"')
    return round(float(match[1]) * unit)
