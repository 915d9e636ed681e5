"""Figures other than times: steady memory, bytes on the broker, the restore as a job, pictures, pages."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tests" / "integration")]

import charts  # noqa: E402
import page  # noqa: E402
import restore  # noqa: E402
import restore_row  # noqa: E402
from bars import Bar, Group, described, grouped, shown  # noqa: E402
from broker.kafka_broker import KafkaBroker  # noqa: E402
from broker_bytes import KEEP_DELETED, bytes_of, kind_of  # noqa: E402
from confluent_kafka import Producer, TopicPartition  # noqa: E402
from confluent_kafka.admin import AdminClient  # noqa: E402
from engines import EngineError, Run  # noqa: E402
from machine import ProcessTree, steady_rss_kb  # noqa: E402
from report import Measurement, Results, as_json, as_text, notes_on  # noqa: E402
from restore import Restored, Side, Task  # noqa: E402
from workloads import WORKLOADS  # noqa: E402

RUN = Run(
    workload="w2", engine="kstreams", repeat=0, records=1000, seconds=2.0, wall_seconds=2.5, cpu_seconds=4.0,
    process_cpu_seconds=4.0, peak_rss_kb=512_000, broker_cpu_seconds=0.5, other_cpu_seconds=1.0,
    guarantee="exactly_once_v2", processes=1, steady_rss_kb=409_600, output_records=900,
    broker_bytes={"output": 30_000, "changelog": 20_000, "repartition": 50_000, "other": 0},
)  # fmt: skip
NATIVE = replace(
    RUN, engine="native", process_cpu_seconds=1.0, steady_rss_kb=None,
    broker_bytes={"output": 30_000, "changelog": 20_000, "repartition": 0, "other": 0},
)  # fmt: skip
SVG = "{http://www.w3.org/2000/svg}"
TASK = Task(keys=1000, feed=10, repeats=2, threads=1, timeout_s=1.0, python="python")


def measured() -> list[Measurement]:
    return [Measurement(replace(run, records=250, process_cpu_seconds=0.5), run) for run in (RUN, NATIVE)]


def restored(engine: str, repeat: int, seconds: float) -> Restored:
    output = dict.fromkeys((name for name, _ in restore.METRICS), seconds)
    return Restored(engine, repeat, 1000, output, output)


def results() -> dict[str, Any]:
    """The JSON of versus.py."""
    word_count = Results(WORKLOADS["w2"], measured(), {"arrow": "no pyarrow"}, {}, notes=["a note"])
    both = [restored("kstreams", 0, 4.0), restored("native", 0, 1.0)]
    row = Results(restore_row.WORKLOAD, both, {}, {"x": "w6, it broke"}, restore_row.METRICS)
    return dict(json.loads(json.dumps(as_json([word_count, row], {"cores": 2}, {"records": 1000}))))


def latencies() -> dict[str, Any]:
    """The JSON of latency.py."""
    ready = {("native", 0): 2, ("native", 1): 3, ("kstreams", 0): 8, ("kstreams", 1): 6}

    def run(engine: str, rate: float, p50: float, *, missing: int = 0, repeat: int = 0) -> dict[str, Any]:
        found = {"50": p50, "95": p50, "99": p50 * 3, "99.9": p50}
        return {
            "workload": "w1", "engine": engine, "rate": rate, "repeat": repeat, "missing": missing,
            "quantiles_ms": found, "ready_seconds": ready[engine, repeat], "cpu_per_million": 10 * p50,
            "peak_rss_mb": 40.0 if engine == "native" else 400.0,
        }  # fmt: skip

    runs = [
        run("native", 500, 20), run("kstreams", 500, 80), run("native", 500, 30, repeat=1),
        run("kstreams", 500, 60, repeat=1), run("native", 2000, 40), run("kstreams", 2000, 300, missing=7),
    ]  # fmt: skip
    return {"benchmark": "latency", "machine": {"cores": 2}, "conditions": {}, "runs": runs, "failed": []}


# ---- steady memory


def test_steady_memory_is_the_median_of_the_second_half_of_the_work() -> None:
    # Start-up, the first half, the second half with a peak, the end.
    samples = [(0.0, 10), (1.0, 20), (3.0, 30), (4.0, 100), (5.0, 110), (6.0, 900), (6.5, 105), (7.1, 1)]
    assert steady_rss_kb(samples, 1.0, 6.0) == round((105 + 110) / 2)
    assert steady_rss_kb(samples, 1.0, 3.0) is None, "two samples say nothing"
    assert steady_rss_kb([], 1.0, 6.0) is None


def test_memory_of_a_process_and_its_children_is_sampled() -> None:
    child = "import sys; held = b'x' * (30 << 20); sys.stdin.read()"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    # Both end with the input of the first one, which the second one inherits.
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE) as process:
        tree = ProcessTree(process.pid)
        deadline = time.monotonic() + 60
        while tree.peak_rss_kb < 40 << 10 and time.monotonic() < deadline:
            tree.look()
            time.sleep(0.02)
    assert tree.processes == 2
    assert tree.peak_rss_kb >= 40 << 10, "two interpreters and 30 MB"
    ats = [at for at, _ in tree.samples]
    assert all(later - at >= 0.09 for at, later in pairwise(ats)), "not more often than it costs"


# ---- bytes on the broker


def test_topics_are_classified_by_name() -> None:
    application, outputs = "w2-quix-full-0-app", ("w2-quix-full-0-counts",)
    for topic, kind in (
        ("w2-quix-full-0-counts", "output"),
        ("w2-quix-full-0-app-counts-changelog", "changelog"),
        ("changelog__w2-quix-full-0-app--lines--count", "changelog"),
        ("w2-quix-full-0-app-KSTREAM-KEY-SELECT-0003-repartition", "repartition"),
        ("repartition__w2-quix-full-0-app--lines--word", "repartition"),
        ("w2-quix-full-0-app-others", "other"),
        ("w2-lines-full", None),
        ("__consumer_offsets", None),
        ("w2-quix-full-10-app-counts-changelog", None),
    ):
        assert kind_of(topic, application, outputs) == kind
    assert kind_of("changelog-app-rows", "changelog-app", ()) == "other", "the application may have any name"


def test_deleted_segments_count_and_indexes_do_not(tmp_path: Path) -> None:
    def segment(partition: str, name: str, size: int) -> None:
        folder = tmp_path / "kafka-logs" / partition
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x" * size)

    segment("run-app-by-word-repartition-0", "00000000000000000000.log.deleted", 1000)
    segment("run-app-by-word-repartition-0", "00000000000000000070.log", 10)
    segment("run-app-by-word-repartition-1", "00000000000000000000.log", 1)
    segment("run-app-counts-changelog-0", "00000000000000000000.log", 200)
    # Compacted: the new segment keeps the first offset of the old one.
    segment("run-app-counts-changelog-0", "00000000000000000000.log.deleted", 300)
    segment("run-out-0", "00000000000000000000.log", 5)
    segment("run-out-0", "00000000000000000000.index", 10_000)
    segment("run-out-0", "00000000000000000000.timeindex", 10_000)
    segment("run-in-0", "00000000000000000000.log", 99_999)
    (tmp_path / "kafka-logs" / "meta.properties").write_text("a file")
    assert bytes_of(tmp_path, "run-app", ["run-out"]) == {
        "output": 5, "changelog": 300, "repartition": 1011, "other": 0,
    }  # fmt: skip


@pytest.mark.broker
def test_deleted_bytes_count_as_sent() -> None:
    """On a broker that often deletes segments: records are removed, their bytes still count."""
    often = {"log.retention.check.interval.ms": "200", "log.initial.task.delay.ms": "100"}
    with KafkaBroker(settings=KEEP_DELETED | often) as broker:
        topic = "run-app-by-word-repartition"
        broker.create_topic(topic, 1, {"segment.bytes": str(1 << 20), "cleanup.policy": "delete"})
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 5})
        sent = 0
        for _ in range(3000):
            producer.produce(topic, value=b"x" * 1000, partition=0)
            sent += 1000
            producer.poll(0)
        assert producer.flush(30) == 0
        before = bytes_of(broker.folder, "run-app", ())
        assert sent < before["repartition"] < sent * 1.1
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for done in admin.delete_records([TopicPartition(topic, 0, 3000)]).values():
            done.result(30)
        partition = broker.folder / "kafka-logs" / f"{topic}-0"
        deadline = time.monotonic() + 30
        while not list(partition.glob("*.log.deleted")) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert list(partition.glob("*.log.deleted")), "the broker has thrown segments away"
        assert bytes_of(broker.folder, "run-app", ()) == before


def test_both_are_in_the_table_and_in_json() -> None:
    notes = notes_on(measured(), updates=True)
    text = as_text(Results(WORKLOADS["w2"], measured(), {}, notes=notes))
    assert "0.500x 0.500x 0.500x" in text.partition("bytes on the broker per record")[2]
    assert "kstreams output 0.0 changelog 0.0 repartition 0.0, native output 0.0 changelog 0.0" in text
    summary = results()["workloads"]["w2"]["summary"]
    assert summary["bytes_per_record"]["spread"]["kstreams"]["median"] == 100.0
    assert summary["bytes_per_record"]["ratio_to_kstreams"]["native"]["median"] == 0.5
    assert summary["steady_rss_mb"]["spread"] == {"kstreams": {"low": 400.0, "median": 400.0, "high": 400.0}}


# ---- the restore


class FakeSide(Side):
    """A side that restores nothing, and fails on request."""

    def fill(self) -> None:
        if self.name in FAILS and FAILS[self.name] is None:
            raise EngineError("no topic")


FAILS: dict[str, int | None] = {}


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Which sides ran, in which repeat."""
    runs: list[tuple[str, int]] = []

    def repeat(side: Side, at: int) -> Restored:
        runs.append((side.name, at))
        if FAILS.get(side.name) == at:
            raise EngineError("it did not say that it runs")
        return restored(side.name, at, 4.0 if side.name == "kstreams" else 1.0)

    FAILS.clear()
    monkeypatch.setattr(restore, "Side", FakeSide)
    monkeypatch.setattr(restore, "one_repeat", repeat)
    return runs


