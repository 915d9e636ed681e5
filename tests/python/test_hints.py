"""Hints of a run: one line for a function that is called often and could be an expression, with its cost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

RUN = """
import sys
import threading
import stoatflow as sf

records, state = int(sys.argv[1]), sys.argv[2]
builder = sf.StreamsBuilder()
stream = builder.stream("in", key=str, value=str)
stream.filter(lambda key, value: value != "x", name="not-x").to("out", value=str)
stream.map_values(lambda value: value.title()).to("out", value=str)
with sf.EmbeddedBroker() as broker:
    broker.create_topic("in", 2)
    broker.create_topic("out", 2)
    broker.produce_many("in", [(None, b"k%d" % n, b"v", n) for n in range(records)])
    app = sf.StoatFlow(builder.build(), {"application.id": "hinted", "state.dir": state}, broker=broker)
    app.start()
    while app.metrics()["records_committed"] < records:
        assert not app.wait("10ms")
    app.close()
    # Nobody waits long for the last look at the counters; here it is all that is looked for.
    for thread in threading.enumerate():
        if thread.name == "stoatflow-hints":
            thread.join(60)
"""


def lines(records: int, tmp_path: Path, **environment: str) -> list[dict[str, Any]]:
    """The log as JSON, since standard error is no terminal here."""
    app = tmp_path / "app.py"
    app.write_text(RUN)
    ended = subprocess.run(
        [sys.executable, str(app), str(records), str(tmp_path / "state")],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        cwd=tmp_path,
        env={**os.environ, **environment},
    )
    assert ended.returncode == 0, ended.stderr
    logged = [json.loads(line) for line in ended.stderr.splitlines()]
    return [line for line in logged if line["target"] == "stoatflow::hint"]


def test_a_function_that_is_called_often_is_named_once(tmp_path: Path) -> None:
    (line,) = lines(25_000, tmp_path)
    assert (line["level"], line["application"], line["node"]) == ("INFO", "hinted", "not-x")
    assert line["function"] == "app.py:9 <lambda>"
    message = line["message"]
    assert message.startswith("app.py:9: filter calls a function, ")
    assert "as an expression it needs no interpreter: sf.value != 'x' (" in message
    assert "docs/guide/doctor.md" in message
    cost, wait = (float(part.split(" µs")[0].split(" ")[-1]) for part in message.split(", ")[1:3])
    assert 0.05 < cost < 100_000
    assert 0 <= wait <= cost


def test_a_rarely_called_function_is_not_named(tmp_path: Path) -> None:
    assert lines(9_000, tmp_path) == []


def test_hints_can_be_switched_off(tmp_path: Path) -> None:
    assert lines(25_000, tmp_path, RUST_LOG="warn") == []
