"""The parts of the benchmark on which the trust in its figures depends."""

from __future__ import annotations

import json
import struct
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[2] / "tests" / "integration")]

import restore  # noqa: E402
import stoatflow_programs  # noqa: E402
import versus  # noqa: E402
from broker.kafka_broker import KafkaBroker  # noqa: E402
from conditions import Conditions  # noqa: E402
from confluent_kafka import Producer  # noqa: E402
from engines import FLAVOURS, KSTREAMS, LOOPS, Available, EngineError, Job, Run, command  # noqa: E402
from filling import fill_topic  # noqa: E402
from final_table import FinalTable, TableError, differences, read_final_table, table_hash  # noqa: E402
from report import Measurement, Results, as_json, as_text, paired_ratios  # noqa: E402
from restore import Restored  # noqa: E402
from versus import Bench, arguments, checked, chosen, order_of  # noqa: E402
from workloads import WORKLOADS, json_filter, out_of_order, sessions, shop, table_join, windowed_sum  # noqa: E402
from workloads.reading import (  # noqa: E402
    Cell,
    Form,
    in_session,
    in_window,
    json_object,
    keyed,
    long,
    long_by_text,
    object_by_id,
)
from workloads.word_count import LONGEST, SHORTEST, VOCABULARY, lines, true_counts, vocabulary  # noqa: E402
from workloads.workload import Load, Row  # noqa: E402

RUN = Run(
    workload="w2", engine="kstreams", repeat=0, records=1000, seconds=2.0, wall_seconds=2.5, cpu_seconds=4.0,
    process_cpu_seconds=4.0, peak_rss_kb=512_000, broker_cpu_seconds=0.5, other_cpu_seconds=1.0,
    guarantee="exactly_once_v2", processes=1,
)  # fmt: skip


def measurement(engine: str, repeat: int, short_cpu: float, full_cpu: float) -> Measurement:
    full = replace(RUN, engine=engine, repeat=repeat, process_cpu_seconds=full_cpu)
    return Measurement(replace(full, records=250, process_cpu_seconds=short_cpu), full)


def test_the_same_seed_is_the_same_input() -> None:
    for workload in WORKLOADS.values():
        for source in workload.inputs:
            rows = list(source.rows(Load(500, 7, table_keys=50)))
            assert rows == list(source.rows(Load(500, 7, table_keys=50)))
            assert rows != list(source.rows(Load(500, 8, table_keys=50)))
            assert len(rows) == source.count(Load(500, 7, table_keys=50))


def test_lines_are_lines() -> None:
    assert all(SHORTEST <= len(line.split()) <= LONGEST and line[0].isupper() for line in lines(Load(500, 7)))


def test_all_lines_are_made_over_several_chunks() -> None:
    assert sum(1 for _ in lines(Load(45_000, 1))) == 45_000


def test_words_follow_zipf() -> None:
    words = vocabulary(1)
    assert len(set(words)) == VOCABULARY
    counts = {word: int(count) for word, count in true_counts(Load(20_000, 1)).items()}
    # The most frequent word has 1/H(10000) = 10.2 % of all, ten times the tenth.
    assert counts[words[0]] / sum(counts.values()) == pytest.approx(0.102, rel=0.05)
    assert counts[words[0]] / counts[words[9]] == pytest.approx(10, rel=0.1)


def test_the_hash_ignores_order_and_nothing_else() -> None:
    table = {"a": 1, "b": 2, "ab": 3}
    assert table_hash(table) == table_hash(dict(reversed(table.items())))
    for other in ({"a": 2, "b": 1, "ab": 3}, {"a": 1, "b": 2}, {**table, "c": 0}, {"a": 1, "b": 2, "ab": 4}):
        assert table_hash(other) != table_hash(table)


def test_differences_are_named() -> None:
    output = differences({"a": 1, "x": 9, "b": 3}, {"a": 1, "b": 2, "c": 5})
    assert len(output) == 3
    assert "1 missing, for example ['c']" in output[0]
    assert "['x']" in output[1]
    assert "('b', 3, 2)" in output[2]
    assert differences({"a": 1}, {"a": 1}) == []


