"""A program of another library and its port: where they are, what they read, and what they gave.

Takes: the folders `<library>/<program>/` beside this file. `original.py` is the program, `ported.py` the same in
StoatFlow, `inputs.json` what both read, `outputs.json` what the original gave, and in which version.
Never: runs an original (`originals.py` does).
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
"""Key, value, and a timestamp where the library gives one."""
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
        """Records, each with its topic, and steps of the wall clock (`advance`), which the driver takes only."""
        found: list[dict[str, Any]] = json.loads((self.folder / "inputs.json").read_text("utf-8"))
        return found

    @property
    def records(self) -> list[dict[str, Any]]:
        return [step for step in self.inputs if "topic" in step]

    @property
    def recorded(self) -> dict[str, Any]:
        """`version` of the library, and its `outputs`."""
        found: dict[str, Any] = json.loads((self.folder / "outputs.json").read_text("utf-8"))
        return found

    @property
    def ported(self) -> dict[str, Any]:
        """What the port says: `topology`, and where it gives something else `DIFFERENCE` and `HERE`."""
        return runpy.run_path(str(self.folder / "ported.py"))

    def record(self, version: str, outputs: Outputs) -> None:
        """Write down what the original gave, a row to a line."""
        topics = ",\n".join(f"    {json.dumps(topic)}: [{_lines(rows)}]" for topic, rows in sorted(outputs.items()))
        text = f'{{\n  "version": {json.dumps(version)},\n  "outputs": {{\n{topics}\n  }}\n}}\n'
        (self.folder / "outputs.json").write_text(text, "utf-8")


def _lines(rows: Iterable[Row]) -> str:
    lines = ",\n".join(f"      {json.dumps(row, ensure_ascii=False)}" for row in rows)
    return f"\n{lines}\n    " if lines else ""


def every(library: str | None = None) -> list[Case]:
    """All of a library, or of all."""
    libraries = LIBRARIES if library is None else (library,)
    return [Case(one, path.parent.name) for one in libraries for path in sorted((FOLDER / one).glob("*/original.py"))]


def encode(data: Any) -> bytes | None:
    """How inputs are written: texts as they are, anything else as JSON."""
    if data is None or isinstance(data, bytes):
        return data
    return (data if isinstance(data, str) else json.dumps(data, separators=(",", ":"))).encode()


def decode(data: bytes | None) -> Any:
    """What outputs say."""
    if data is None:
        return None
    try:
        return json.loads(data)
    except ValueError:
        return data.decode()


def text(key: bytes | None) -> str | None:
    """Keys are texts."""
    return None if key is None else key.decode()


def ours(case: Case, lanes: int = 1, *, timestamps: bool = False) -> Outputs:
    """What the port gives."""
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
    """What a key gave, in order. Between keys no order holds, in none of the libraries."""
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
