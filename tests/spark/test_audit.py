"""Reconciling any topology: every kind of fault is found with its position, and nothing else is."""

from __future__ import annotations

import json
import re
import time
from contextlib import nullcontext
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import shop_twin

import stoatflow as sf
from stoatflow.cli import main
from stoatflow.spark.audit import compare, page
from stoatflow.spark.audit.compare import Found
from stoatflow.spark.audit.findings import Audit, AuditExample, TopicAudit
from stoatflow.spark.audit.reconciling import reconcile
from stoatflow.spark.load import load

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

APP = str(Path(__file__).parent / "shop_twin.py")
Records = list[tuple["int | None", "bytes | None", "bytes | None", int]]


def faults(expected: str, found: str, *, updates: bool = True, ordered: bool = True) -> list[tuple[str, int | None]]:
    """Compare letters; return kinds with the offset of what was found."""
    records = [Found((letter.encode(), 0), 0, at) for at, letter in enumerate(found)]
    wanted = [(letter.encode(), 0) for letter in expected]
    judged = compare.compare_key(wanted, records, updates=updates, ordered=ordered)
    return [(fault.kind, fault.found and fault.found.offset) for fault in judged]


@pytest.mark.parametrize(
    ("expected", "found", "wanted"),
    [
        ("abc", "abc", []),
        ("", "", []),
        ("aab", "aab", []),
        ("abc", "ac", [("missing", None)]),
        ("abc", "", [("missing", None)] * 3),
        ("abc", "abbc", [("duplicated", 2)]),
        ("aab", "aaab", [("duplicated", 2)]),
        ("abc", "axc", [("wrong", 1)]),
        ("abc", "abcx", [("unexpected", 3)]),
        ("", "x", [("unexpected", 0)]),
        ("abcd", "bacd", [("out of order", 0)]),
        ("abcdef", "bcdefa", [("out of order", 5)]),
        ("abcdef", "abxbcfd", [("duplicated", 3), ("wrong", 2), ("out of order", 5)]),
    ],
)
def test_the_faults_of_a_key(expected: str, found: str, wanted: list[tuple[str, int | None]]) -> None:
    kinds = faults(expected, found)
    assert [kind for kind, _ in kinds] == [kind for kind, _ in wanted]
    # Which of two neighbours has moved can't be known.
    if expected != "abcd":
        assert kinds == wanted


@pytest.mark.parametrize(
    ("expected", "found", "wanted"),
    [
        ("abc", "c", []),
        ("abc", "ac", []),
        ("aba", "a", []),
        ("abab", "bab", []),
        ("abc", "ab", ["missing"]),
        ("abc", "", ["missing"]),
        ("abc", "abx", ["wrong"]),
        ("abc", "axc", ["unexpected"]),
        ("", "x", ["unexpected"]),
        ("abc", "abcc", ["duplicated"]),
        ("abc", "aac", ["duplicated"]),
        ("abc", "bac", ["out of order"]),
    ],
)
def test_the_last_update_is_enough(expected: str, found: str, wanted: list[str]) -> None:
    assert [kind for kind, _ in faults(expected, found, updates=False)] == wanted


def test_keys_added_and_deleted_in_one_commit_are_not_missed() -> None:
    gone: list[compare.Content] = [(b"a", 0), (None, 1)]
    assert list(compare.compare_key(gone, [], updates=False)) == []
    left = compare.compare_key(gone, [Found((b"a", 0), 0, 0)], updates=False)
    assert [fault.kind for fault in left] == ["missing"]


@pytest.mark.parametrize(
    ("expected", "found", "wanted"),
    [
        ("abc", "xc", []),
        ("", "", []),
        ("abc", "cb", ["wrong"]),
        ("abc", "", ["missing"]),
        ("", "x", ["unexpected"]),
    ],
)
def test_the_last_value_of_a_regrouped_table_counts(expected: str, found: str, wanted: list[str]) -> None:
    records = [Found((letter.encode(), 7), 0, at) for at, letter in enumerate(found)]
    assert [
        fault.kind for fault in compare.compare_last([(letter.encode(), 0) for letter in expected], records)
    ] == wanted
    two = [Found((b"a", 0), 0, 0), Found((b"b", 0), 1, 0)]
    assert [fault.kind for fault in compare.compare_last([(b"b", 0)], two)] == ["split"]


