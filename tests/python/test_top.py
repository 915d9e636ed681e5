"""`stoatflow top`: what keeps a running application busy."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import stoatflow as sf
from stoatflow.cli import main
from stoatflow.cli.top import picture


def slow(value: str) -> str:
    time.sleep(0.0005)
    return value


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.StoatFlow]:
    """Most of its records have one key, a function is slow, and some records are dropped."""
    builder = sf.StreamsBuilder()
    orders = builder.stream("orders", key=str, value=str).map_values(slow)
    orders.group_by_key().count(store="per-country")
    orders.group_by(lambda _key, _value: "everything", key=str).count(store="in-all")
    place: Path = tmp_path_factory.mktemp("top")
    with sf.EmbeddedBroker(place / "broker") as broker:
        broker.create_topic("orders", 1)
        for number in range(6_000):
            key = None if number % 50 == 0 else b"DE" if number % 4 else f"c{number}".encode()
            broker.produce("orders", key, b"x")
        config = {"application.id": "shop", "state.dir": place / "state"}
        with sf.StoatFlow(builder.build(), config, broker=broker) as running:
            while running.metrics()["records_committed"] < 6_000:
                running.wait("10ms")
            yield running


def test_without_a_terminal_top_prints_once(app: sf.StoatFlow, capsys: pytest.CaptureFixture[str]) -> None:
    # All work counts, even from a while ago.
    assert main(["top", str(app.admin_url), "--seconds", "3600"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("shop  RUNNING  ")
    assert "\x1b" not in printed
    rows = {line.split("  ")[0]: line for line in printed.splitlines()}
    assert "null_key" in rows
    assert rows["null_key"].split()[2] == "120"
    share = int(rows["DE"].split()[1])
    assert 60 <= share <= 90, rows["DE"]
    assert "per-country" in rows
    # After a new key, where all records meet.
    assert rows["everything"].split()[1] == "100"


def test_json_output_is_the_response_of_the_port(app: sf.StoatFlow, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", str(app.admin_url), "--json", "--rows", "1", "--seconds", "3600"]) == 0
    top = json.loads(capsys.readouterr().out)
    assert [len(top[name]) for name in ("lanes", "functions", "keys", "stores")] == [1, 1, 1, 1]
    assert "slow" in top["functions"][0]["function"]
    assert top["functions"][0]["mean_ms"] > 0.4
    assert top["stores"][0]["keys"] > 300


def test_on_a_terminal_top_redraws_until_ctrl_c(app: sf.StoatFlow) -> None:
    here, there = pty.openpty()
    command = [sys.executable, "-m", "stoatflow", "top", str(app.admin_url), "--interval", "0.05"]
    # Processes that a shell starts in the background ignore Ctrl-C, and so would those that the tests start
    # there.
    with subprocess.Popen(
        command,
        stdout=there,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as child:
        os.close(there)
        drawn = b""
        while drawn.count(b"shop  RUNNING") < 3:
            drawn += os.read(here, 65_536)
        child.send_signal(signal.SIGINT)
        try:
            while more := os.read(here, 65_536):
                drawn += more
        except OSError:
            pass  # Linux: the other end is closed
        assert child.wait(60) == 0
        assert child.stderr is not None
        assert child.stderr.read() == b""
    os.close(here)
    assert drawn.startswith(b"\x1b[?1049h\x1b[?25l")
    assert drawn.rstrip().endswith(b"\x1b[?25h\x1b[?1049l"), "the terminal is as it was"


def test_an_unreachable_port_prints_the_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["top", "http://127.0.0.1:1", "--once"]) == 1
    assert "doesn't answer" in capsys.readouterr().err
    assert main(["top", "http://127.0.0.1:1", "--interval", "0"]) == 2


def test_numbers_are_aligned() -> None:
    top = {
        "application_id": "shop", "state": "RUNNING", "seconds": 10.0,
        "records_per_second": 1234.5, "committed_per_second": 12.34,
        "lanes": [], "functions": [], "drops": [],
        "keys": [{"key": "a\nb", "share": 0.5, "lane": 1, "node": "orders"}],
        "stores": [
            {"store": "large", "keys": 10, "disk_bytes": 3 << 30, "memory_bytes": 5},
            {"store": "s", "keys": 1, "disk_bytes": 0, "memory_bytes": 2048},
        ],
        "partitions": [{"topic": "orders", "partition": 3, "lag": 7, "lag_per_second": -2.0}],
    }  # fmt: skip
    assert list(picture(top)) == [
        "shop  RUNNING  1234 records/s in, 12.3 committed, over 10 s",
        "",
        "key     share  lane  node",
        "'a\\nb'   50 %     1  orders",
        "",
        "store  keys     disk   memory",
        "large    10  3.0 GiB      5 B",
        "s         1      0 B  2.0 KiB",
        "",
        "behind    lag  per s",
        "orders-3    7   -2.0",
    ]
