"""Compares the engine's counters of dropped records with the drops of the batch twin.

Takes `app.metrics()`, or the content of the admin port's `/metrics` (its address, or a file with it). Returns a
`DropAudit` for each reason. Sends no other request.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from stoatflow.errors import ConfigError
from stoatflow.spark.audit.findings import DropAudit

Counters = Mapping[str, Any] | str | Path

_LINE = re.compile(r'^stoatflow_dropped_records_total\{[^}]*\breason="([^"]+)"[^}]*\} ([0-9.e+]+)$', re.MULTILINE)
_WAIT_S = 30


def read(counters: Counters) -> dict[str, int]:
    """Return the number of dropped records by reason; raise `ConfigError` if there are no such counters."""
    metrics = counters if isinstance(counters, Mapping) else _counters_of(str(counters))
    if isinstance(metrics, Mapping):
        if "dropped" not in metrics:
            raise ConfigError("these counters have no 'dropped'", next_step="give app.metrics(), or that as JSON")
        found: Counter[str] = Counter()
        for drop in metrics["dropped"]:
            found[drop["reason"]] += drop["count"]
        return dict(found)
    if "stoatflow_" not in metrics:
        raise ConfigError(
            f"{counters} has no metrics of StoatFlow",
            next_step="give the URL of /metrics at the admin port, or a file with a copy",
        )
    found = Counter()
    for reason, count in _LINE.findall(metrics):
        found[reason] += int(float(count))
    return dict(found)


def _counters_of(where: str) -> str | Mapping[str, Any]:
    try:
        if where.startswith(("http://", "https://")):
            with urlopen(where, timeout=_WAIT_S) as answer:  # noqa: S310  # the user's own address
                text = answer.read().decode()
        else:
            text = Path(where).read_text("utf-8")
    except (OSError, URLError) as error:
        raise ConfigError(f"{where} can't be read: {error}", next_step="check the address, or the path") from error
    if text.lstrip().startswith("{"):
        parsed: Mapping[str, Any] = json.loads(text)
        return parsed
    return str(text)


def compare(twin: Mapping[tuple[str, str], int], engine: Mapping[str, int]) -> tuple[DropAudit, ...]:
    """Return, for each reason, what the twin has dropped, and what the engine has counted."""
    reasons = sorted({reason for _, reason in twin} | set(engine))
    return tuple(
        DropAudit(
            reason,
            sum(count for (_, why), count in twin.items() if why == reason),
            engine.get(reason, 0),
            {node: count for (node, why), count in sorted(twin.items()) if why == reason},
        )
        for reason in reasons
    )
