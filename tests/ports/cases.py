"""Programs of other libraries and their ports: their folders, their inputs, and the recorded outputs.

Takes: the folders `<library>/<program>/` next to this file. `original.py` is the program, `ported.py` the same in
StoatFlow, `inputs.json` the input of both, `outputs.json` the original's output, with the library's version. Never:
runs an original (`originals.py` does).
"""

from __future__ import annotations

import json
import runpy
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import stoatflow as sf
from stoatflow.testing import TopologyTestDriver

FOLDER = Path(__file__).resolve().parent
LIBRARIES = ("bytewax", "faust", "quix")

Row = list[Any]
"""Key, value, and a timestamp if the library writes one."""
Outputs = dict[str, list[Row]]
"""By topic, in order."""


@dataclass(frozen=True)
class Case:
    """A program and its port."""

    library: str
    program: str

    @property
    def folder(self) -> Path:
        return FOLDER / self.library / self.program

    @property
    def inputs(self) -> list[dict[str, Any]]:
        """Records, each with its topic, and steps of the wall clock (`advance`), which only the test driver applies."""
        found: list[dict[str, Any]] = json.loads((self.folder / "inputs.json").read_text("utf-8"))
        return found

    @property
    def records(self) -> list[dict[str, Any]]:
        return [step for step in self.inputs if "topic" in step]

    @property
    def recorded(self) -> dict[str, Any]:
        """The `version` of the library, and the `outputs` of the original."""
        found: dict[str, Any] = json.loads((self.folder / "outputs.json").read_text("utf-8"))
        return found

    @property
    def ported(self) -> dict[str, Any]:
        """The variables of the port: `topology`, and if its output differs, `DIFFERENCE` and `HERE`."""
        return runpy.run_path(str(self.folder / "ported.py"))

    def record(self, version: str, outputs: Outputs) -> None:
        """Write the original's outputs to the file, one row per line."""
        topics = ",\n".join(f"    {json.dumps(topic)}: [{_lines(rows)}]" for topic, rows in sorted(outputs.items()))
        text = f'{{\n  "version": {json.dumps(version)},\n  "outputs": {{\n{topics}\n  }}\n}}\n'
        (self.folder / "outputs.json").write_text(text, "utf-8")


def _lines(rows: Iterable[Row]) -> str:
    lines = ",\n".join(f"      {json.dumps(row, ensure_ascii=False)}" for row in rows)
    return f"\n{lines}\n    " if lines else ""


def every(library: str | None = None) -> list[Case]:
    """All cases of a library, or of all libraries."""
    libraries = LIBRARIES if library is None else (library,)
    return [Case(one, path.parent.name) for one in libraries for path in sorted((FOLDER / one).glob("*/original.py"))]


def encode(data: Any) -> bytes | None:
    """Serialize an input: strings as they are, anything else as JSON."""
    if data is None or isinstance(data, bytes):
        return data
    return (data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))).encode()


def decode(data: bytes | None) -> Any:
    """Deserialize an output."""
    if data is None:
        return None
    try:
        return json.loads(data)
    except ValueError:
        return data.decode()


def text(key: bytes | None) -> str | None:
    """Keys are strings."""
    return None if key is None else key.decode()


def ours(case: Case, lanes: int = 1, *, timestamps: bool = False) -> Outputs:
    """The port's outputs."""
    topology: sf.Topology = case.ported["topology"]()
    with TopologyTestDriver(topology, lanes=lanes) as driver:
        inputs = {topic: driver.input(topic) for topic in dict.fromkeys(one["topic"] for one in case.records)}
        for step in case.inputs:
            if "advance" in step:
                driver.advance(step["advance"])
            else:
                key, value = encode(step.get("key")), encode(step["value"])
                inputs[step["topic"]].pipe(key, value, timestamp=step.get("timestamp", 0))
        found: Outputs = {}
        for topic in set(driver.produced_topics) - set(inputs):
            rows = driver.output(topic).read_all()
            found[topic] = [
                [text(row.key), decode(row.value), *([row.timestamp] if timestamps else ())] for row in rows
            ]
        return found


def by_key(outputs: Outputs) -> dict[str, dict[str, list[Any]]]:
    """The results of each key, in order. None of the libraries guarantees an order between keys."""
    found: dict[str, dict[str, list[Any]]] = {}
    for topic, rows in outputs.items():
        keys = defaultdict[str, list[Any]](list)
        for key, *rest in rows:
            keys[json.dumps(key)].append(rest)
        if keys:
            found[topic] = dict(keys)
    return found


def last(outputs: Outputs) -> Outputs:
    """The last row of each key."""
    return {topic: list({row[0]: row for row in rows}.values()) for topic, rows in outputs.items()}


def without_times(outputs: Outputs) -> Outputs:
    """Keys and values only."""
    return {topic: [row[:2] for row in rows] for topic, rows in outputs.items()}
