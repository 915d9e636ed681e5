"""The machine's clock jumps by an hour, both ways, under a running application: nothing stops, nothing is lost."""

from __future__ import annotations

import json
import re
import shutil
import signal
import struct
import subprocess
import time
from datetime import datetime, timezone
from pathlib import Path

import pytest
from counting import by_hand, check_every_update, lines, table
from processes import Process
from topics import KafkaTopics

HOUR_S = 3600
JUMPS = (2 * HOUR_S, HOUR_S, 0, -HOUR_S, HOUR_S)
"""Offsets from the real clock, one after the other; the first one applies at the start."""
CLIENTS = {
    "native": {},
    "librdkafka": {"kafka.client": "librdkafka", "producer.linger.ms": 1, "consumer.fetch.wait.max.ms": 50},
}
SOON_S = 120.0
"""Far less than an hour, but more than a commit takes on a busy machine."""
APP = """
import json, sys
from pathlib import Path
from counting import make

make(sys.argv[1], sys.argv[2], Path(sys.argv[3]), **json.loads(sys.argv[4])).run()
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled here: there is a compiler, because it has built the engine."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "this test needs a C compiler"
    source = Path(__file__).parent / "clock" / "shifted_clock.c"
    built = tmp_path_factory.mktemp("clock") / "shifted_clock.so"
    subprocess.run([compiler, "-O1", "-shared", "-fPIC", "-o", built, source, "-ldl"], check=True)
    return built


class Clock:
    """The clock's offset, in a file that the process has mapped."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.move(0)

    def move(self, seconds: int) -> None:
        # Written in place, so that the mapped file stays the same.
        with self.file.open("r+b" if self.file.exists() else "wb") as out:
            out.write(struct.pack("@q", seconds))


def logged(child: Process) -> list[float]:
    """The timestamps of the log lines, by the engine's own clock."""
    found = re.findall(r'"timestamp":"([^"]+)Z"', child.errors)
    return [datetime.fromisoformat(time).replace(tzinfo=timezone.utc).timestamp() for time in found]


@pytest.mark.parametrize("client", CLIENTS)
def test_the_clock_jumps_while_it_runs(
    kafka: KafkaTopics, name: str, tmp_path: Path, library: Path, client: str
) -> None:
    for topic in ("in", "out"):
        kafka.create(f"{name}-{topic}", 2)
    clock = Clock(tmp_path / "shift")
    clock.move(JUMPS[0])
    arguments = ["-c", APP, kafka.address, name, tmp_path / "state", json.dumps(CLIENTS[client])]
    environ = {"LD_PRELOAD": str(library), "SHIFTED_CLOCK": str(clock.file)}
    environ["STOATFLOW_FAILPOINTS"] = "start.fenced=sleep:1"  # and logs it, with the time
    given: list[str] = []

    def is_counted() -> bool:
        return table(kafka.read(f"{name}-out")) == by_hand(given)

    with Process(arguments, environ) as child:
        for jump in JUMPS:
            given += (some := lines(len(given), 50))
            kafka.write(f"{name}-in", some)
            clock.move(jump)
            given += (some := lines(len(given), 50))
            kafka.write(f"{name}-in", some)
            child.until(is_counted, f"it goes on at {jump}", SOON_S)
        assert abs(logged(child)[0] - time.time() - JUMPS[0]) < HOUR_S / 2, "its clock was not moved"
        child.signal(signal.SIGTERM)
        assert child.wait() == 0, child.reported()
    check_every_update(kafka.read(f"{name}-out"), given)