def test_records_without_a_key_have_no_order_and_a_key_has_one_partition() -> None:
    assert faults("abc", "cab", ordered=False) == []
    two = [Found((b"a", 0), 0, 0), Found((b"b", 0), 1, 0)]
    assert [fault.kind for fault in compare.compare_key([(b"a", 0), (b"b", 0)], two, updates=True)] == ["split"]


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the shop in the engine, to the end of its input."""
    folder = tmp_path_factory.mktemp("shop")
    load(shop_twin.LOAD, f"embedded:{folder / 'broker'}")
    with sf.EmbeddedBroker(str(folder / "broker")) as broker:
        for sink in shop_twin.SINKS:
            broker.create_topic(sink, 2)
    config = {
        "application.id": "shop",
        "bootstrap.servers": f"embedded:{folder / 'broker'}",
        "state.dir": str(folder / "state"),
    }
    app = sf.StoatFlow(shop_twin.topology, config)
    app.start()
    try:
        until = time.monotonic() + 60
        while str(app.state) != "RUNNING" or app.lag():
            assert time.monotonic() < until
            assert not app.wait(0.05), app.error
    finally:
        app.close()
    return folder / "broker"


def test_output_of_the_engine_matches_the_twin(spark: SparkSession, shop: Path) -> None:
    """With three partitions, a re-keying, windows with late records, and the engine's lanes and cache."""
    audit = reconcile(spark, shop_twin.topology, f"embedded:{shop}")
    assert audit.ok, audit.render()
    assert audit.inputs == {"users": 40, "orders": 3000}
    by_name = {topic.topic: topic for topic in audit.topics}
    assert {name: topic.updates for name, topic in by_name.items()} == {
        "large": "all", "per-region": "last", "per-minute": "last"
    }  # fmt: skip
    assert all(topic.found > 100 for name, topic in by_name.items() if name != "per-region")
    assert by_name["large"].found == by_name["large"].expected > 1000


def damaged(shop: Path, folder: Path, topic: str, change: Callable[[Records], Records]) -> str:
    """Copy the broker, with one topic changed; return its address."""
    with sf.EmbeddedBroker(str(shop)) as broker, sf.EmbeddedBroker(str(folder)) as copy:
        for name, partitions in broker.topics().items():
            if "changelog" in name or name.startswith("__"):
                continue
            copy.create_topic(name, partitions)
            records: Records = [(r.partition, r.key, r.value, r.timestamp) for r in broker.read(name)]
            copy.produce_many(name, change(records) if name == topic else records)
    return f"embedded:{folder}"


def five_faults(records: Records) -> Records:
    """Lose, duplicate, alter, move and add one record each, all with different keys."""
    firsts: dict[bytes | None, int] = {}
    for at, record in enumerate(records):
        firsts.setdefault(record[1], at)
    lost, doubled, altered, moved = list(firsts.values())[:4]
    key, partition = records[moved][1], records[moved][0]
    behind = next(
        at for at in range(moved + 1, len(records)) if records[at][1] == key and records[at][2] != records[moved][2]
    )
    result = list(records)
    result[altered] = (*records[altered][:2], b'{"amount":1000}', records[altered][3])
    result[moved], result[behind] = records[behind], records[moved]
    result.insert(doubled, records[doubled])
    result.remove(records[lost])
    result.append((partition, b"nobody", b'{"amount":51}', 7))
    return result


def test_one_record_of_each_fault_is_found_among_all(spark: SparkSession, shop: Path, tmp_path: Path) -> None:
    address = damaged(shop, tmp_path / "copy", "large", five_faults)
    audit = reconcile(spark, shop_twin.topology, address, topics=["large"])
    assert not audit.ok
    assert {fault: audit.count(fault) for fault in compare.FAULTS if fault != "out of order"} == {
        "missing": 1, "aborted": 0, "duplicated": 1, "wrong": 1, "unexpected": 1, "split": 0,
    }  # fmt: skip
    assert 1 <= audit.count("out of order") <= 2
    shown = {example.fault: example for example in audit.examples}
    assert shown["wrong"].found is not None
    assert shown["wrong"].found.startswith("{'amount': 1000} at ")
    assert shown["unexpected"].key == "'nobody'"
    with sf.EmbeddedBroker(address.removeprefix("embedded:")) as broker:
        stored = {(r.partition, r.offset): r for r in broker.read("large")}
    for fault in ("duplicated", "wrong", "unexpected", "out of order"):
        place = stored[shown[fault].partition or 0, shown[fault].offset or 0]
        assert repr((place.key or b"").decode()) == shown[fault].key
    assert shown["missing"].offset is None


