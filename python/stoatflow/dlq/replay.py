"""Replays dead letters to their source topics, each one exactly once, even if the process is killed.

Takes a topic of dead letters and a selection. `look` returns what would be done. `make` does it in transactions of some
hundred letters; each contains the records and their mark. A replay that was killed leaves an open transaction, which
the broker or the next replay aborts; letters of committed transactions are marked, and skipped next time.

```text
open the writer ──────────► read the marks ──► read letters ──► begin, records and mark, commit ─┐
fences another replay,      of this and of     up to the ends         ▲                          │
aborts its transaction      earlier replays    seen by `look`         └──────────────────────────┘
```
"""

from __future__ import annotations

import contextlib
import time
import uuid
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from stoatflow.dlq import marks
from stoatflow.dlq.dead_letter import REPLAY
from stoatflow.dlq.selection import Seen
from stoatflow.errors import (
    AuthorizationError,
    BrokerUnavailableError,
    ConfigError,
    FencedError,
    MissingTopicError,
    StoatFlowError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from stoatflow._runtime import bridge
    from stoatflow.dlq.dead_letter import Cause, DeadLetter, Header, Place
    from stoatflow.dlq.selection import Selection
    from stoatflow.dlq.topic import DeadLetterTopic

_LETTERS = 500
_BYTES = 1_000_000
_ATTEMPTS = 3

Record = tuple[str, int | None, bytes | None, bytes | None, int, list["Header"]]


class Verdict(Enum):
    """What happens to a selected letter, as printed."""

    SENT = "to be sent back"
    REPLAYED = "left out, replayed before (--again takes them too)"
    GONE = "left out, without their record: it had left its topic before the letter was written"
    NOWHERE = "left out, from no record: of a timer or a punctuation, or their topic is not named"


class Counted(NamedTuple):
    """Letters with the same cause and verdict."""

    cause: Cause
    verdict: Verdict


@dataclass
class Plan:
    """What a replay would do."""

    counts: dict[Counted, int] = field(default_factory=dict)
    targets: dict[str, set[int]] = field(default_factory=dict)
    """Topics that receive records, with their partitions."""

    def total(self, verdict: Verdict) -> int:
        """Count the letters with a verdict."""
        return sum(count for counted, count in self.counts.items() if counted.verdict is verdict)


class Replay:
    """One replay of one topic."""

    def __init__(
        self, client: bridge.TopicsClient, topic: DeadLetterTopic, selection: Selection, *, again: bool = False
    ) -> None:
        """With `again`, letters that were replayed before are sent again."""
        self._client, self._topic, self._selection, self._again = client, topic, selection, again
        self._id = f"stoatflow-dlq-{topic.name}"
        self.done = 0
        """Number of replayed letters; a lower bound if `make` raised an error."""

    def look(self) -> Plan:
        """Return what the replay would do, and change nothing."""
        plan, seen = Plan(), Seen()
        for letter, verdict in self._with_verdicts(self._replayed(), seen):
            counted = Counted(letter.cause, verdict)
            plan.counts[counted] = plan.counts.get(counted, 0) + 1
            if verdict is Verdict.SENT and letter.source is not None:
                plan.targets.setdefault(letter.source.topic, set()).add(letter.source.partition)
        seen.check(self._selection, self._topic.name)
        return plan

    def check(self, plan: Plan) -> None:
        """Raise if a topic or a partition to which letters would be sent doesn't exist."""
        for topic, partitions in sorted(plan.targets.items()):
            found = self._client.topic(topic)
            if found is None:
                raise MissingTopicError(
                    f"the topic '{topic}', where dead letters came from, does not exist at {self._client.address}; "
                    "nothing was replayed",
                    next_step=f"create it with {max(partitions) + 1} or more partitions, or choose letters of others "
                    "with --source",
                )
            if max(partitions) >= found[0]:
                raise MissingTopicError(
                    f"dead letters came from partition {max(partitions)} of '{topic}', which has only {found[0]} "
                    "partition(s) now; nothing was replayed",
                    next_step="add partitions, or choose letters of other topics with --source",
                )

    def make(self, tell: Callable[[int], object]) -> int:
        """Replay the letters; `tell` gets their number after each commit. Returns that number."""
        self._make_marks_topic()
        try:
            writer = self._client.writer(self._id)
            # Read only now: another replay's marks are complete once its last transaction has ended.
            replayed = self._replayed()
            run = uuid.uuid4().hex
            for number, batch in enumerate(self._batches(replayed)):
                self._commit(writer, batch, f"{run}/{number}")
                self.done += len(batch)
                tell(self.done)
        except FencedError as error:
            raise FencedError(
                f"another replay of '{self._topic.name}' has begun: this one stopped after {self.done:,} dead letters",
                next_step="wait until it ends, then replay the remaining dead letters",
            ) from error
        except AuthorizationError as error:
            raise self._unauthorized(error) from error
        return self.done

    def _replayed(self) -> marks.Replayed:
        return marks.Replayed() if self._again else self._topic.replayed()

    def _unauthorized(self, error: AuthorizationError) -> AuthorizationError:
        if "TransactionalId" not in error.message:
            return error
        return AuthorizationError(
            error.message,
            next_step=f"grant this user Write on the transactional ids that begin with {self._id}",
            coordinates=error.coordinates,
        )

    def _with_verdicts(self, replayed: marks.Replayed, seen: Seen) -> Iterator[tuple[DeadLetter, Verdict]]:
        for letter in self._topic.letters():
            seen.note(letter, self._selection)
            if self._selection.takes(letter):
                yield letter, self._verdict(letter, replayed)

    def _verdict(self, letter: DeadLetter, replayed: marks.Replayed) -> Verdict:
        if letter.source is None:
            return Verdict.NOWHERE
        if letter.is_gone:
            return Verdict.GONE
        if (letter.partition, letter.offset) in replayed:
            return Verdict.REPLAYED
        return Verdict.SENT

    def _batches(self, replayed: marks.Replayed) -> Iterator[list[tuple[DeadLetter, Place]]]:
        batch: list[tuple[DeadLetter, Place]] = []
        weight = 0
        for letter, verdict in self._with_verdicts(replayed, Seen()):
            if verdict is Verdict.SENT and letter.source is not None:
                batch.append((letter, letter.source))
                weight += len(letter.key or b"") + len(letter.value or b"")
                if len(batch) >= _LETTERS or weight >= _BYTES:
                    yield batch
                    batch, weight = [], 0
        if batch:
            yield batch

    def _commit(self, writer: bridge.TransactionalWriter, batch: list[tuple[DeadLetter, Place]], key: str) -> None:
        """Write a batch and its mark in a transaction; retry one that the broker aborts."""
        places = [(letter.partition, letter.offset) for letter, _ in batch]
        mark = marks.Mark(self._topic.id, marks.ranges_of(places))
        now = int(time.time() * 1000)
        records = [self._record(letter, source) for letter, source in batch]
        records.append((marks.topic_of(self._topic.name), 0, key.encode(), mark.encode(), now, []))
        for _ in range(_ATTEMPTS):
            writer.begin()
            try:
                writer.send(records)
                writer.flush()
            except BaseException:
                # The first error is the one to raise. If the abort fails too, the next replay aborts the
                # transaction.
                with contextlib.suppress(StoatFlowError):
                    writer.abort()
                raise
            if writer.commit():
                return
        raise BrokerUnavailableError(
            f"the broker aborted a transaction {_ATTEMPTS} times; {self.done:,} letters were replayed before",
            next_step="look at the broker's log, then replay again: it goes on with those that are left",
        )

    def _record(self, letter: DeadLetter, source: Place) -> Record:
        """Build the record to send: the input record's bytes, and headers that name the letter."""
        headers = [header for header in letter.headers if not header[0].startswith(REPLAY)]
        origin = {
            "topic": self._topic.name,
            "partition": letter.partition,
            "offset": letter.offset,
            "attempt": letter.replays + 1,
        }
        headers += [(f"{REPLAY}{name}", str(value).encode()) for name, value in origin.items()]
        return source.topic, source.partition, letter.key, letter.value, letter.timestamp, headers

    def _make_marks_topic(self) -> None:
        """Create the marks topic if it is missing; raise if it isn't compacted."""
        name = marks.topic_of(self._topic.name)
        how = f"create it with one partition and cleanup.policy=compact, or grant this user Create on '{name}'"
        if self._client.topic(name) is None:
            try:
                self._client.create_topic(name, 1, [("cleanup.policy", "compact")])
            except AuthorizationError as error:
                raise AuthorizationError(
                    f"what is replayed is noted in the topic '{name}', which does not exist and can't be made: "
                    f"{error.message}",
                    next_step=how,
                ) from error
        if not self._client.keeps_latest(name):
            raise ConfigError(
                f"the topic '{name}', in which it is noted what was replayed, is not compacted: its marks expire, and "
                "letters would be replayed twice",
                next_step=f"set cleanup.policy=compact on '{name}'",
            )
