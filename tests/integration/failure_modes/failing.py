"""An application in its own process, queried as an operator would.

Takes a broker's address and settings; returns what the admin port, the log and the exit code say. Owns the process.
"""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from broker.broker_config import HOST, free_port_numbers
from processes import PATIENCE_S, Process

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11 only

APPLICATION = """
import time

import stoatflow as sf


def parse(value: str) -> int:
    if value == "hang":
        time.sleep(3600)
    return int(value)


builder = sf.StreamsBuilder()
numbers = builder.stream("{name}-in", key=str, value=str).map_values(parse, name="parse")
sums = numbers.group_by_key(key=str, value=int).reduce(lambda a, b: a + b, store="sums")
sums.to_stream().to("{name}-out", key=str, value=int)
documents = builder.stream("{name}-documents", key=str, value=dict, name="documents")
documents.map_values(lambda value: value["n"]).to("{name}-out", key=str, value=int)
"""
ASK_S = 5.0
Document = dict[str, object]


class Application:
    """`with Application(folder, "name", address) as app`: it runs as `stoatflow run` does."""

    def __init__(
        self, folder: Path, name: str, address: str, *, under: Iterable[object] = (), **settings: object
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        (port,) = free_port_numbers(1)
        self.url = f"http://{HOST}:{port}"
        self.state = folder / "state"
        file = folder / "app.py"
        file.write_text(APPLICATION.replace("{name}", name), "utf-8")
        given = {
            "application.id": name,
            "bootstrap.servers": address,
            "state.dir": self.state,
            "admin.listen": f"{HOST}:{port}",
            "lanes.count": 2,
            "statestore.cache.max.bytes": 0,
        } | {key.replace("_", "."): value for key, value in settings.items()}
        flags = [flag for key, value in given.items() for flag in ("--set", f"{key}={value}")]
        self.process = Process(["-m", "stoatflow", "run", file, *flags], under=under)

    def __enter__(self) -> Self:
        """Start it."""
        self.process.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it, whatever it does."""
        self.process.__exit__(kind, error, trace)

    def ask(self, path: str) -> tuple[int, str]:
        """Status and body of a response of the admin port; status 0 if nobody answers."""
        try:
            with urllib.request.urlopen(f"{self.url}/{path}", timeout=ASK_S) as answer:  # noqa: S310  # our own port
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()
        except OSError:
            return 0, ""

    def document(self, path: str) -> tuple[int, Document]:
        """Like `ask`, for JSON."""
        code, body = self.ask(path)
        return code, json.loads(body) if body else {}

    def is_ready(self) -> bool:
        """Whether it is ready."""
        return self.ask("health/ready")[0] == 200

    def until_ready(self, patience: float = PATIENCE_S) -> None:
        """Wait until it is ready."""
        self.process.until(self.is_ready, "it is ready", patience)

    def metric(self, name: str, **labels: str) -> float | None:
        """The value of a metric with these labels, and possibly others; None if there is none."""
        for line in self.ask("metrics")[1].splitlines():
            found = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line)
            if found and found[1] == name and all(f'{label}="{value}"' in found[2] for label, value in labels.items()):
                return float(found[3])
        return None

    def log(self) -> list[Document]:
        """The log lines so far."""
        return [json.loads(line) for line in self.process.errors.splitlines() if line.startswith("{")]

    def until_it_ends(self, patience: float = PATIENCE_S) -> int:
        """Wait for its end; returns the exit code."""
        return self.process.wait(patience)

    def wait(self, seconds: float) -> None:
        """Let it run for some time."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            assert self.process.code is None, f"it ended by itself. {self.process.reported()}"
            time.sleep(0.05)
