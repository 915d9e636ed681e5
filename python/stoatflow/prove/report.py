"""Formats a proof as text and as JSON.

Takes a `Proof`, and serdes to display bytes as values. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from stoatflow.prove.compare import Difference
from stoatflow.prove.engine_side import EngineSide
from stoatflow.prove.inputs import ClockStep, Input, Serdes, line, spelt
from stoatflow.prove.proving import Proof, counted
from stoatflow.prove.runs import Failure, Output, Row
from stoatflow.serdes import Serde
from stoatflow.windowed import Windowed

_LONGEST = 400
_SHOWN = 40
_FEW = 12
_FRAMES = 4

SerdesOf = Callable[[str], "Serdes | None"]


class Report:
    """The report of a proof; see the module."""

    def __init__(self, proof: Proof, python: EngineSide, source: str, kept: Path | None = None) -> None:
        """`source` describes where the inputs come from; `kept` is the file with those that show a difference."""
        self._proof, self._python, self._source, self._kept = proof, python, source, kept

    def text(self) -> str:
        """Return the report as text."""
        proof = self._proof
        records, steps = counted(proof.inputs)
        clock = f", {_count(steps, 'step')} of the clock" if steps else ""
        lines = [
            f"Java    {proof.java.name}, {proof.java.version}",
            f"Python  {proof.python.name}, {proof.python.version}",
            f"inputs  {_count(records, 'record')}{clock} ({self._source})",
            "",
        ]
        lines += self._equal() if proof.difference is None else self._different(proof.difference)
        lines += self._failed()
        return "\n".join([*lines, *_listed("not compared, or not alike", proof.notes)])

    def _equal(self) -> list[str]:
        proof = self._proof
        return [
            "EQUAL: keys, values, timestamps, headers and their order, and the stores at the end",
            *(f"  topic '{name}': {_count(count, 'record')}" for name, count in proof.compared.items()),
            *(f"  store '{name}': {_count(count, 'row')}" for name, count in proof.stores.items()),
        ]

    def _different(self, difference: Difference) -> list[str]:
        proof, shortened = self._proof, self._proof.shortened
        if shortened is None:
            raise AssertionError("there is a difference, so it was shortened")
        total, left = len(proof.inputs), len(shortened.inputs)
        same = sum(proof.compared.values())
        lines = [f"DIFFERENT: {self._headline(difference)}", ""]
        if not shortened.is_repeated:
            lines += [
                "The same inputs did not show it a second time: a function reads a clock, makes random numbers, or",
                "keeps something from run to run. This is how it was seen first.",
                "",
            ]
        runs = f"found in {_count(shortened.runs, 'run')}"
        more = "" if shortened.is_complete else "; with more --runs some might go"
        lines.append(f"inputs that show it, {left:,} of {total:,} ({runs}{more})")
        lines += self._inputs(shortened.inputs)
        lines += ["", *self._sides(difference), *(f"  {each}" for each in _what(difference))]
        lines += ["", f"before it, {_count(same, 'record')} of output topics {_are(same)} the same"]
        lines += _listed("look at", proof.slips)
        lines += _listed("decided to be different, and possible with these operators", proof.known)
        again = "--keep FILE writes these inputs, for --inputs and for a test"
        if self._kept is not None:
            again = f"These inputs are in {self._kept}: add --inputs {self._kept} in place of the others"
        return [*lines, "", f"Next: mend the side that is wrong, and prove again. {again}"]

    def _headline(self, difference: Difference) -> str:
        if difference.kind == "failure":
            return f"{difference.place} fails with an input that the other side takes"
        if difference.kind == "row":
            return f"the store '{difference.place}' at the end"
        what = "the order of records in the topic" if difference.kind == "order" else "a record of the topic"
        return f"{what} '{difference.place}'"

    def _sides(self, difference: Difference) -> list[str]:
        if difference.kind == "failure":
            sides = (("Java", difference.java_failure), ("Python", difference.python_failure))
            return [f"  {side:<6}  {_failure(failure)}" for side, failure in sides]
        if difference.kind == "row":
            serdes = self._python.store_serdes(difference.place)
            rows = (("Java", difference.java), ("Python", difference.python))
            return [f"  {side:<6}  {_shown(row, serdes)}" for side, row in rows]
        serdes = self._python.sink_serdes(difference.place)
        if difference.kind == "order" or len(difference.java_all) != len(difference.python_all):
            lines = []
            for side, records in (("Java", difference.java_all), ("Python", difference.python_all)):
                shown = [_shown(one, serdes) for one in records[:_FEW]] or ["nothing"]
                lines += [f"  {side if i == 0 else '':<6}  {each}" for i, each in enumerate(shown)]
                if len(records) > _FEW:
                    lines.append(f"          and {len(records) - _FEW:,} more")
            return lines
        both = (("Java", difference.java), ("Python", difference.python))
        return [f"  {side:<6}  {_shown(record, serdes)}" for side, record in both]

    def _inputs(self, inputs: Sequence[Input]) -> list[str]:
        lines = [f"  {number:>3}  {self._input(one)}" for number, one in enumerate(inputs, 1)]
        hidden = len(lines) - _SHOWN
        if hidden <= 0:
            return lines
        half = _SHOWN // 2
        return [*lines[:half], f"  ...  {hidden:,} more (--keep FILE writes all of them)", *lines[-half:]]

    def _input(self, one: Input) -> str:
        if isinstance(one, ClockStep):
            return f"the clock moves on by {one.ms:,} ms"
        output = Output(one.key, one.value, one.timestamp, one.headers)
        return f"{one.topic}  {_shown(output, self._python.source_serdes(one.topic))}"

    def _failed(self) -> list[str]:
        failed = [
            f"{self._input(one.given)}: Java {_failure(one.java)}; Python {_failure(one.python)}"
            for one in self._proof.failed
        ]
        return _listed("left out, because both sides fail with it", failed)

    def json(self) -> str:
        """Return the report as JSON."""
        proof = self._proof
        records, steps = counted(proof.inputs)
        result: dict[str, Any] = {
            "equal": proof.difference is None,
            "java": _described(proof.java.name, proof.java.version, proof.java.text),
            "python": _described(proof.python.name, proof.python.version, proof.python.text),
            "inputs": {"records": records, "clock_steps": steps, "source": self._source},
            "same": {"topics": proof.compared, "stores": proof.stores},
            "difference": None,
            "failed_together": [
                {"input": json.loads(line(one.given)), "java": _failed(one.java), "python": _failed(one.python)}
                for one in proof.failed
            ],
            "notes": proof.notes,
        }
        if proof.shortened is not None:
            result["difference"] = _difference(proof.shortened.difference) | {
                "inputs": [json.loads(line(one)) for one in proof.shortened.inputs],
                "runs": proof.shortened.runs,
                "repeated": proof.shortened.is_repeated,
                "look_at": proof.slips,
                "decided": proof.known,
            }
        return json.dumps(result, ensure_ascii=False, indent=2)


def _what(difference: Difference) -> list[str]:
    if difference.kind == "failure":
        failure = difference.java_failure or difference.python_failure
        return [] if failure is None else ["", *_details(failure)]
    if difference.kind == "order":
        return ["the records are the same, their order is not"]
    if difference.java is None or difference.python is None:
        return [f"only {'Python' if difference.java is None else 'Java'} has it"]
    parts = difference.parts
    verb = "differs" if parts != ("headers",) and len(parts) == 1 else "differ"
    return [f"the {' and the '.join(parts)} {verb}"]


def _shown(one: Output | Row | None, serdes: Serdes | None) -> str:
    if one is None:
        return "nothing"
    key, value = serdes or (None, None)
    parts = [f"key {shown(one.key, key)}"]
    if isinstance(one, Row) and one.window is not None:
        parts.append(f"window {one.window[0]} to {one.window[1]}")
    parts.append(f"value {shown(one.value, value)}")
    if one.timestamp is not None:
        parts.append(f"at {one.timestamp}")
    if isinstance(one, Output) and one.headers:
        parts.append("headers " + ", ".join(f"{name}={shown(content, None)}" for name, content in one.headers))
    return "  ".join(parts)


def shown(data: bytes | None, serde: Serde[Any] | None) -> str:
    """Return bytes as readable text: the value of the serde, text, or hexadecimal digits."""
    if data is None:
        return "null"
    text = spelt(data)
    result = repr(text) if isinstance(text, str) else f"0x{data.hex()}"
    if serde is not None and serde.name != "bytes":
        try:
            value = serde.deserialize(data)
        except Exception:  # bytes of another serde are displayed raw
            return _cut(result)
        if isinstance(value, Windowed):
            result = f"{value.key!r} in window {value.window.start} to {value.window.end}"
        elif serde.name.startswith("json") and isinstance(text, str):
            result = text
        else:
            result = repr(value)
    return _cut(result)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text):,} characters)"


def _details(failure: Failure) -> list[str]:
    """Return the causes of a failure, and where the last one was raised."""
    lines = [each.rstrip() for each in failure.details.splitlines()]
    last = max((at for at, each in enumerate(lines) if not each.startswith("\t")), default=0)
    return [
        _cut(each.expandtabs(4)) for at, each in enumerate(lines) if each[:1] != "\t" or last < at <= last + _FRAMES
    ]


def _failure(failure: Failure | None) -> str:
    return "goes on" if failure is None else f"fails: {failure.name}: {failure.message}"


def _listed(title: str, lines: Sequence[str]) -> list[str]:
    shown = [f"  - {each}" for each in lines[:_SHOWN]]
    more = [f"  - and {len(lines) - _SHOWN:,} more"] if len(lines) > _SHOWN else []
    return ["", title, *shown, *more] if lines else []


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _described(name: str, version: str, text: str) -> dict[str, str]:
    return {"topology": name, "version": version, "describe": text}


def _failed(failure: Failure) -> dict[str, str]:
    return {"class": failure.name, "message": failure.message, "details": failure.details}


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "kind": difference.kind,
        "place": difference.place,
        "at": difference.at,
        "parts": list(difference.parts),
        "java": _plain(difference.java),
        "python": _plain(difference.python),
        "java_failure": difference.java_failure and _failed(difference.java_failure),
        "python_failure": difference.python_failure and _failed(difference.python_failure),
        "java_all": [_plain(one) for one in difference.java_all],
        "python_all": [_plain(one) for one in difference.python_all],
    }


def _plain(one: Output | Row | None) -> dict[str, Any] | None:
    if one is None:
        return None
    result: dict[str, Any] = {"key": spelt(one.key), "value": spelt(one.value), "timestamp": one.timestamp}
    if isinstance(one, Row):
        result["window"] = one.window
    elif one.headers:
        result["headers"] = [[name, spelt(content)] for name, content in one.headers]
    return result
