"""Spark's standalone cluster on loopback: a master and workers, each a process group that a test may kill.

Takes: the number of workers, and their memory.
Gives: the master's address.
Owns: the processes, and ends them with the `with` block.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

PATIENCE_S = 60.0
_CLASS = "org.apache.spark.deploy"


class SparkCluster:
    """A master and workers of one core each."""

    def __init__(self, folder: Path, workers: int = 2, memory: str = "1g") -> None:
        """Starts nothing yet; logs and scratch files go into the folder."""
        self._folder = folder
        self._count = workers
        self._memory = memory
        self._groups: list[subprocess.Popen[bytes]] = []

    @property
    def master(self) -> str:
        """The value of `spark.master`."""
        return f"spark://127.0.0.1:{self._port}"

    @property
    def pids(self) -> list[int]:
        """The processes of the master and the workers; executors are their children."""
        return [group.pid for group in self._groups]

    def __enter__(self) -> SparkCluster:
        """Start it, and wait until all workers have registered."""
        self._port = _free_port()
        where = ["--host", "127.0.0.1", "--port", str(self._port), "--webui-port", str(_free_port())]
        self._start("master", [f"{_CLASS}.master.Master", *where])
        for n in range(self._count):
            one = ["--host", "127.0.0.1", "--cores", "1", "--memory", self._memory, "--webui-port", str(_free_port())]
            scratch = ["--work-dir", str(self._folder / f"work-{n}")]
            self._start(f"worker-{n}", [f"{_CLASS}.worker.Worker", *one, *scratch, self.master])
        until = time.monotonic() + PATIENCE_S
        log = self._folder / "master.log"
        while log.read_text("utf-8", "replace").count("Registering worker") < self._count:
            assert time.monotonic() < until, log.read_text("utf-8", "replace")[-3000:]
            time.sleep(0.2)
        return self

    def kill_worker(self, number: int) -> None:
        """Kill a worker, its executor and their Python workers at once."""
        self._kill(self._groups[1 + number])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the cluster."""
        for group in reversed(self._groups):
            self._kill(group)

    def _start(self, name: str, arguments: list[str]) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        path = os.pathsep.join([*(p for p in sys.path if p), os.environ.get("PYTHONPATH", "")])
        env = os.environ | {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_NO_DAEMONIZE": "1",
            "PYSPARK_PYTHON": sys.executable,
            # The same package as in this process.
            "PYTHONPATH": path,
        }
        with (self._folder / f"{name}.log").open("wb") as log:
            command = [str(home / "bin" / "spark-class"), *arguments]
            self._groups.append(
                subprocess.Popen(
                    command,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    cwd=self._folder,
                )
            )

    @staticmethod
    def _kill(group: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group.pid, signal.SIGKILL)
        group.wait(30)


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])
