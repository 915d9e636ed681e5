"""Formats letters, causes and plans for a terminal, or as plain data.

Takes letters, returns text. Data of records is escaped so that it can't control the terminal: text stays text, other
bytes become hexadecimal. Pure.
"""

from __future__ import annotations

import base64
import json
import re
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from stoatflow.dlq.replay import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from stoatflow.dlq.dead_letter import Cause, DeadLetter
    from stoatflow.dlq.replay import Plan
    from stoatflow.dlq.selection import Sum
    from stoatflow.dlq.topic import DeadLetterTopic

_HEX_ROWS = 64
_ROW = 16
_PARTS = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')


def time_of(ms: int) -> str:
    """Format a time of a record, to the second."""
    try:
        return datetime.fromtimestamp(ms // 1000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return str(ms)


def table(rows: Sequence[Sequence[str]], right: Iterable[int] = ()) -> list[str]:
    """Format rows with aligned columns."""
    numbers = set(right)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.rjust(width) if column in numbers else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def listed(topic: DeadLetterTopic, sums: Sequence[Sum]) -> str:
    """Format what is in a topic, one line per cause."""
    letters = sum(one.count for one in sums)
    lines = [f"{_many(letters, 'dead letter')} in '{topic.name}' at {topic.address}, {_many(len(sums), 'cause')}"]
    if topic.strangers:
        lines.append(f"{_many(topic.strangers, 'record')} in it without headers of a dead letter: not counted")
    if sums:
        rows = [("cause", "count", "replayed", "first", "last", "source", "node", "exception")]
        rows += [
            (
                one.cause.id,
                f"{one.count:,}",
                "?" if one.replayed is None else f"{one.replayed:,}",
                time_of(one.first),
                time_of(one.last),
                line(one.cause.source),
                line(one.cause.node),
                line(one.cause.exception),
            )
            for one in sums
        ]
        lines += ["", *table(rows, right=(1, 2))]
    again = sum(one.again for one in sums)
    if again:
        lines += ["", f"{_many(again, 'of them is', 'of them are')} of records that had been replayed and failed again"]
    return "\n".join(lines)


def listed_json(topic: DeadLetterTopic, sums: Sequence[Sum]) -> dict[str, Any]:
    """Return the same as plain data."""
    return {
        "topic": topic.name,
        "address": topic.address,
        "letters": sum(one.count for one in sums),
        "other_records": topic.strangers,
        "causes": [
            {
                **_cause(one.cause),
                "count": one.count,
                "replayed": one.replayed,
                "failed_again": one.again,
                "first_ms": one.first,
                "last_ms": one.last,
            }
            for one in sums
        ],
    }


def shown(letter: DeadLetter, *, replayed: bool | None) -> str:
    """Format one letter."""
    cause, source, error = letter.cause, letter.source, letter.error
    rows = [
        ("letter", f"{letter.partition}:{letter.offset}, {time_of(letter.timestamp)}"),
        ("cause", f"{cause.id}: {line(cause.exception)} at {line(cause.node)} ({line(cause.kind)})"),
        ("message", line(error.get("message"))),
        ("source", "none" if source is None else f"{line(source.topic)}, {source.partition}:{source.offset}"),
        ("replayed", "not known" if replayed is None else "yes" if replayed else "no"),
    ]
    if letter.replays:
        rows.append(("failed again", f"its record had been replayed {_many(letter.replays, 'time')}"))
    rows += [
        (name, line(error[name])) for name in ("application", "function", "attempts", "watermark") if name in error
    ]
    rows += [("header", f"{line(name)}: {_short(value)}") for name, value in letter.headers]
    lines = table(rows)
    if letter.is_gone:
        lines += ["", "The record had left its topic before the letter was written: no key, no value."]
    else:
        lines += ["", "key", *_body(letter.key), "", "value", *_body(letter.value)]
    if "traceback" in error:
        lines += ["", "traceback", *(f"  {line(each)}" for each in error["traceback"].rstrip().splitlines())]
    return "\n".join(lines)


def shown_json(letter: DeadLetter, *, replayed: bool | None) -> dict[str, Any]:
    """Return the same as plain data."""
    source = letter.source
    return {
        "partition": letter.partition,
        "offset": letter.offset,
        "timestamp_ms": letter.timestamp,
        **_cause(letter.cause),
        "message": letter.error.get("message"),
        "source": None if source is None else source._asdict(),
        "replayed": replayed,
        "gone": letter.is_gone,
        "failed_again": letter.replays,
        "key": _plain(letter.key),
        "value": _plain(letter.value),
        "headers": [{"name": name, "value": _plain(value)} for name, value in letter.headers],
        "error": dict(letter.error),
    }


def planned(topic: DeadLetterTopic, plan: Plan) -> str:
    """Format what a replay would do."""
    lines = [f"replay of '{topic.name}' at {topic.address}"]
    for verdict in Verdict:
        total = plan.total(verdict)
        if total == 0 and verdict is not Verdict.SENT:
            continue
        lines += ["", f"{verdict.value}: {total:,}"]
        rows = [
            (f"  {counted.cause.id}", f"{count:,}", *_described(counted.cause, verdict))
            for counted, count in sorted(plan.counts.items(), key=lambda each: (-each[1], each[0].cause.id))
            if counted.verdict is verdict
        ]
        if rows:
            lines += table(rows, right=(1,))
    return "\n".join(lines)


def planned_json(topic: DeadLetterTopic, plan: Plan) -> dict[str, Any]:
    """Return the same as plain data."""
    return {
        "topic": topic.name,
        "address": topic.address,
        **{verdict.name.lower(): plan.total(verdict) for verdict in Verdict},
        "causes": [
            {**_cause(counted.cause), "verdict": counted.verdict.name.lower(), "count": count}
            for counted, count in plan.counts.items()
        ],
    }


def line(text: str | None) -> str:
    """Return a text on one line, without control characters; a dash for `None`."""
    if text is None:
        return "-"
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def _described(cause: Cause, verdict: Verdict) -> tuple[str, str]:
    way = f"-> {line(cause.source)}" if verdict is Verdict.SENT else line(cause.source)
    return way, f"{line(cause.exception)} at {line(cause.node)}"


def _cause(cause: Cause) -> dict[str, str | None]:
    fields = cause._asdict()
    fields["source_topic"] = fields.pop("source")
    return {"cause": cause.id, **fields}


def _many(count: int, one: str, more: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def _text_of(content: bytes) -> str | None:
    """Return bytes as text, if they are text."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return text if all(sign.isprintable() or sign in "\n\r\t" for sign in text) else None


def _body(content: bytes | None) -> list[str]:
    """Format a key or a value: JSON on several lines, text as it is, other bytes as a hex dump."""
    if content is None:
        return ["  null"]
    text = _text_of(content)
    if text is None:
        return _hex(content)
    lines = _indented(text) or text.splitlines()
    return [f"  {line(each)}" for each in lines] or ["  (empty)"]


def _indented(text: str) -> list[str]:
    """Return a JSON object or list on several lines, each part as it is written; nothing for other text."""
    if text.lstrip()[:1] not in {"{", "["}:
        return []
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return []
    lines, depth = [""], 0
    for part in _PARTS.findall(text):
        if part in {"}", "]"}:
            depth -= 1
            # Empty brackets stay on one line.
            if lines[-1].strip():
                lines.append("  " * depth)
            else:
                lines.pop()
        lines[-1] += part + (" " if part == ":" else "")
        if part in {"{", "["}:
            depth += 1
        if part in {"{", "[", ","}:
            lines.append("  " * depth)
    return lines


def _hex(content: bytes) -> list[str]:
    lines = []
    for start in range(0, min(len(content), _HEX_ROWS * _ROW), _ROW):
        row = content[start : start + _ROW]
        signs = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"  {start:08x}  {row.hex(' ').ljust(3 * _ROW - 1)}  {signs}")
    left = len(content) - _HEX_ROWS * _ROW
    if left > 0:
        lines.append(f"  and {left:,} bytes more: --json has them all")
    return lines


def _short(content: bytes | None) -> str:
    if content is None:
        return "null"
    text = _text_of(content)
    return f"0x{content.hex()}" if text is None else line(text)


def _plain(content: bytes | None) -> dict[str, str] | None:
    """Return bytes as data: text if they are UTF-8, otherwise base64."""
    if content is None:
        return None
    try:
        return {"text": content.decode("utf-8")}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()}