def test_a_wrong_table_reports_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versus, "read_final_table", lambda *_, **__: FinalTable({"a": 2}, 7))
    with pytest.raises(TableError, match=r"no time is reported.*\('a', 2, 1\)"):
        checked(RUN, "unused", ["t"], 1, {"a": 1})
    assert checked(RUN, "unused", ["t"], 1, {"a": 2}).output_records == 7


def test_all_outputs_of_a_workload_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {name: FinalTable({f"row of {name}": 1}, 2) for name in "abcde"}
    monkeypatch.setattr(versus, "read_final_table", lambda _, sink, *__, **___: tables[sink])
    wanted: dict[str, Cell] = {f"row of {name}": 1 for name in "abcde"}
    run = replace(RUN, workload="w7")
    assert checked(run, "unused", list("abcde"), 1, wanted).output_records == 10
    with pytest.raises(TableError, match=r"1 missing, for example .'row of f'"):
        checked(run, "unused", list("abcde"), 1, {**wanted, "row of f": 1})


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
    text = as_text(Results(WORKLOADS["w2"], measured, {}))
    assert "0.200x 0.225x 0.250x" in text
    assert "0.100x 0.175x 0.250x" in text
    assert "against bare" not in text


def test_marginal_cost_has_no_start_in_it() -> None:
    one = measurement("kstreams", 0, 3.0, 4.5)
    assert one.marginal_cpu_per_million == pytest.approx(1.5 / 750 * 1e6)
    assert measurement("kstreams", 0, 4.0, 3.9).marginal_cpu_per_million is None


def test_json_is_written_also_when_noise_hides_the_marginal_cost() -> None:
    measured = [measurement("kstreams", 0, 2.0, 4.0), measurement("native", 0, 1.0, 0.9)]
    results = Results(WORKLOADS["w2"], measured, {"lambda": "it is not there"})
    written = json.loads(json.dumps(as_json([results], {"cores": 2}, {"records": 1000})))["workloads"]["w2"]
    assert written["summary"]["marginal_cpu_per_million"]["ratio_to_kstreams"] == {}
    assert written["summary"]["cpu_per_million"]["spread"]["kstreams"]["median"] == 4000.0
    assert written["left_out"] == {"lambda": "it is not there"}
    assert len(written["runs"]) == 4


@pytest.mark.broker
def test_the_reader_of_final_tables_handles_transactions(broker: KafkaBroker) -> None:
    """On a real broker: aborted records, an open transaction, and a key in two partitions."""
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
    assert (dict(table.rows), table.records) == ({"a": 2, "b": 1}, 3)

    write("counts", [("a", 3, 0)])
    with pytest.raises(TableError, match="transaction is still open"):
        read_final_table(broker.bootstrap, "counts", 3, patience=0)
    producer.commit_transaction(30)
    assert read_final_table(broker.bootstrap, "counts", 3).rows["a"] == 3

    write("counts", [("a", 4, 2)])
    producer.commit_transaction(30)
    with pytest.raises(TableError, match="'a' stands in partitions"):
        read_final_table(broker.bootstrap, "counts", 3)

    broker.create_topic("rows", 1)
    producer.begin_transaction()
    for key, value in ((b"a", struct.pack(">q", 1)), (b"b", struct.pack(">q", 2)), (b"a", None)):
        producer.produce("rows", key=key, value=value)
    producer.commit_transaction(30)
    table = read_final_table(broker.bootstrap, "rows", 1, long_by_text)
    assert (dict(table.rows), table.records) == ({"b": 2}, 3), "what was deleted is no row"


def test_every_key_of_a_restore_is_written_once() -> None:
    for keys in (2, 1000, 20_000):
        numbers = {n * restore.STRIDE % keys for n in range(keys)}
        assert numbers == set(range(keys))


