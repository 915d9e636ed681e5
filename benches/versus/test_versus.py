"""The parts of the benchmark that decide whether its figures may be believed."""

from __future__ import annotations

import json
import struct
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[2] / "tests" / "integration")]

import restore  # noqa: E402
import word_count  # noqa: E402
from broker.kafka_broker import KafkaBroker  # noqa: E402
from confluent_kafka import Producer  # noqa: E402
from engines import Run  # noqa: E402
from final_table import FinalTable, TableError, differences, read_final_table, table_hash  # noqa: E402
from report import Measurement, as_json, as_text, paired_ratios  # noqa: E402
from word_count import checked, order_of  # noqa: E402
from workload import LONGEST, SHORTEST, VOCABULARY, Workload, generate, true_counts, vocabulary  # noqa: E402

RUN = Run(
    engine="kstreams", repeat=0, records=1000, seconds=2.0, wall_seconds=2.5, cpu_seconds=4.0, process_cpu_seconds=4.0,
    peak_rss_kb=512_000, broker_cpu_seconds=0.5, other_cpu_seconds=1.0,
)  # fmt: skip


def measurement(engine: str, repeat: int, short_cpu: float, full_cpu: float) -> Measurement:
    full = replace(RUN, engine=engine, repeat=repeat, process_cpu_seconds=full_cpu)
    return Measurement(replace(full, records=250, process_cpu_seconds=short_cpu), full)


def test_the_same_seed_is_the_same_input() -> None:
    lines = list(generate(Workload(500, 7)))
    assert lines == list(generate(Workload(500, 7)))
    assert lines != list(generate(Workload(500, 8)))
    assert len(lines) == 500
    assert all(SHORTEST <= len(line.split()) <= LONGEST and line[0].isupper() for line in lines)


def test_all_lines_are_made_over_several_chunks() -> None:
    assert sum(1 for _ in generate(Workload(45_000, 1))) == 45_000


def test_words_follow_zipf() -> None:
    words = vocabulary(1)
    assert len(set(words)) == VOCABULARY
    counts = true_counts(Workload(20_000, 1))
    # The most frequent word has 1/H(10000) = 10.2 % of all, ten times the tenth.
    assert counts[words[0]] / sum(counts.values()) == pytest.approx(0.102, rel=0.05)
    assert counts[words[0]] / counts[words[9]] == pytest.approx(10, rel=0.1)


def test_the_hash_ignores_order_and_nothing_else() -> None:
    table = {"a": 1, "b": 2, "ab": 3}
    assert table_hash(table) == table_hash(dict(reversed(table.items())))
    for other in ({"a": 2, "b": 1, "ab": 3}, {"a": 1, "b": 2}, {**table, "c": 0}, {"a": 1, "b": 2, "ab": 4}):
        assert table_hash(other) != table_hash(table)


def test_differences_are_named() -> None:
    said = differences({"a": 1, "x": 9, "b": 3}, {"a": 1, "b": 2, "c": 5})
    assert len(said) == 3
    assert "1 missing, for example ['c']" in said[0]
    assert "['x']" in said[1]
    assert "('b', 3, 2)" in said[2]
    assert differences({"a": 1}, {"a": 1}) == []


def test_a_wrong_table_reports_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_count, "read_final_table", lambda *_: FinalTable({"a": 2}, 7))
    with pytest.raises(TableError, match=r"no time is reported.*\('a', 2, 1\)"):
        checked(RUN, "unused", "t", 1, {"a": 1})
    assert checked(RUN, "unused", "t", 1, {"a": 2}).output_records == 7


def test_engines_alternate() -> None:
    engines = ["k", "n", "l"]
    assert [order_of(repeat, engines)[0] for repeat in range(4)] == ["k", "n", "l", "k"]
    assert all(sorted(order_of(repeat, engines)) == sorted(engines) for repeat in range(4))