class FakeBroker:
    """A broker of which only the name is used."""

    bootstrap = "nowhere:1"


def test_the_restore_is_a_row_like_others(ran: list[tuple[str, int]]) -> None:
    row = restore_row.measure(["kstreams", "native", "lambda", "bytewax"], FakeBroker(), TASK)  # type: ignore[arg-type]
    assert ran == [("kstreams", 0), ("native", 0), ("native", 1), ("kstreams", 1)], "in turn"
    assert row.left_out == {"bytewax": "there is no program for w6 on Bytewax"}
    text = as_text(row)
    assert "w6: restore of a store" in text
    assert "4.000x 4.000x 4.000x" in text.partition("keys per second")[2], "250 and 1000 keys a second"
    summary = as_json([row], {}, {})["workloads"]["w6"]["summary"]
    assert summary["cpu_per_million"]["spread"]["native"]["median"] == 1.0 / 1000 * 1e6
    assert summary["warm_seconds"]["ratio_to_kstreams"]["native"]["median"] == 0.25
    assert restore_row.measure(["lambda"], FakeBroker(), TASK).measured == []  # type: ignore[arg-type]


@pytest.mark.parametrize("at", [1, None], ids=["later", "while it is filled"])
def test_a_failing_side_has_no_figures_and_the_other_continues(ran: list[tuple[str, int]], at: int | None) -> None:
    FAILS["kstreams"] = at
    outcome = restore.measure(["kstreams", "native"], FakeBroker(), TASK)  # type: ignore[arg-type]
    assert [(one.engine, one.repeat) for one in outcome.restored] == [("native", 0), ("native", 1)]
    assert list(outcome.wrong) == ["kstreams"]
    assert ("kstreams", 0) in ran if at else ("kstreams", 0) not in ran


