"""Other engines: which of them run, how they are installed, how their outputs are read, and when they are done."""

from __future__ import annotations

import argparse
import ast
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).resolve().parents[2] / "tests" / "integration")]

import peer_run  # noqa: E402
import peers  # noqa: E402
from broker.kafka_broker import KafkaBroker  # noqa: E402
from conditions import Conditions  # noqa: E402
from confluent_kafka import Consumer, TopicPartition  # noqa: E402
from engines import KSTREAMS, USUAL, Available, EngineError, Job, command, prepare, run_engine  # noqa: E402
from filling import fill_topic  # noqa: E402
from machine import ProcessTree  # noqa: E402
from peers import PEERS, Peer, PeerError  # noqa: E402
from report import Measurement, Results, as_text, notes_on  # noqa: E402
from versus import arguments, chosen  # noqa: E402
from workloads import WORKLOADS, json_filter, sessions, windowed_sum, word_count  # noqa: E402
from workloads.reading import Cell, Form, canonical  # noqa: E402
from workloads.workload import Row  # noqa: E402

AT = Conditions("there:9092", 1, 123, 4567, "at_least_once", 3, 60.0)


def job(engine: str) -> Job:
    return Job("w2", engine, "run", ("lines",), ("counts",), 10, 20)


def test_peers_run_only_on_request() -> None:
    assert arguments([]).engines == list(USUAL)
    assert not set(USUAL) & set(PEERS)
    assert arguments(["--engines", "kstreams,quix"]).engines == ["kstreams", "quix"]


@pytest.mark.parametrize("name", list(PEERS))
def test_a_program_has_its_declared_workloads(name: str) -> None:
    tree = ast.parse(PEERS[name].program.read_text())
    targets = {node.value for node in ast.walk(tree) if isinstance(node, ast.Assign | ast.AnnAssign)
               for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
               if isinstance(target, ast.Name) and target.id == "PROGRAMS"}  # fmt: skip
    (programs,) = targets
    assert isinstance(programs, ast.Dict)
    assert tuple(ast.literal_eval(key) for key in programs.keys if key) == PEERS[name].workloads
    pinned = [line for line in PEERS[name].requirements.read_text().splitlines() if not line.startswith("#")]
    assert pinned[0] == PEERS[name].version
    assert all("==" in line for line in pinned)


def test_a_peer_gets_the_same_conditions_in_its_own_environment() -> None:
    begun = command(job("quix"), AT, "state")
    assert begun[0] == str(PEERS["quix"].interpreter) != sys.executable
    for output in ("w2", "run-app", "there:9092", "lines", "counts", "123", "at_least_once", "state"):
        assert output in begun


def test_workloads_without_a_program_are_skipped_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Peer, "install", lambda _: None)
    found = prepare(["bytewax"], "unused")
    assert chosen(WORKLOADS["w2"], ["kstreams", "bytewax"], found) == (["kstreams", "bytewax"], {})
    assert chosen(WORKLOADS["w4"], ["kstreams", "bytewax"], found) == (
        ["kstreams"],
        {"bytewax": "there is no program for w4 on Bytewax"},
    )
    assert chosen(WORKLOADS["w4"], ["kstreams"], Available("0", {})) == (["kstreams"], {})


@pytest.mark.slow  # runs pip in two new environments: 20 s for what only changes with this file, so no step has it
def test_an_environment_is_created_once_or_its_error_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(peers, "_HERE", tmp_path)
    peer = Peer("thing", "Thing", ("w1",))
    peer.requirements.parent.mkdir()
    peer.requirements.write_text("--no-index\nno-such-thing==1\n")
    with pytest.raises(PeerError, match=r"could not be installed: ERROR: .*no-such-thing==1"):
        peer.install()
    assert not peer.interpreter.exists()
    monkeypatch.setitem(PEERS, "thing", peer)
    assert "could not be installed" in str(prepare(["thing"], "unused").why_not("w1", "thing"))

    peer.requirements.write_text("# nothing==1\n")
    peer.install()
    assert subprocess.run([str(peer.interpreter), "-c", "import pip"], check=False).returncode == 0
    monkeypatch.setattr(Peer, "_run", lambda *_: pytest.fail("it is there already"))
    peer.install()


