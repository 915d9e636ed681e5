"""Removes data of records: keys, values, and texts of exceptions that may quote them.

Takes answers of the admin port and lines of a log; keeps what says where something failed, without the data: node,
function, topic, partition, offset, class of the exception, places in the traceback. Texts of the engine that can't hold
data stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

LEFT_OUT = "(left out: it may hold a record's data; --with-data takes it)"
# Errors about the environment. Errors about records, and unexpected ones, may quote what was read.
_ABOUT_NO_RECORD = (
    "config", "topology", "unavailable", "fenced", "missing_topic", "unauthorized", "state_locked", "disk_full",
    "incompatible", "unknown_outcome", "stalled", "changes_lost",
)  # fmt: skip
_KEY = re.compile(r"(?:^|_)(?:keys?|values?|headers|records?_data|payload)(?:$|_)")
_FRAME = re.compile(r'  File "[^"\n]*", line \d+, in [\w<>.]+\Z')
_HEAD = ("Traceback (most recent call last):", "During handling of", "The above exception was")
_RAISED = re.compile(r"\braised (?P<exception>[\w.]+): ")
_COORDINATES = re.compile(r"\[(?:function|node|store|topic|partition|lane|epoch) [^\[\]]*\]")
_EXCEPTION = re.compile(r"(?P<exception>[A-Za-z_][\w.]*): .*")
_BY_NAME = re.compile(r"(?P<exception>(?:\w+\.)*[A-Z]\w*(?:Error|Exception|Warning|Interrupt|Exit|Group)): .*")
_QUOTING = ("failed", "health_check")
_OF_ENGINE = re.compile(r"#|(?:stoatflow|process|kafka)_")
_ANY_LABEL = re.compile(r'(?P<name>\b\w+)="(?:[^"\\]|\\.)*"')
_LABEL = re.compile(r'\b((?:\w+_)?(?:key|value))="(?:[^"\\]|\\.)*"')


def without_data(part: str, answer: Any) -> Any:
    """Return an answer of the admin port without data of records; `part` is its name in the archive."""
    if part in _LISTS:
        name, show = _LISTS[part]
        return {**answer, name: [show(each) for each in answer.get(name, ())]}
    if part in {"state", "health-live", "health-ready"}:
        return _of_state(answer)
    if part == "barriers" and answer.get("failed"):
        return {**answer, "failed": {**answer["failed"], "error": LEFT_OUT}}
    if part == "topology":
        # `key` and `value` of a store are the names of its serdes.
        return _no_keys(answer) | {name: each for name, each in answer.items() if name == "stores"}
    if part in {"threads", "top", "watermarks"}:
        return _no_code(_no_keys(answer))
    return answer


def metrics_without_data(text: str) -> str:
    """Return metrics without labels that are keys; of the application's own metrics, without all labels."""
    text = _LABEL.sub(r'\1="(left out)"', text)
    return "".join(
        line if _OF_ENGINE.match(line) else _ANY_LABEL.sub(_left_out, line) for line in text.splitlines(keepends=True)
    )


def _left_out(label: re.Match[str]) -> str:
    return label[0] if label["name"] in {"application_id", "le"} else f'{label["name"]}="(left out)"'


def log_without_data(text: str) -> str:
    """Return log lines without what the engine and tracebacks quote. What the application prints itself stays."""
    return "".join(_lines(text.splitlines(keepends=True), _line))


def _error(error: dict[str, Any]) -> dict[str, Any]:
    if error.get("kind") in _ABOUT_NO_RECORD:
        return error
    kept = {**error, "message": LEFT_OUT}
    if error.get("traceback"):
        kept["traceback"] = _places(error["traceback"])
    return kept


def _letter(letter: dict[str, Any]) -> dict[str, Any]:
    kept = {**letter, **dict.fromkeys(("key", "value", "headers", "message"), LEFT_OUT)}
    if letter.get("traceback"):
        kept["traceback"] = _places(letter["traceback"])
    return kept