# ---- pictures


def bars_in(svg: str) -> dict[str, float]:
    """The tooltip of each bar, and its length."""
    root = ElementTree.fromstring(svg)
    return {
        str(group.findtext(f"{SVG}title")): float(group.find(f"{SVG}rect").attrib["width"])  # type: ignore[union-attr]
        for group in root.iter(f"{SVG}g")
    }


def test_bars_are_as_long_as_their_values_within_a_group() -> None:
    bars = (Bar("kstreams", 80, 80, 80), Bar("native", 20, 10, 40, 0.25), Bar("new<er>", 0, 0, 0, None, "3 missing"))
    svg = grouped("CPU & more", "About.", [Group("w1", bars), Group("w2", (Bar("kstreams", 4, 4, 4),))])
    found = bars_in(svg)
    assert found["w1, kstreams: 80.0"] == found["w2, kstreams: 4.00"], "each group has its own scale"
    assert found["w1, native: 20.0 (0.25x)"] == pytest.approx(found["w1, kstreams: 80.0"] / 4)
    assert 0 < found["w1, new<er>: 0.00 3 missing"] <= 1, "a line for nothing"
    assert svg == grouped("CPU & more", "About.", [Group("w1", bars), Group("w2", (Bar("kstreams", 4, 4, 4),))])