def test_output_of_peers_is_read_as_the_same_table() -> None:
    key, value = b"user-1", json.dumps({"start": 60_000, "end": 120_000, "value": 7}).encode()
    assert windowed_sum.WORKLOAD.outputs[0].read_of("quix")(key, value) == ("user-1@60000", 7)
    for engine in ("quix", "bytewax"):
        assert word_count.WORKLOAD.outputs[0].read_of(engine)(b"word", b"7") == ("word", 7)
    counts = word_count.WORKLOAD.outputs[0].read_of("pathway")
    assert counts(b"word", b'{"word": "word", "count": 7, "time": 1, "diff": 1}') == ("word", 7)
    assert counts(b"word", b'{"word": "word", "count": 6, "time": 1, "diff": -1}') is None
    kept = json_filter.WORKLOAD.outputs[0].read_of("pathway")
    assert kept(b"", b'{"order": 3, "user": "A", "time": 1, "diff": 1}') == ("3", canonical({"id": 3, "user": "A"}))
    for read, wrong in ((counts, b'{"word": "word"}'), (kept, b'{"order": 3, "diff": -1}'),
                        (windowed_sum.read_from_quix, b"{}"), (sessions.read_from_quix, b"{}")):  # fmt: skip
        with pytest.raises(Form, match="not a"):
            read(b"k", wrong)


def test_merged_sessions_do_not_count() -> None:
    output = sessions.WORKLOAD.outputs[0]
    read = output.read_of("quix")
    rows: dict[str, Cell] = {}
    for start, end, n in ((10, 11, 1), (10, 15, 2), (30, 31, 1), (10, 31, 4), (50, 51, 1)):
        result = read(b"u", json.dumps({"start": start, "end": end, "n": n}).encode())
        assert result is not None
        assert result[1] is not None
        rows[result[0]] = result[1]
    assert len(rows) == 5
    whole = {"u@10-30": '{"n":4}', "u@50-50": '{"n":1}'}
    assert output.settled("quix", rows) == whole
    assert output.settled(KSTREAMS, rows) == rows


def test_memory_of_child_processes_counts() -> None:
    child = "import time; held = bytearray(60_000_000); time.sleep(120)"
    parent = (
        "import subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}])\n"
        "print(child.pid, flush=True)\n"
        "child.wait()"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        child_pid = int(process.stdout.readline())
        tree, deadline = ProcessTree(process.pid), time.monotonic() + 60
        while tree.peak_rss_kb < 60_000 and time.monotonic() < deadline:
            tree.look()
            time.sleep(0.1)
        os.kill(child_pid, signal.SIGKILL)
    assert tree.processes == 2
    assert tree.peak_rss_kb > 60_000


def test_a_crash_message_is_in_the_report(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    output = {
        "records": 20,
        "started": 0.0,
        "seconds": 1,
        "cpu_seconds": 1,
        "peak_rss_kb": 1000,
        "guarantee": "none at all",
    }
    script = tmp_path / "says.py"
    script.write_text(f"print({json.dumps(output)!r})")
    monkeypatch.setattr("engines.process_cpu", lambda _: 0.0)
    monkeypatch.setattr("engines.command", lambda *_: [sys.executable, str(script)])
    run = run_engine(job("quix"), 0, AT)
    assert (run.guarantee, run.processes) == ("none at all", 1)
    notes = notes_on([Measurement(run, run)], updates=True)
    assert "after a crash, as they say: quix none at all" in as_text(
        Results(WORKLOADS["w2"], [Measurement(run, run)], {}, notes=notes)
    )
    script.write_text("raise SystemExit('it broke')")
    with pytest.raises(EngineError, match="it broke"):
        run_engine(job("quix"), 0, AT)


@pytest.mark.broker
def test_an_engine_is_done_when_all_is_read_and_nothing_changes(
    broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a real broker."""
    monkeypatch.setattr(peer_run, "QUIET_S", 0.5)
    monkeypatch.setattr(peer_run, "POLL_S", 0.05)
    for topic in ("read", "written"):
        broker.create_topic(topic, 2)
    fill_topic(broker.bootstrap, "read", [Row(str(n), b"x") for n in range(10)])
    at = argparse.Namespace(bootstrap=broker.bootstrap, application_id="app", inputs=["read"], outputs=["written"])
    progress, ended = peer_run.Progress(at), list[float]()
    assert progress.records() == 10
    waiting = threading.Thread(target=lambda: ended.append(progress.wait(commits=True)), daemon=True)
    waiting.start()

    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "app"})
    places = [TopicPartition("read", n, consumer.get_watermark_offsets(TopicPartition("read", n))[1]) for n in (0, 1)]
    fill_topic(broker.bootstrap, "written", [Row("a", b"1")])
    consumer.commit(offsets=places[:1], asynchronous=False)
    waiting.join(1.5)
    assert waiting.is_alive(), "half of the input is not committed"
    before = time.monotonic()
    consumer.commit(offsets=places[1:], asynchronous=False)
    waiting.join(60)
    (changed,) = ended
    assert before <= changed < time.monotonic() - peer_run.QUIET_S
    consumer.close()