def test_a_restore_is_compared_with_the_other_side_of_the_same_repeat() -> None:
    def result_of(seconds: float) -> dict[str, float]:
        return {name: seconds for name, _ in restore.METRICS}

    runs = [
        Restored(restore.KSTREAMS, 0, 100, result_of(8.0), result_of(6.0)),
        Restored(restore.STOATFLOW, 0, 100, result_of(2.0), result_of(1.0)),
        Restored(restore.STOATFLOW, 1, 100, result_of(1.0), result_of(1.0)),
        Restored(restore.KSTREAMS, 1, 100, result_of(9.0), result_of(6.0)),
    ]
    text = restore.table(runs)
    cold, warm = text.split("warm:")
    assert "4.0x 6.5x 9.0x" in cold
    assert "6.0x 6.0x 6.0x" in warm
    alone = restore.table(runs[1:3])
    assert "x" not in alone.replace("max", ""), "no ratio without the other side"


def test_orders_are_one_kilobyte_and_four_of_five_are_kept() -> None:
    load = Load(5000, 1)
    assert {len(row.value) for row in json_filter.rows(load)} == {json_filter.SIZE}
    assert len(json_filter.wanted(load)) / load.records == pytest.approx(0.8, abs=0.02)
    # A bare loop writes as much as the job does, so that they can be compared.
    assert len(json_filter.wanted_of_bare_loop(load)) / load.records == pytest.approx(0.8, abs=0.001)


def test_progress_of_a_bare_loop_is_measured_by_offsets() -> None:
    load = Load(400, 1)
    offsets = dict.fromkeys(range(load.partitions), 0)
    kept: dict[str, Cell] = {}
    for row in json_filter.rows(load):
        assert row.partition is not None
        if offsets[row.partition] % 5 != 4:
            kept.update([object_by_id(b"", row.value)])
        offsets[row.partition] += 1
    assert kept == json_filter.wanted_of_bare_loop(load)


def test_no_payment_is_too_late_for_its_window() -> None:
    highest, disorder = 0, 0
    for _, _, time in windowed_sum.payments(Load(20_000, 1)):
        disorder += time < highest
        highest = max(highest, time)
        window_end = time - time % windowed_sum.WINDOW_MS + windowed_sum.WINDOW_MS
        assert window_end + windowed_sum.GRACE_MS > highest
    assert disorder > 1000, "mildly out of order, not in order"


def test_a_windowed_key_is_read_as_kafka_streams_writes_it() -> None:
    key, value = b"user-1" + struct.pack(">q", 60_000), struct.pack(">q", 7)
    read = keyed(in_window, long)
    assert read(key, value) == ("user-1@60000", 7)
    with pytest.raises(Form, match="not a windowed key"):
        read(b"user-1", value)
    with pytest.raises(Form, match="not a long"):
        read(key, b"7")


def test_a_session_is_read_as_kafka_streams_writes_it_and_as_deleted_without_a_value() -> None:
    key = b"user-1" + struct.pack(">qq", 2000, 1000)
    read = keyed(in_session, json_object, "visits")
    assert read(key, b'{"b": 1, "a": 2}') == ("visits user-1@1000-2000", '{"a":2,"b":1}')
    assert read(key, None) == ("visits user-1@1000-2000", None)
    for refused in (b"[1]", b"{"):
        with pytest.raises(Form, match=r"not (a )?JSON"):
            read(key, refused)
    with pytest.raises(Form, match="not a key in a session"):
        read(b"user-1", None)


def test_sessions_end_where_the_gap_is_longer() -> None:
    records = [(30, 4), (0, 1), (10, 2), (21, 3)]
    assert list(sessions.sessions_of(records, 10)) == [(0, 10, [1, 2]), (21, 30, [3, 4])]
    assert list(sessions.sessions_of([], 10)) == []


def test_no_click_is_too_late_and_some_connect_sessions() -> None:
    load = Load(20_000, 1)
    highest, disorder = 0, 0
    for _, _, time in sessions.clicks(load):
        disorder += time < highest
        highest = max(highest, time)
        assert time + sessions.GAP_MS + sessions.GRACE_MS > highest
    assert disorder > 1000, "mildly out of order, not in order"
    found = sessions.wanted(load)
    users = out_of_order.USERS
    assert users < len(found) < load.records / 3, "several sessions of a user, several records of a session"


