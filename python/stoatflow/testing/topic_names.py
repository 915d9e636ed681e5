"""Which topics a topology reads and writes, and errors for names that it doesn't have.

Takes the physical plan as JSON and the settings. Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from stoatflow.errors import MissingTopicError, TopologyError
from stoatflow.plan.unused import unused

if TYPE_CHECKING:
    from stoatflow.settings import Settings

__all__ = ["TopicNames"]

_SIMILARITY = 0.8
_DEAD_LETTERS = re.compile(r'"dlq":"((?:[^"\\]|\\.)*)"')


class TopicNames:
    """The topics of one topology."""

    def __init__(self, plan_json: str, settings: Settings) -> None:
        """Read the plan."""
        plan: dict[str, Any] = json.loads(plan_json)
        self._plan_json, self._unused = plan_json, unused(plan)
        self._read = {topic for source in plan["sources"] for topic in source["topics"]}
        self._written = _written(plan, plan_json, settings)

    def check_output(self, topic: str) -> None:
        """Raise `TopologyError` if the name can't be that of an output."""
        if self._written is None or topic in self._written:
            return
        if not self._written and self._unused and json.dumps(topic) not in self._plan_json:
            op, _, line = self._unused[0]
            raise TopologyError(
                f"the topology writes to no topic: nothing reads the results of {op} ({line})",
                next_step=f'end it with .to("{topic}")',
            )
        if near := _nearest(topic, self._written):
            raise TopologyError(
                f"the topology doesn't write to the topic '{topic}'", next_step=f"read '{near}', which it writes to"
            )

    def missing_input(self, topic: str, error: MissingTopicError) -> MissingTopicError:
        """Return the error for a topic that doesn't exist: `error` itself, if it is about another one."""
        if topic in self._read or f"'{topic}'" not in error.message:
            return error
        listed = ", ".join(f"'{name}'" for name in sorted(self._read))
        near = _nearest(topic, self._read)
        return MissingTopicError(
            f"the topology doesn't read the topic '{topic}'",
            next_step=f"write to '{near}', which it reads" if near else f"write to one that it reads: {listed}",
        )


def _nearest(topic: str, among: Iterable[str]) -> str | None:
    return next(iter(get_close_matches(topic, among, 1, _SIMILARITY)), None)


def _written(plan: dict[str, Any], text: str, settings: Settings) -> set[str] | None:
    """Return the topics that a topology can write to; `None` if a function may choose any other one."""
    if any(sink.get("topic") is None for sink in plan["sinks"]) or '"call"' in text:
        return None
    topics = {sink["topic"] for sink in plan["sinks"]}
    topics |= {json.loads(f'"{name}"') for name in _DEAD_LETTERS.findall(text)}
    values = [str(settings.get(name)) for name in settings]
    topics |= {value.partition(":")[2].strip() for value in values if value.startswith("dlq:")}
    topics |= {str(settings.get(name)) for name in settings if name.endswith("letter.queue.topic.name")}
    return topics
