"""Runs originals, and records their outputs: `python tests/ports/record.py [LIBRARY[/PROGRAM]]...`."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "integration"))

from ports import originals
from ports.cases import every


def main(wanted: list[str]) -> None:
    cases = [case for case in every() if not wanted or {case.library, f"{case.library}/{case.program}"} & {*wanted}]
    needed = any(case.library != "bytewax" for case in cases)
    with originals.broker() if needed else nullcontext() as kafka:
        for case in cases:
            version, outputs = originals.run(case, kafka)
            case.record(version, outputs)
            print(f"{case.library}/{case.program}: {sum(map(len, outputs.values()))} rows of {version}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