def test_ratios_are_within_a_repeat() -> None:
    measured = [
        measurement("kstreams", 0, 2.0, 4.0),
        measurement("native", 0, 0.5, 1.0),
        measurement("native", 1, 5.0, 8.0),
        measurement("kstreams", 1, 10.0, 40.0),
    ]
    whole = paired_ratios(measured, lambda one: one.full.cpu_per_million)["native"]
    assert (whole.low, whole.high) == (0.2, 0.25)
    marginal = paired_ratios(measured, lambda one: one.marginal_cpu_per_million)["native"]
    assert (marginal.low, marginal.high) == (0.1, 0.25)
    assert "0.200x 0.225x 0.250x" in as_text(measured)
    assert "0.100x 0.175x 0.250x" in as_text(measured)


def test_marginal_cost_has_no_start_in_it() -> None:
    one = measurement("kstreams", 0, 3.0, 4.5)
    assert one.marginal_cpu_per_million == pytest.approx(1.5 / 750 * 1e6)
    assert measurement("kstreams", 0, 4.0, 3.9).marginal_cpu_per_million is None


def test_json_is_written_also_when_noise_hides_the_marginal_cost() -> None:
    measured = [measurement("kstreams", 0, 2.0, 4.0), measurement("native", 0, 1.0, 0.9)]
    written = json.loads(json.dumps(as_json(measured, {"cores": 2}, {"lines": 1000})))
    assert written["summary"]["marginal_cpu_per_million"]["ratio_to_kafka_streams"] == {}
    assert written["summary"]["cpu_per_million"]["spread"]["kstreams"]["median"] == 4000.0
    assert len(written["runs"]) == 4


def test_the_reader_of_final_tables_is_not_fooled() -> None:
    """On a real broker: aborted records, an open transaction, and a key in two partitions."""
    with KafkaBroker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "t"})
        producer.init_transactions(30)

        def write(topic: str, rows: list[tuple[str, int, int]]) -> None:
            producer.begin_transaction()
            for key, count, partition in rows:
                producer.produce(topic, key=key.encode(), value=struct.pack(">q", count), partition=partition)
            assert producer.flush(30) == 0

        broker.create_topic("counts", 3)
        write("counts", [("a", 1, 0), ("b", 1, 1), ("a", 2, 0)])
        producer.commit_transaction(30)
        write("counts", [("a", 99, 0)])
        producer.abort_transaction(30)
        table = read_final_table(broker.bootstrap, "counts", 3)
        assert (dict(table.counts), table.records) == ({"a": 2, "b": 1}, 3)

        write("counts", [("a", 3, 0)])
        with pytest.raises(TableError, match="transaction is still open"):
            read_final_table(broker.bootstrap, "counts", 3)
        producer.commit_transaction(30)
        assert read_final_table(broker.bootstrap, "counts", 3).counts["a"] == 3

        write("counts", [("a", 4, 2)])
        producer.commit_transaction(30)
        with pytest.raises(TableError, match="'a' stands in partitions"):
            read_final_table(broker.bootstrap, "counts", 3)


def test_every_key_of_a_restore_is_written_once() -> None:
    for keys in (2, 1000, 20_000):
        numbers = {n * restore.STRIDE % keys for n in range(keys)}
        assert numbers == set(range(keys))


def test_a_restore_is_compared_with_the_other_side_of_the_same_repeat() -> None:
    def said(seconds: float) -> dict[str, float]:
        return {name: seconds for name, _ in restore.METRICS}

    runs = [
        {
            restore.KSTREAMS: {"cold": said(8.0), "warm": said(6.0)},
            restore.STOATFLOW: {"cold": said(2.0), "warm": said(1.0)},
        },
        {
            restore.KSTREAMS: {"cold": said(9.0), "warm": said(6.0)},
            restore.STOATFLOW: {"cold": said(1.0), "warm": said(1.0)},
        },
    ]
    text = restore.table(runs)
    cold, warm = text.split("warm:")
    assert "4.0x 6.5x 9.0x" in cold
    assert "6.0x 6.0x 6.0x" in warm
    alone = restore.table([{restore.STOATFLOW: runs[0][restore.STOATFLOW]}])
    assert "x" not in alone.replace("max", ""), "no ratio without the other side"
