"""Finds the dead-letter topics of a topology.

Takes a topology and settings, returns topics. A handler that is a function may name more topics when it is called.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from stoatflow.plan.named_values import named_values

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stoatflow.settings import Settings
    from stoatflow.topology import Topology

_HANDLERS = ("deserialization", "processing", "production")


def dead_letter_topics(topology: Topology, settings: Settings) -> list[str]:
    """Return the topics that handlers name, sorted."""
    of_plan = named_values(json.loads(topology.plan.physical_json), "dlq")
    return sorted({*(topic for topic in of_plan if isinstance(topic, str)), *_of_settings(settings)})


def _of_settings(settings: Settings) -> Iterator[str]:
    topic = str(settings.get("errors.dead.letter.queue.topic.name", "off"))
    for kind in _HANDLERS:
        word = str(settings.get(f"{kind}.exception.handler", ""))
        if word.startswith("dlq:"):
            yield word.removeprefix("dlq:").strip()
        elif ("LogAndContinue" in word or word == "log_and_continue") and topic != "off":
            yield topic
