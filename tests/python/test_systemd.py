"""What systemd gets of a service with `Type=notify` and `WatchdogSec=`, on a real datagram socket."""

from __future__ import annotations

import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAM = """
import ctypes, os, sys, time
import stoatflow as sf
def fn(value):
    if value == "hold":
        ctypes.PyDLL(None).sleep(5)
    if value == "raise":
        raise ValueError("it raised\\nREADY=1")
    if value == "hang":
        time.sleep(60)
    return value
builder = sf.StreamsBuilder()
builder.stream("in", key=str, value=str).map_values(fn).to("out", key=str, value=str)
broker = sf.EmbeddedBroker(sys.argv[1] + "/broker")
broker.create_topic("in", 1)
broker.create_topic("out", 1)
config = {"application.id": "app", "state.dir": sys.argv[1] + "/state", "admin.listen": "off", "lanes.count": 1,
          "ensure.explicit.naming": False, "stall.timeout.ms": os.environ.get("STALL", "60s"), "commit.interval.ms": 50}
app = sf.StoatFlow(builder.build(), config, broker=broker)
broker.produce_many("in", [(None, b"a", value.encode(), 1) for value in sys.argv[2:]])
app.add_hook("POST_START", lambda app: print("runs", flush=True))
app.run()
"""


class Service:
    """A process with a notify socket, and what it has sent."""

    def __init__(self, tmp_path: Path) -> None:
        self.path = str(tmp_path / "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.lines: list[tuple[float, str]] = []
        self._where = str(tmp_path)
        self.child: subprocess.Popen[bytes] | None = None

    def start(self, *values: str, **environ: str) -> None:
        path = os.pathsep.join([*(p for p in sys.path if p), os.environ.get("PYTHONPATH", "")])
        given = os.environ | {"PYTHONPATH": path, "NOTIFY_SOCKET": self.path, **environ}
        command = [sys.executable, "-c", PROGRAM, self._where, *values]
        self.child = subprocess.Popen(command, env=given, stdout=subprocess.PIPE)

    def receive(self, seconds: float) -> None:
        self.socket.settimeout(max(0.01, seconds))
        try:
            text = self.socket.recv(65536).decode()
        except TimeoutError:
            return
        self.lines += [(time.monotonic(), line) for line in text.splitlines()]

    def until(self, line: str) -> float:
        """Return when it sent a line that begins like this."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            for at, sent in self.lines:
                if sent.startswith(line):
                    return at
            self.receive(0.2)
        raise AssertionError(f"no {line}: {self.sent}")

    def during(self, seconds: float) -> list[str]:
        """Return what it sends within this time."""
        before, deadline = len(self.lines), time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.receive(deadline - time.monotonic())
        return [line for _, line in self.lines[before:]]

    def runs(self) -> None:
        """Wait until it says that it runs."""
        assert self.child is not None
        assert self.child.stdout is not None
        assert self.child.stdout.readline() == b"runs\n"

    def ends(self) -> int:
        assert self.child is not None
        deadline = time.monotonic() + 60
        while self.child.poll() is None and time.monotonic() < deadline:
            self.receive(0.2)
        self.during(0.2)
        return self.child.wait(1)

    @property
    def sent(self) -> list[str]:
        return [line for _, line in self.lines]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path)
    yield made
    if made.child is not None:
        made.child.kill()
        made.child.wait(60)
        assert made.child.stdout is not None
        made.child.stdout.close()
    made.socket.close()


def test_a_service_is_ready_when_it_runs_and_says_that_it_stops(service: Service) -> None:
    service.start("a")
    service.until("READY=1")
    before = service.sent[: service.sent.index("READY=1")]
    assert "EXTEND_TIMEOUT_USEC=30000000" in before, "a restore may take longer than TimeoutStartSec="
    assert any(line.startswith("STATUS=starting") for line in before)
    service.until("STATUS=running")
    assert service.child is not None
    service.child.send_signal(signal.SIGTERM)
    service.until("STOPPING=1")
    assert service.ends() == 0
    assert service.sent.count("READY=1") == service.sent.count("STOPPING=1") == 1
    assert service.sent[-1] == "STATUS=stopped"
    assert not any(line.startswith("WATCHDOG") for line in service.sent), "without WatchdogSec="


def test_the_watchdog_hears_it_while_a_function_holds_the_interpreter(service: Service) -> None:
    service.start("hold", WATCHDOG_USEC="3000000")
    service.until("READY=1")
    service.during(6)
    pings = [at for at, line in service.lines if line == "WATCHDOG=1"]
    gaps = [after - before for before, after in itertools.pairwise(pings)]
    assert len(pings) >= 4
    assert max(gaps) < 3, gaps


def test_the_watchdog_hears_nothing_of_a_stalled_application(service: Service) -> None:
    """The stall ends the process, too; systemd would restart it if that failed."""
    service.start("hang", WATCHDOG_USEC="1000000", STALL="3s")
    service.until("READY=1")
    assert service.ends() == 3
    pings = [at for at, line in service.lines if line == "WATCHDOG=1"]
    assert pings
    assert time.monotonic() - pings[-1] > 1


def test_a_failure_is_the_status_and_can_not_forge_a_line(service: Service) -> None:
    service.start("raise")
    service.until("STOPPING=1")
    assert service.ends() != 0
    assert service.sent.count("READY=1") <= 1
    assert any(line.startswith("STATUS=failed: ") for line in service.sent)


def test_the_watchdog_of_another_process_is_not_its_own(service: Service) -> None:
    service.start("a", WATCHDOG_USEC="200000", WATCHDOG_PID="1")
    service.until("READY=1")
    assert "WATCHDOG=1" not in service.during(1)


def test_an_abstract_socket(service: Service, tmp_path: Path) -> None:
    name = f"stoatflow-test-{os.getpid()}"
    service.socket.close()
    service.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    service.socket.bind("\0" + name)
    service.path = "@" + name
    service.start("a")
    service.until("READY=1")


@pytest.mark.parametrize("path", ["", "nonsense\n", "/no/such/socket", "vsock:2:1"])
def test_without_a_socket_it_runs_all_the_same(service: Service, path: str) -> None:
    service.path = path
    service.start("a")
    service.runs()
    assert service.child is not None
    service.child.send_signal(signal.SIGTERM)
    assert service.ends() == 0