def test_the_command_has_exit_codes_json_and_a_page(
    spark: SparkSession, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("stoatflow.spark.session.local_session", lambda **_: nullcontext(spark))
    html = tmp_path / "report.html"
    bad = damaged(shop, tmp_path / "copy", "per-region", lambda records: records[:-1])
    given = ["reconcile", APP, "--topic", "per-region", "--html", str(html)]
    assert main([*given, "--bootstrap", f"embedded:{shop}"]) == 0
    assert "verdict  OK" in capsys.readouterr().out
    assert main([*given, "--bootstrap", bad, "--json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert result["faults"]["missing"] == 1
    text = re.sub(r"<[^>]+>", " ", html.read_text())
    assert "NOT OK" in text
    assert result["examples"][0]["expected"] in text.replace("&#x27;", "'")
    assert main(["reconcile", APP, "--bootstrap", f"embedded:{tmp_path / 'none'}"]) == 2
    assert "there is no embedded broker" in capsys.readouterr().err


def test_expectations_may_be_a_dataframe_of_yours(spark: SparkSession, shop: Path) -> None:
    with sf.EmbeddedBroker(str(shop)) as broker:
        rows = [(r.key, r.value, r.timestamp, at) for at, r in enumerate(broker.read("large"))]
    expected = spark.createDataFrame(rows[:-1], "key binary, value binary, timestamp long, order long")
    audit = reconcile(spark, shop_twin.topology, f"embedded:{shop}", topics=["large"], expected={"large": expected})
    assert audit.count("unexpected") == 1
    assert audit.count("missing") == 0


def test_the_page_shows_everything_escaped() -> None:
    topic = TopicAudit("<b>", "all", 3, 3, 2, {"wrong": 1})
    example = AuditExample("<b>", "wrong", "'<script>'", "1 at 5", "2 at 5", 0, 17)
    text = page.render(Audit((topic,), {"in": 3}, 1, (example,), 2.0), "a & b")
    HTMLParser().feed(text)
    assert "<script>" not in text
    assert "&lt;script&gt;" in text
    for part in ("a &amp; b", "17", "1 at 5", "2 at 5", "1 input records have no key"):
        assert part in text


def test_an_empty_input_proves_nothing() -> None:
    audit = Audit((TopicAudit("out", "all"),), {"in": 0})
    assert not audit.ok
    assert "NOT PROVEN" in audit.render()


def test_the_topology_runs_as_a_batch_by_command(
    spark: SparkSession, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("stoatflow.spark.session.local_session", lambda **_: nullcontext(spark))
    where: list[Any] = ["--engine", "spark", "--batch", "--bootstrap", f"embedded:{shop}", "--output", tmp_path]
    assert main(["run", APP, *map(str, where)]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^topic large: [\d,]+ records$", out, re.MULTILINE)
    assert "store totals: 4 entries" in out
    assert spark.read.parquet(str(tmp_path / "stores" / "totals")).count() == 4
    assert main(["run", APP, *map(str, where[:-1]), str(tmp_path / "again"), "--json"]) == 0
    counted = json.loads(capsys.readouterr().out)
    assert f"topic large: {counted['topics']['large']:,} records" in out
    assert counted["stores"]["totals"] == 4
    assert main(["run", APP, "--engine", "spark", "--batch"]) == 2


@pytest.mark.parametrize("command", ["run --engine spark --batch", "reconcile", "load"])
def test_a_command_without_java_says_what_to_install(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    spec = Path(__file__).parents[2] / "examples" / "load" / "word_count.toml"
    name, *options = command.split()
    file = str(spec) if name == "load" else APP
    assert main([name, file, *options, "--bootstrap", "127.0.0.1:1"]) == 2
    assert "Spark needs Java, and no `java` is on the PATH. Install a JDK 17" in capsys.readouterr().err
