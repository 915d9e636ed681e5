"""Which topics take dead letters.

Takes a topology and settings, gives topics. A handler that is a function may name more of them when it is called.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stoatflow.settings import Settings
    from stoatflow.topology import Topology

_HANDLERS = ("deserialization", "processing", "production")


def dead_letter_topics(topology: Topology, settings: Settings) -> list[str]:
    """Give the topics that handlers name, by name."""
    return sorted({*_of_plan(json.loads(topology.plan.physical_json)), *_of_settings(settings)})


def _of_plan(part: object) -> Iterator[str]:
    """Find topics of handlers, wherever they stand in a plan."""
    if isinstance(part, dict):
        if isinstance(part.get("dlq"), str):
            yield part["dlq"]
        for each in part.values():
            yield from _of_plan(each)
    elif isinstance(part, list):
        for each in part:
            yield from _of_plan(each)


def _of_settings(settings: Settings) -> Iterator[str]:
    topic = str(settings.get("errors.dead.letter.queue.topic.name", "off"))
    for kind in _HANDLERS:
        word = str(settings.get(f"{kind}.exception.handler", ""))
        if word.startswith("dlq:"):
            yield word.removeprefix("dlq:").strip()
        elif ("LogAndContinue" in word or word == "log_and_continue") and topic != "off":
            yield topic
