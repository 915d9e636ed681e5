"""Other engines for Python that run some of the jobs: their descriptions and their environments.

Takes `requirements/<name>.txt`, pip; returns an interpreter that has the engine, or the reason why there is none. Owns
`versus-peers/<name>` in the cache outside the clone, created again when the requirements change. Never installs
anything into the environment of StoatFlow, and installs only requested engines.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from broker.java_home import cache_dir
from broker.maven_jars import complete_folder

_HERE = Path(__file__).resolve().parent


class PeerError(RuntimeError):
    """An engine could not be installed."""


@dataclass(frozen=True)
class Peer:
    """An engine, and the workloads that its program implements."""

    name: str
    title: str
    workloads: tuple[str, ...]

    @property
    def program(self) -> Path:
        """The program to run."""
        return _HERE / f"{self.name}_run.py"

    @property
    def requirements(self) -> Path:
        """Its requirements file."""
        return _HERE / "requirements" / f"{self.name}.txt"

    @property
    def version(self) -> str:
        """Its pinned version."""
        return self.requirements.read_text().splitlines()[0]

    @property
    def interpreter(self) -> Path:
        """The interpreter of its environment, once that is installed."""
        return self._folder / "bin" / "python"

    @property
    def _folder(self) -> Path:
        return cache_dir() / "versus-peers" / self.name

    def why_not(self, workload: str) -> str | None:
        """The reason as text; `None` if it has the workload."""
        return None if workload in self.workloads else f"there is no program for {workload} on {self.title}"

    def install(self) -> None:
        """Create its environment, unless it exists."""
        complete_folder(self._folder, [self.requirements], self._fill)

    def _fill(self, partial: Path) -> None:
        print(f"installing {self.version} (the first time only)", file=sys.stderr, flush=True)
        self._run([sys.executable, "-m", "venv", str(partial)])
        wanted = ["-r", str(self.requirements)]
        self._run([str(partial / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", *wanted])

    def _run(self, command: list[str]) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            output = (done.stderr or done.stdout).strip().splitlines()
            last = next(
                (line for line in reversed(output) if line.startswith("ERROR")), output[-1] if output else "no message"
            )
            raise PeerError(f"{self.version} could not be installed: {last}")


PEERS: dict[str, Peer] = {
    one.name: one
    for one in (
        Peer("quix", "Quix Streams", ("w1", "w2", "w3", "w4", "w5")),
        Peer("bytewax", "Bytewax", ("w1", "w2")),
        Peer("pathway", "Pathway", ("w1", "w2")),
    )
}
