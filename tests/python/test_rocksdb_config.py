"""How RocksDB keeps a store: said in the topology or by settings, in force, changed on rows that are there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from concurrency import until
from http_calls import ask
from stoatflow import EmbeddedBroker, Record, RocksDBConfig, StoatFlow, Stores

DEFAULT = {"compression": "lz4", "block_size": 4096, "bloom_bits": 10, "compaction": "level", "cache_size": None}
ROWS = 3_000

Make = Callable[..., StoatFlow]


class Sums(sf.ContextualProcessor[str, int, str, int]):
    def process(self, record: Record[str, int]) -> None:
        self.context.state_store("sums").merge(record.key, record.value, lambda had, more: had + more)


def topology(config: RocksDBConfig | None) -> sf.Topology:
    """A table and a store of a processor that are kept so, and a table that says nothing."""
    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    builder.add_state_store(Stores.persistent_key_value("sums", key=str, value=int, rocksdb=config))
    stream.process(Sums, stores=["sums"])
    grouped = stream.group_by_key()
    grouped.count(store=sf.Materialized("counts", rocksdb=config))
    grouped.count(store="plain")
    return builder.build()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(tmp_path / "broker") as made:
        made.create_topic("in", 2)
        yield made


@pytest.fixture
def make(broker: EmbeddedBroker, tmp_path: Path) -> Make:
    def application(topology: sf.Topology, reported: sf.RestoreListener | None = None, **settings: object) -> StoatFlow:
        given = {"application.id": "app", "state.dir": str(tmp_path / "state"), "lanes.count": 2, **settings}
        return StoatFlow(topology, sf.Settings(given, environ={}), broker=broker, on_restore=reported)

    return application


def in_force(app: StoatFlow) -> dict[str, Any]:
    """Give by store what `/topology` says."""
    return {store["name"]: store["rocksdb"] for store in ask(app.admin_url, "/topology").json()["stores"]}


def on_disk(folder: Path) -> dict[str, str]:
    """Give what RocksDB itself has written down of its options, by section."""
    written = max(folder.rglob("OPTIONS-*")).read_text("utf-8")
    return {section.splitlines()[0]: section for section in written.split("\n[")}


def test_options_of_a_store_are_in_force(make: Make, tmp_path: Path) -> None:
    output = RocksDBConfig(compression="zstd", block_size="64KiB", bloom_bits=0, cache_size="2 MiB")
    with make(topology(output), **{"rocksdb.compaction": "universal", "rocksdb.bloom.bits": 12}) as app:
        until(lambda: app.state is sf.State.RUNNING)
        others = {**DEFAULT, "compaction": "universal", "bloom_bits": 12}
        packed = {**others, "compression": "zstd", "block_size": 65_536, "bloom_bits": 0, "cache_size": 2 << 20}
        assert in_force(app) == {"sums": packed, "counts": packed, "plain": others}
        shown = ask(app.admin_url, "/config").json()["settings"]
        assert shown["rocksdb.compaction"] == {"value": "universal", "source": "code"}
        assert shown["rocksdb.block.size"] == {"value": 4_096, "source": "default"}
    sections = on_disk(tmp_path / "state")
    for store, block in (("sums", 65_536), ("counts", 65_536), ("plain", 4_096)):
        assert f"block_size={block}\n" in sections[f'TableOptions/BlockBasedTable "{store}"]']
        assert "kCompactionStyleUniversal" in sections[f'CFOptions "{store}"]']


def test_indexes_use_the_options_of_their_store(make: Make, tmp_path: Path) -> None:
    builder = sf.StreamsBuilder()
    output = RocksDBConfig(compression="zstd", block_size="8KiB", cache_size="16MiB")
    kept = sf.Materialized("orders", rocksdb=output, indexes=[sf.Index("by_amount", sf.value)])
    builder.table("in", key=str, value=int, store=kept)
    # Enough for the cache of the store, and for no second one.
    with make(builder.build(), **{"state.memory.max.bytes": "44MiB"}) as app:
        until(lambda: app.state is sf.State.RUNNING)
    sections = on_disk(tmp_path / "state")
    assert "kZSTD" in sections['CFOptions "orders/by_amount"]']
    assert "block_size=8192\n" in sections['TableOptions/BlockBasedTable "orders/by_amount"]']


LIVES = [
    None,
    RocksDBConfig(compression="zstd", block_size=65_536, bloom_bits=0),
    RocksDBConfig(compaction="universal", cache_size="4MiB"),
    RocksDBConfig(compression="none", bloom_bits=20, compaction="level", block_size="1KiB"),
    None,
]


def test_options_may_change_at_every_restart(make: Make, broker: EmbeddedBroker) -> None:
    restored: list[int] = []

    class Told(sf.RestoreListener):
        def on_restore_end(self, partition: sf.TopicPartition, store: str, total: int) -> None:
            restored.append(total)

    for life, config in enumerate(LIVES, 1):
        broker.produce_many("in", [(None, f"k{n}".encode(), life.to_bytes(8, "big"), n) for n in range(ROWS)])
        with make(topology(config), Told()) as app:
            until(lambda: app.state is sf.State.ERROR or app.metrics()["records_committed"] == ROWS)
            with app.snapshot() as at:
                assert dict(at.store("counts").all()) == {f"k{n}": life for n in range(ROWS)}
                assert dict(at.store("sums").all()) == {f"k{n}": sum(range(life + 1)) for n in range(ROWS)}
        assert restored == [], "the rows on disk were used"


def test_the_plan_omits_options_that_come_from_settings() -> None:
    builder = sf.StreamsBuilder()
    half = sf.Materialized("half", rocksdb=RocksDBConfig(block_size="1.5 KB", bloom_bits=0))
    builder.table("in", key=str, value=int, store=half).to_stream().to("out")
    builder.add_global_store(
        Stores.key_value("places", key=str, value=str, rocksdb=RocksDBConfig(compaction="universal")),
        "places",
        Sums,
        key=str,
        value=str,
    )
    stores = json.loads(builder.build().plan.physical_json)["stores"]
    assert {store["name"]: store.get("rocksdb") for store in stores} == {
        "half": {"block_size": 1_500, "bloom_bits": 0},
        "places": {"compaction": "universal"},
    }


def as_table(config: Any, **how: Any) -> sf.Topology:
    builder = sf.StreamsBuilder()
    builder.table("in", key=str, value=int, store=sf.Materialized(**{"store": "orders", "rocksdb": config, **how}))
    return builder.build()


def as_store(config: Any) -> sf.Topology:
    builder = sf.StreamsBuilder()
    builder.add_state_store(Stores.persistent_session("orders", "1h", key=str, value=int, rocksdb=config))
    builder.stream("in", key=str, value=int).process(Sums, stores=["orders"])
    return builder.build()


WRONG: list[tuple[Any, str, str]] = [
    (RocksDBConfig(compression="snappy"), "compression='snappy') is not known", "'none' or 'lz4' or 'zstd'"),  # type: ignore[arg-type]
    (RocksDBConfig(compaction="fifo"), "deletes the oldest rows of a store", "'level' or 'universal'"),  # type: ignore[arg-type]
    (RocksDBConfig(compression=["zstd"]), "compression=['zstd']) is not known", "'zstd'"),  # type: ignore[arg-type]
    (RocksDBConfig(bloom_bits=1.5), "bloom_bits=1.5) is no number of bits", "bloom_bits=10"),  # type: ignore[arg-type]
    (RocksDBConfig(bloom_bits=True), "bloom_bits=True) is no number of bits", "bloom_bits=10"),
    (RocksDBConfig(bloom_bits=33), "bloom_bits=33) must be between 0 and 32", ""),
    (RocksDBConfig(block_size="16 pages"), "block_size='16 pages') is no size", '"64KiB"'),
    (RocksDBConfig(block_size=-1), "block_size=-1) is no size", '"64KiB"'),
    (RocksDBConfig(block_size=16), "block_size=16) must be between 1024 and 1048576", ""),
    (RocksDBConfig(cache_size="64KiB"), "cache_size=65536) must be between 1048576 and", ""),
]


@pytest.mark.parametrize("keep", [as_table, as_store])
@pytest.mark.parametrize(("config", "words", "next_step"), WRONG)
def test_invalid_options_name_the_store(
    keep: Callable[[Any], sf.Topology], config: RocksDBConfig, words: str, next_step: str
) -> None:
    with pytest.raises(sf.TopologyError) as caught:
        keep(config)
    assert words in str(caught.value)
    assert "the store 'orders'" in str(caught.value)
    assert "test_rocksdb_config.py:" in str(caught.value)
    assert next_step in caught.value.next_step


def test_an_invalid_config_is_refused() -> None:
    with pytest.raises(sf.TopologyError, match=r"table: Materialized\(rocksdb=\) needs a RocksDBConfig, not dict"):
        as_table({"compression": "zstd"})
    with pytest.raises(sf.TopologyError, match=r"Stores\(rocksdb=\) needs a RocksDBConfig, not str"):
        as_store("zstd")
    with pytest.raises(sf.TopologyError, match="needs a name: write Materialized"):
        as_table(RocksDBConfig(), store=None)


def test_a_store_in_memory_has_none() -> None:
    with pytest.raises(sf.TopologyError, match="the store 'orders' is in memory, where RocksDB keeps nothing"):
        as_table(RocksDBConfig(), type="memory")
    with pytest.raises(TypeError, match="unexpected keyword argument 'rocksdb'"):
        Stores.in_memory_key_value("orders", rocksdb=RocksDBConfig())  # type: ignore[call-arg]


def test_two_stores_of_one_name_differ_by_it_too() -> None:
    class Brings(Sums):
        bits = 10

        @classmethod
        def stores(cls) -> list[Any]:
            return [Stores.key_value("sums", key=str, value=int, rocksdb=RocksDBConfig(bloom_bits=cls.bits))]

    class Other(Brings):
        bits = 0

    builder = sf.StreamsBuilder()
    stream = builder.stream("in", key=str, value=int)
    stream.process(Brings)
    stream.process(Brings)
    with pytest.raises(sf.TopologyError, match="two different stores are named 'sums'"):
        stream.process(Other)


def test_caches_must_leave_room_for_the_others(make: Make) -> None:
    app = make(topology(RocksDBConfig(cache_size="16MiB")), **{"state.memory.max.bytes": "64MiB"})
    with pytest.raises(sf.ConfigError, match="take 33554432 bytes for the stores sums, counts, but") as caught, app:
        app.wait(timeout=60)
    assert "set state.memory.max.bytes to 89478488 or more" in caught.value.next_step
    with make(topology(RocksDBConfig(cache_size="16MiB")), **{"state.memory.max.bytes": 89_478_488}) as app:
        until(lambda: app.state is sf.State.RUNNING)


def test_in_memory_by_a_setting_it_has_no_effect(make: Make, capfd: pytest.CaptureFixture[str]) -> None:
    with make(topology(RocksDBConfig(bloom_bits=0)), **{"default.dsl.store": "in_memory"}) as app:
        until(lambda: app.state is sf.State.RUNNING)
        assert in_force(app) == {"sums": None, "counts": None, "plain": None}
    printed = capfd.readouterr().err
    assert "default.dsl.store = in_memory keeps all stores in memory" in printed
    assert "sums, counts" in printed