def test_the_shop_has_all_that_its_results_need() -> None:
    load = Load(20_000, 1)
    found = shop.wanted(load)
    of = {name: {row for row in found if row.startswith(f"{name} ")} for name in
          ("sales", "revenue", "tiers", "visits", "conversions")}  # fmt: skip
    assert sum(map(len, of.values())) == len(found)
    assert of["tiers"] == {"tiers bronze", "tiers silver"}
    assert len(of["revenue"]) == shop.PRODUCTS
    assert len(of["sales"]) >= len(shop.REGIONS)
    assert len(of["visits"]) > shop.USERS
    assert len(of["conversions"]) > shop.USERS / 2
    highest = 0
    for _, _, time, _ in shop.events(load):
        highest = max(highest, time)
        assert load.base_ms < time, "rows of tables are older"
        assert highest - time < out_of_order.MOST_LATE_MS


def test_orders_of_unknown_users_join_nothing() -> None:
    load = Load(2000, 1, table_keys=100)
    users = {row.key for row in table_join.profiles(load)}
    known = [json.loads(row.value)["id"] for row in table_join.rows(load) if row.key in users]
    assert len(users) == 100
    assert len(known) == 1900
    assert {str(number) for number in known} == set(table_join.wanted(load))


def test_long_objects_differ_wherever_they_differ() -> None:
    one, two = ({"id": 1, "pad": "x" * 1000 + end} for end in "ab")
    assert object_by_id(b"", json.dumps(one).encode()) != object_by_id(b"", json.dumps(two).encode())
    turned = dict(reversed(one.items()))
    assert object_by_id(b"", json.dumps(one).encode()) == object_by_id(b"", json.dumps(turned).encode())
    with pytest.raises(Form, match="not a JSON object with an id"):
        object_by_id(b"", b"[]")


def test_engines_that_cannot_run_are_skipped_by_name() -> None:
    found = Available("0", {"w3/native": "no sf.sum"})
    assert chosen(WORKLOADS["w3"], ["kstreams", "native", "lambda", "bare"], found) == (
        ["kstreams", "lambda"],
        {"native": "no sf.sum"},
    )
    text = as_text(Results(WORKLOADS["w3"], [], {"native": "no sf.sum"}))
    assert "left out: native: no sf.sum" in text


def test_every_flavour_of_a_workload_has_a_program() -> None:
    wanted = {(one.name, flavour) for one in WORKLOADS.values() for flavour in one.flavours}
    assert wanted == set(stoatflow_programs.PROGRAMS)
    assert {name for one in WORKLOADS.values() for name in one.limits} == set(LOOPS)


@pytest.mark.parametrize(("workload", "flavour"), list(stoatflow_programs.PROGRAMS))
def test_programs_build_or_say_what_is_missing(workload: str, flavour: str) -> None:
    inputs, outputs = WORKLOADS[workload].inputs, WORKLOADS[workload].outputs
    topics = stoatflow_programs.Topics([one.name for one in inputs], [f"to-{one.name}" for one in outputs])
    missing = stoatflow_programs.why_not(workload, flavour)
    if missing is None:
        output = stoatflow_programs.topology(workload, flavour, topics).describe()
        assert all(f"to-{one.name}" in output for one in outputs)
    else:
        assert "has no" in missing


def test_requirements_of_a_program_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bare:
        __version__ = "9"

        class KStream:
            pass

    monkeypatch.setattr(stoatflow_programs, "sf", Bare)
    assert stoatflow_programs.why_not("w3", "native") == "this StoatFlow (9) has no sf.sum"
    assert stoatflow_programs.why_not("w4", "native") == "this StoatFlow (9) has no sf.left, no sf.right"
    assert "map_batches" in str(stoatflow_programs.why_not("w1", "arrow"))
    assert stoatflow_programs.why_not("w1", "native") is None
    assert stoatflow_programs.why_not("w3", "arrow") == "this StoatFlow (9) has no sf.sum, no KStream.map_batches"
    assert stoatflow_programs.why_not("w4", "arrow") == (
        "this StoatFlow (9) has no sf.left, no sf.right, no KStream.map_batches"
    )
    assert "there is no program" in str(stoatflow_programs.why_not("w6", "arrow"))


