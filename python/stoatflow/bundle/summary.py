"""The summary of an archive, as Markdown: the application, its condition, and the findings.

Takes answers without secrets; returns text. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from stoatflow.bundle.findings import Finding, calls, place
from stoatflow.bundle.part import Missing, utc

_SHOWN = 5


class Seen(NamedTuple):
    """The input of a summary."""

    answers: dict[str, Any]
    rates: dict[str, float]
    findings: Sequence[Finding]
    doctor: Sequence[str]
    missing: Sequence[Missing]
    with_data: bool
    at: float


def summary(seen: Seen) -> str:
    """Return the summary."""
    name = _application(seen.answers)
    sections = [
        (f"# {name} at {utc(seen.at)}", _facts(seen)),
        ("## What is to be seen", [f"- {each}" for each in seen.findings] or ["Nothing that the numbers tell."]),
        ("## Functions under way", _under_way(seen.answers)),
        ("## Slow functions", _slow(seen.answers)),
        ("## Last errors", _errors(seen.answers)),
        ("## Lag", _lag(seen.answers)),
        ("## The doctor", [f"- {each}" for each in seen.doctor]),
        ("## What could not be taken", [f"- {each.of}: {each.reason}" for each in seen.missing if each.is_failure]),
        ("## What is in here", _contents(seen.with_data)),
    ]
    return "\n\n".join("\n".join([title, "", *lines]) for title, lines in sections if lines) + "\n"


def _application(answers: dict[str, Any]) -> str:
    info = answers.get("info") or answers.get("state") or {}
    return str(info.get("application_id", "an application that doesn't answer"))


def _facts(seen: Seen) -> list[str]:
    info, state = seen.answers.get("info") or {}, seen.answers.get("state") or {}
    ready = seen.answers.get("health-ready") or {}
    history = state.get("history") or [{}]
    since = f" since {utc(history[-1]['at_ms'] / 1000)}" if "at_ms" in history[-1] else ""
    named = (f"{what} {rate:.1f}/s" for what, rate in seen.rates.items())
    restore = _restore(state.get("restore") or ())
    rows = [
        ("state", f"{state.get('state', 'not known')}{since}"),
        ("ready", {True: "yes", False: f"no: {ready.get('reason')}"}.get(ready.get("ready"), "not known")),  # type: ignore[arg-type]
        ("restore", restore if state.get("state") == "RESTORING" else ""),
        ("up for", _duration(info["uptime_ms"] / 1000) if "uptime_ms" in info else ""),
        ("version", " ".join(_known(info.get("version"), info.get("python") and f"on Python {info['python']}"))),
        ("where", ", ".join(_known(info.get("host"), info.get("pid") and f"process {info['pid']}"))),
        ("broker", ", client ".join(_known(info.get("broker"), (info.get("client") or {}).get("name")))),
        ("rates", ", ".join(named)),
        ("lag", _records((seen.answers.get("offsets") or {}).get("lag"))),
        ("history", " -> ".join(str(each.get("state")) for each in history if "state" in each)),
    ]
    return ["| | |", "|---|---|", *(f"| {what} | {_cell(value)} |" for what, value in rows if value)]


def _restore(stores: Iterable[dict[str, Any]]) -> str:
    return ", ".join(f"{each.get('store')} {each.get('done')} of {each.get('total')}" for each in stores)


def _under_way(answers: dict[str, Any]) -> list[str]:
    under_way = calls(answers.get("threads") or {})[:_SHOWN]
    return [f"- {who}: {place(call)} for {int(call.get('for_ms') or 0)} ms" for who, call in under_way]


def _slow(answers: dict[str, Any]) -> list[str]:
    functions = [each for each in (answers.get("topology") or {}).get("functions", ()) if each.get("calls")]
    functions.sort(key=lambda each: -_per_call(each))
    if not functions:
        return []
    rows = [
        f"| {_cell(each.get('function'))} | {_cell(each.get('node'))} | {each['calls']} | {_per_call(each) * 1e6:.0f} "
        f"| {each.get('seconds', 0):.1f} | {each.get('wait_seconds', 0):.1f} |"
        for each in functions[:_SHOWN]
    ]
    return [
        "| function | node | calls | µs a call | s inside | s waiting for Python |",
        "|---|---|---|---|---|---|",
        *rows,
    ]


def _per_call(function: dict[str, Any]) -> float:
    return float((function.get("seconds", 0) + function.get("wait_seconds", 0)) / function["calls"])


def _errors(answers: dict[str, Any]) -> list[str]:
    lines = []
    for each in (answers.get("errors") or {}).get("errors", ())[:_SHOWN]:
        where = f"{each.get('topic')}-{each.get('partition')} offset {each.get('offset')}" if each.get("topic") else ""
        places = ", ".join(_known(each.get("function"), each.get("node") and f"node '{each['node']}'", where))
        what = " ".join(
            _known(each.get("exception") or each.get("kind"), f"x{each.get('count')} ({each.get('outcome')})")
        )
        lines.append(f"- {utc(each.get('last_at_ms', 0) / 1000)} {what}: {_cell(each.get('message'))}; {places}")
    return lines


def _lag(answers: dict[str, Any]) -> list[str]:
    partitions = [each for each in (answers.get("offsets") or {}).get("partitions", ()) if each.get("lag")]
    partitions.sort(key=lambda each: -each["lag"])
    return [
        f"- {row['topic']}-{row['partition']}: {_records(row['lag'])}, {row['committed']} of {row['end']} committed"
        for row in partitions[:_SHOWN]
    ]


def _contents(with_data: bool) -> list[str]:
    data = "Keys, values and texts of exceptions are in here (--with-data)." if with_data else (
        "Keys and values of records are left out, and what exceptions say of them. What the application itself writes "
        "to its log is as it was."
    )  # fmt: skip
    return [f"`MANIFEST.json` lists every file with its source. Secrets are masked as `***`. {data}"]


def _known(*texts: Any) -> list[str]:
    return [str(each) for each in texts if each]


def _records(count: Any) -> str:
    return "" if count is None else "1 record" if count == 1 else f"{count} records"


def _cell(text: Any) -> str:
    return " ".join(str(text).split()).replace("|", "\\|")


def _duration(seconds: float) -> str:
    days, left = divmod(int(seconds), 86_400)
    hours, left = divmod(left, 3600)
    shown = f"{hours:02}:{left // 60:02}:{left % 60:02}"
    return f"{days} d {shown}" if days else shown