def test_a_picture_has_a_description_and_dark_mode() -> None:
    for svg in (charts.pictures(results()) | charts.pictures(latencies())).values():
        root = ElementTree.fromstring(svg)
        assert root.attrib["role"] == "img"
        named = {part.attrib["id"]: part.text or "" for part in root if "id" in part.attrib}
        assert root.attrib["aria-labelledby"].split() == list(named) == ["title", "description"]
        assert len(named["title"]) > 5
        for bar in bars_in(svg):
            assert bar.rpartition(": ")[2] in " ".join(named["description"].split())
        style = root.findtext(f"{SVG}style") or ""
        assert "prefers-color-scheme: dark" in style
        assert not list(root.iter(f"{SVG}script"))
        for part in root.iter():
            for what in ("fill", "stroke"):
                colour = part.attrib.get(what, "none")
                assert colour == "none" or f'[{what}="{colour}"]' in style, "each colour has one for dark pages"
        _, _, width, height = map(float, root.attrib["viewBox"].split())
        for part in root.iter(f"{SVG}text"):
            # About 7 units a letter: no text exceeds the card.
            begins = float(part.attrib["x"]) - (
                len(part.text or "") * 7 if part.attrib.get("text-anchor") == "end" else 0
            )
            ends = begins + len(part.text or "") * 6.2
            assert begins >= 0
            assert ends <= width
            assert float(part.attrib["y"]) < height


def test_there_is_a_picture_for_each_axis_that_has_figures() -> None:
    pictures = charts.pictures(results())
    assert sorted(pictures) == [
        "versus-bytes-per-record.svg", "versus-cpu-per-million.svg", "versus-marginal-cpu-per-million.svg",
        "versus-peak-rss-mb.svg", "versus-records-per-second.svg", "versus-steady-rss-mb.svg",
    ]  # fmt: skip
    cpu = bars_in(pictures["versus-cpu-per-million.svg"])
    assert f"w2  {WORKLOADS['w2'].title}, native: 1,000 (0.25x)" in cpu
    assert "w6  restore of a store, cold and after SIGKILL, native: 1,000 (0.25x)" in cpu
    assert all(not name.startswith("w6") for name in bars_in(pictures["versus-bytes-per-record.svg"]))
    with pytest.raises(ValueError, match="there are no pictures of 'restore'"):
        charts.pictures({"benchmark": "restore"})


def test_latencies_are_compared_within_a_repeat_and_with_engines_that_kept_up() -> None:
    pictures = charts.pictures(latencies())
    assert sorted(pictures) == ["latency-p50.svg", "latency-p99.svg"]
    p50, p99 = (bars_in(pictures[name]) for name in sorted(pictures))
    assert "w1  500 records a second, native: 25.0 (0.38x)" in p50, "the median of 20/80 and 30/60"
    assert "w1  500 records a second, kstreams: 210" in p99
    assert "w1  2000 records a second, kstreams: 300 7 missing: did not keep up" in p50
    assert "w1  2000 records a second, native: 40.0" in p50, "no ratio to who did not"


