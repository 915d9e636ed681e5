"""Formats the result of a reconciliation as one self-contained HTML page.

Takes an `Audit`, returns text. Escapes every value.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from stoatflow.spark.audit import compare
from stoatflow.spark.audit.findings import CHECKED, MEANINGS, Audit, TopicAudit

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #222 }
h1 { font-size: 1.5rem } h2 { font-size: 1.2rem; margin-top: 2rem }
.verdict { padding: .75rem 1rem; border-left: .4rem solid; background: #f6f6f6; font-weight: 600 }
.good { border-color: #2a7d3f } .bad { border-color: #b3261e }
table { border-collapse: collapse; width: 100%; margin: .5rem 0 1rem } caption { text-align: left; color: #555 }
th, td { border-bottom: 1px solid #ddd; padding: .3rem .6rem; text-align: left; vertical-align: top }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums } code { word-break: break-all }
"""


def render(audit: Audit, title: str = "Reconciliation") -> str:
    """Return the page."""
    body = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="verdict {"good" if audit.ok else "bad"}">{escape(audit.verdict)}</p>',
        _table("Topics that were read", ("topic", "records"), audit.inputs.items()),
        f"<p>{audit.keyless:,} input records have no key.</p>" if audit.keyless else "",
        *(_topic(audit, topic) for topic in audit.topics),
        _drops(audit),
        f"<p>Took {audit.seconds:.1f} s. Offsets are those of the output topics, read committed.</p>",
    ]
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(body)}</body></html>\n'


def _topic(audit: Audit, topic: TopicAudit) -> str:
    checked = CHECKED[topic.updates]
    parts = [
        f"<h2>{escape(topic.topic)}</h2>",
        f"<p>{topic.expected:,} records expected, {topic.found:,} found, {topic.keys:,} keys; checked: {checked}.</p>",
    ]
    if topic.ok:
        return "".join([*parts, "<p>No fault.</p>"])
    for fault in compare.FAULTS:
        count = topic.faults.get(fault, 0)
        if count:
            rows = [
                (each.key, each.expected or "", each.found or "", _text(each.partition), _text(each.offset))
                for each in audit.examples
                if (each.topic, each.fault) == (topic.topic, fault)
            ]
            caption = f"{count:,} {fault}: {MEANINGS[fault]}. Examples:"
            parts.append(_table(caption, ("key", "expected", "found", "partition", "offset"), rows))
    return "".join(parts)


def _drops(audit: Audit) -> str:
    rows = [(drop.reason, drop.expected, drop.counted) for drop in audit.drops or ()]
    return _table("Records that were dropped", ("reason", "expected", "counted"), rows) if rows else ""


def _text(number: int | None) -> str:
    return "" if number is None else str(number)


def _table(caption: str, heads: Iterable[str], rows: Iterable[tuple[object, ...]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join(f"<tr>{''.join(_cell(each) for each in row)}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><tr>{head}</tr>{body}</table>"


def _cell(content: object) -> str:
    if isinstance(content, int):
        return f'<td class="number">{content:,}</td>'
    return f"<td><code>{escape(str(content))}</code></td>"