def _finding(finding: dict[str, Any]) -> dict[str, Any]:
    # The only findings that quote an error.
    return {**finding, "message": LEFT_OUT} if finding.get("code") in _QUOTING else finding


# By part: the member that is a list, and how its entries are cleaned.
_LISTS = {"errors": ("errors", _error), "dead-letters": ("letters", _letter), "findings": ("findings", _finding)}


def _of_state(answer: dict[str, Any]) -> dict[str, Any]:
    kept = dict(answer)
    if isinstance(kept.get("error"), dict):
        kept["error"] = _error(kept["error"])
    if isinstance(kept.get("ready"), dict):
        kept["ready"] = _of_state(kept["ready"])
    if kept.get("reason") in _QUOTING and "detail" in kept:
        kept["detail"] = LEFT_OUT
    if isinstance(kept.get("checks"), list):
        kept["checks"] = [{**check, "detail": LEFT_OUT if check.get("detail") else None} for check in kept["checks"]]
    return kept


def _no_code(data: Any) -> Any:
    """Leave out the source of calls: a line of code may hold data, as in a traceback."""
    if isinstance(data, dict):
        return {name: LEFT_OUT if name == "code" and each else _no_code(each) for name, each in data.items()}
    return [_no_code(each) for each in data] if isinstance(data, list) else data


def _places(traceback: str) -> str:
    """Keep the lines of a traceback that name places; the lines between, and the last ones, may quote data."""
    kept = [line for line in traceback.splitlines() if _FRAME.match(line) or line.startswith(_HEAD)]
    return "\n".join([*kept, LEFT_OUT])


def _no_keys(data: Any) -> Any:
    """Leave out members that are named like keys and values, at any depth."""
    if isinstance(data, dict):
        return {name: LEFT_OUT if _KEY.search(name) else _no_keys(each) for name, each in data.items()}
    return [_no_keys(each) for each in data] if isinstance(data, list) else data


def _lines(lines: Iterable[str], show: Callable[[str], str]) -> Iterator[str]:
    """Return the lines; of an exception, which ends a traceback or is known by its name, only the class."""
    in_traceback = False
    for line in lines:
        body = line.rstrip("\r\n")
        pattern = _EXCEPTION if in_traceback else _BY_NAME
        raised = None if body.startswith(" ") else pattern.fullmatch(body)
        if raised is not None:
            yield f"{raised['exception']}: {LEFT_OUT}{line[len(body) :]}"
        else:
            yield show(line)
        in_traceback = body.startswith(_HEAD[0]) or (in_traceback and body.startswith(" "))


def _line(line: str) -> str:
    body = line.rstrip("\r\n")
    end = line[len(body) :]
    begin = body.find("{")
    try:
        logged = json.loads(body[begin:]) if begin >= 0 else None
    except (ValueError, RecursionError):
        logged = None
    if isinstance(logged, dict):
        return body[:begin] + json.dumps(_logged(logged), ensure_ascii=False) + end
    return _raised(body) + end


def _logged(line: dict[str, Any]) -> dict[str, Any]:
    """Clean a line of the engine's log."""
    about_a_record = "reason" in line and "node" in line
    return {
        name: _quoted(value) if name == "error" and about_a_record else _said(value)
        for name, value in line.items()
    }  # fmt: skip


def _said(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _said(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_said(each) for each in value]
    return "".join(_lines(value.splitlines(keepends=True), _raised)) if isinstance(value, str) else value


def _raised(text: str) -> str:
    """Return a message of the engine without the text of the exception in it."""
    raised = _RAISED.search(text)
    return text if raised is None else text[: raised.start()] + _quoted(text[raised.start() :])


def _quoted(value: Any) -> Any:
    """Keep the class of the exception and the coordinates."""
    text = str(value)
    raised, places = _RAISED.search(text), _COORDINATES.findall(text)
    kept = [f"raised {raised['exception']}:"] if raised else []
    return " ".join([*kept, LEFT_OUT, *places[:1]])