def test_a_stale_picture_is_detected(tmp_path: Path) -> None:
    result, folder = tmp_path / "result.json", tmp_path / "pictures"
    result.write_text(json.dumps(results()))
    command = [sys.executable, str(HERE / "charts.py"), str(result), "--charts", str(folder)]

    def check() -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, "--check"], capture_output=True, text=True, check=False)

    assert check().returncode == 1
    subprocess.run(command, check=True, capture_output=True)
    assert check().returncode == 0
    result.write_text(json.dumps(results()).replace("4000.0", "4001.0"))
    refused = check()
    assert refused.returncode == 1
    assert "versus-cpu-per-million.svg is not what its result gives" in refused.stderr


def test_pictures_of_the_documentation_are_up_to_date() -> None:
    reference = ROOT / "docs" / "reference"
    for result in sorted((reference / "figures").glob("*.json")):
        found = json.loads(result.read_text("utf-8"))
        assert charts.stale(found, reference / "pictures") == [], f"of {result.name}; run: make bench-charts"


def test_numbers_have_significant_digits_only() -> None:
    assert [shown(one) for one in (0.123, 9.99, 12.34, 123.4, 123456.0)] == ["0.12", "9.99", "12.3", "123", "123,456"]
    assert described([Group("w1", (Bar("native", 1, 1, 1, 0.5),))]) == "w1: native 1.00 (0.50x)."


# ---- pages


def test_a_page_has_all_jobs_as_rows_and_its_pictures(tmp_path: Path) -> None:
    files = page.write(results(), tmp_path / "page.md", tmp_path / "pictures")
    text = (tmp_path / "page.md").read_text("utf-8")
    assert set(files) == {tmp_path / "page.md", *(tmp_path / "pictures").iterdir()}
    cpu = text.partition("### CPU s per million records")[2].partition("###")[0]
    assert "| | kstreams | native |\n|---|---|---|\n" in cpu
    assert f"| `w2` {WORKLOADS['w2'].title} | 4,000 | 1,000 (**0.25**) |" in cpu
    assert "| `w6` restore of a store, cold and after SIGKILL | 4,000 | 1,000 (**0.25**) |" in cpu
    assert "`w6`: CPU s per million keys, cold, until RUNNING." in cpu, "what else it is in that row"
    for output in ("a note", "arrow is left out: no pyarrow", "FAILED, so without figures: w6, it broke", "cores 2"):
        assert output in text
    assert "](pictures/versus-cpu-per-million.svg)" in text
    beside = page.write(latencies(), tmp_path / "latency.md", None)
    assert tmp_path / "latency-p99.svg" in beside, "beside the page, unless another folder is named"
    text = (tmp_path / "latency.md").read_text("utf-8")
    assert "| w1  2000 records a second | 300, 7 missing: did not keep up | 40.0 |" in text
    cpu, _, memory = text.partition("### CPU s per million records")[2].partition("### Peak RSS until the end")
    assert "| w1  500 records a second | 700 | 250 (**0.38**) |" in cpu, "ratios of a repeat, as everywhere"
    assert "| w1  500 records a second | 400 | 40.0 (**0.10**) |" in memory
    ready = text.partition("### Seconds from the start of the process until it runs")[2]
    assert "| w1 | 7.00 | 2.50 (**0.38**) |" in ready, "each start counts once, whatever the rates"
    old = latencies()
    for one in old["runs"]:
        del one["ready_seconds"], one["peak_rss_mb"]
    page.write(old, tmp_path / "old.md", None)
    old_text = (tmp_path / "old.md").read_text("utf-8")
    assert "until it runs" not in old_text
    assert "Peak RSS" not in old_text
    assert "CPU s per million" in old_text
    assert page.write(latencies(), None, None) == []