def test_both_sides_get_the_same_conditions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engines.kstreams_build.class_path", lambda: "jars")
    monkeypatch.setattr("engines.find_java", lambda: Path("java"))
    at = Conditions("there:9092", 1, 123, 4567, "at_least_once", 3, 60.0)
    for engine in (KSTREAMS, *FLAVOURS):
        begun = command(Job("w4", engine, "run", ("orders", "profiles"), ("out", "other"), 10, 20), at, "state")
        for output in (
            "w4",
            "run-app",
            "there:9092",
            "orders,profiles",
            "out,other",
            "123",
            "4567",
            "at_least_once",
            "state",
        ):
            assert output in begun
    ours = command(Job("w1", "native", "run", ("orders",), ("out",), 10, 10), replace(at, settings=("a=b",)), "state")
    assert "--set=a=b" in ours
    assert arguments([]).workloads == ["w1", "w2", "w3", "w4", "w5", "w6", "w7"]
    for refused in (
        ["--workloads", "w1,w9"],
        ["--keys", "1"],
        ["--engines", "nobody"],
        ["--set", "a"],
        ["--records", "8"],
    ):
        with pytest.raises(SystemExit):
            arguments(refused)


def test_a_failing_engine_has_no_figures_and_the_others_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(WORKLOADS["w2"], Load(400, 1), None, None)  # type: ignore[arg-type]

    def run(engine: str, repeat: int, length: str) -> Run:
        if (engine, repeat, length) == ("lambda", 1, "full"):
            raise EngineError("lambda ended with 1")
        return replace(RUN, engine=engine, repeat=repeat)

    monkeypatch.setattr(bench, "_run", run)
    measured = bench.measure(["kstreams", "lambda"], 3)
    assert [one.engine for one in measured] == ["kstreams"] * 3
    assert bench.wrong == {"lambda": "lambda ended with 1"}
    assert "FAILED, so without figures: lambda ended" in as_text(Results(WORKLOADS["w2"], measured, {}, bench.wrong))


@pytest.mark.broker
def test_duplicates_are_reported_as_such(broker: KafkaBroker) -> None:
    """On a real broker: an id that occurs twice, a record in another format."""
    rows = [Row("k", json.dumps({"id": number}).encode(), timestamp_ms=1000) for number in (1, 2)]
    broker.create_topic("ids", 2)
    fill_topic(broker.bootstrap, "ids", rows)
    assert set(read_final_table(broker.bootstrap, "ids", 2, object_by_id, updates=False).rows) == {"1", "2"}
    fill_topic(broker.bootstrap, "ids", rows[:1])
    with pytest.raises(TableError, match="'1' came twice"):
        read_final_table(broker.bootstrap, "ids", 2, object_by_id, updates=False)
    with pytest.raises(TableError, match="not a long"):
        read_final_table(broker.bootstrap, "ids", 2)


def test_both_sides_use_the_same_listener() -> None:
    client = (("security.protocol", "SASL_SSL"), ("producer.compression.type", "lz4"))
    at = Conditions("plain:1", 1, 100, 0, "exactly_once_v2", 2, 60.0, secured_address="secured:2", client=client)
    job = Job("w1", KSTREAMS, "run", ("orders",), ("out",), 10, 10)
    java, python = command(job, at, "state"), command(replace(job, engine="native"), at, "state")
    for begun in (java, python):
        assert "secured:2" in begun
        assert "plain:1" not in begun
    assert {"-Dclient.security.protocol=SASL_SSL", "-Dclient.producer.compression.type=lz4"} <= set(java)
    assert {"--set=security.protocol=SASL_SSL", "--set=producer.compression.type=lz4"} <= set(python)


def test_an_engine_with_another_connection_is_skipped() -> None:
    options = arguments(["--security", "sasl_ssl"])
    assert set(options.engines) == {KSTREAMS, *FLAVOURS}
    assert "w6" not in options.workloads
    with pytest.raises(SystemExit):
        arguments(["--compression", "lz4", "--engines", "handwritten"])
    assert "w6" in arguments([]).workloads
