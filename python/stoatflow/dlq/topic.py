"""A dead-letter topic on a broker, and its marks.

Takes settings and a name; returns letters, partition by partition, up to the end offsets at the time of opening. Reads
committed records only. Its errors say what to do if the topic is missing, or has no dead letters. Never writes.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from stoatflow._runtime import bridge
from stoatflow.dlq import marks
from stoatflow.dlq.dead_letter import OURS, STREAMS, read
from stoatflow.errors import ConfigError, IncompatibleStateError, MissingTopicError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stoatflow.dlq.dead_letter import DeadLetter, Header
    from stoatflow.settings import Settings

_PAGE = 1000
_EMBEDDED = "embedded:"
_NAME = "name a topic of DLQ(...) or of errors.dead.letter.queue.topic.name"
_BY_HAND = (
    "look in the topics that the letters came from for the headers __stoatflow.replay.*, and send the letters that "
    "are missing there with --again and --offset"
)


def connect(settings: Settings) -> bridge.TopicsClient:
    """Connect to the broker. Unlike an application, this creates no folder for an embedded broker."""
    servers = str(settings.get("bootstrap.servers", ""))
    if servers.startswith(_EMBEDDED) and not os.path.isdir(servers.removeprefix(_EMBEDDED)):
        raise ConfigError(
            f"there is no embedded broker at '{servers.removeprefix(_EMBEDDED)}'",
            next_step="name the folder of bootstrap.servers of the application, from where you are",
        )
    return bridge.TopicsClient(settings.pairs())


class DeadLetterTopic:
    """A dead-letter topic; see the module."""

    def __init__(self, client: bridge.TopicsClient, name: str) -> None:
        """Look the topic up; raise `MissingTopicError`."""
        found = client.topic(name)
        if found is None:
            raise MissingTopicError(
                f"the topic '{name}' does not exist at {client.address}",
                next_step=f"{_NAME}, and check bootstrap.servers",
            )
        self.name, self._client = name, client
        self._partitions, self.id = found
        self._ranges = client.ranges(name, self._partitions)
        self.strangers = 0
        """Number of records in the last read that are no dead letters."""

    @property
    def address(self) -> str:
        """Address of the broker."""
        return self._client.address

    def letters(self) -> Iterator[DeadLetter]:
        """Read all letters; raise `ConfigError` if there are records, but no letter."""
        self.strangers = known = 0
        for partition, offset, timestamp, key, value, headers in self._records():
            letter = read(partition, offset, timestamp, key, value, headers)
            if letter is None:
                self.strangers += 1
            else:
                known += 1
                yield letter
        if self.strangers and not known:
            raise ConfigError(
                f"'{self.name}' is no topic of dead letters: none of its {self.strangers:,} records has headers "
                f"such as {OURS}topic or {STREAMS}topic",
                next_step=_NAME,
            )

    def _records(self) -> Iterator[tuple[int, int, int, bytes | None, bytes | None, list[Header]]]:
        for partition, (begin, end) in enumerate(self._ranges):
            for record in _read(self._client, self.name, partition, begin, end):
                yield (partition, *record)

    def replayed(self) -> marks.Replayed:
        """Read which letters have been replayed so far."""
        name = marks.topic_of(self.name)
        found = self._client.topic(name)
        if found is None:
            return marks.Replayed()
        all_marks = []
        for partition, (begin, end) in enumerate(self._client.ranges(name, found[0])):
            if begin > 0:
                raise IncompatibleStateError(
                    f"marks of what was replayed are gone: '{name}' begins with offset {begin}, so it was not only "
                    "compacted, and which letters were replayed is not known",
                    next_step=f"set cleanup.policy=compact on '{name}'; {_BY_HAND}",
                )
            for offset, _, _, value, _ in _read(self._client, name, partition, begin, end):
                all_marks.append(marks.Mark.decode(value, f"offset {offset} of partition {partition} of '{name}'"))
        replayed = marks.Replayed(all_marks, self.id)
        beyond = replayed.beyond([end for _, end in self._ranges])
        if beyond is not None:
            raise IncompatibleStateError(
                f"'{name}' says that the letter {beyond[0]}:{beyond[1]} was replayed, and '{self.name}' ends before "
                "it: it was made anew, or has lost records, and which letters were replayed is not known",
                next_step=f"delete '{name}'; {_BY_HAND}",
            )
        return replayed


def _read(
    client: bridge.TopicsClient, topic: str, partition: int, begin: int, end: int
) -> Iterator[tuple[int, int, bytes | None, bytes | None, list[Header]]]:
    if begin >= end:
        return
    reader = client.read(topic, partition, begin, end)
    while page := reader.next(_PAGE):
        yield from page
