"""Foreign-key joins of two tables.

The left table subscribes to keys of the right one, through one internal topic; answers return through another, with
a fingerprint of the left value that they answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from semantics.nodes import Call, Function, Node, World
from semantics.tables import Table
from semantics.values import Change, Record, json_text, key_bytes, same


@dataclass(frozen=True)
class Subscription:
    """The message from the left side to the right one about a row: `left_value` is the fingerprint."""

    row: Any
    left_value: str
    delete: bool = False
    # Whether to answer if there is nothing at the foreign key (or the subscription ends).
    answer_always: bool = False


@dataclass(frozen=True)
class Answer:
    """The answer of the right side: its value, and the fingerprint of the left value."""

    left_value: str
    right: Any


class ForeignKeyJoin:
    """Connects the five steps; `result` gets plain records, like a topic of a table."""

    def __init__(
        self, world: World, left: Table, right: Table, fk_fn: Function, joiner: Function, *, outer: bool, name: str
    ) -> None:
        self.left, self.right = left, right
        self.fk_fn = fk_fn
        self.joiner = joiner
        self.outer = outer
        for table in (left, right):
            table.need_values()
            table.enable_old(force=True)
        self._subscribers: dict[bytes, dict[bytes, Subscription]] = {}
        subscribing = left.then(Call(self.subscribe))
        answering = world.through_topic(subscribing, f"{name}-subscriptions").then(Call(self.answer))
        answers = Node()
        answering.then(answers)
        right.then(Call(self.right_changed)).then(answers)
        self.result = world.through_topic(answers, f"{name}-answers").then(Call(self.respond))

    def foreign_key(self, key: Any, value: Any) -> Any:
        return None if value is None else self.fk_fn(key, value)

    def subscribe(self, record: Record) -> list[Record]:
        """A left row has changed."""
        change: Change = record.value
        if self.left.versioned and not change.latest:
            return []
        old, new = self.foreign_key(record.key, change.old), self.foreign_key(record.key, change.new)
        moved = old is not None and not same(old, new)
        sent: list[tuple[Any, bool, bool]] = []  # (foreign key, delete, answer always)
        if self.outer:
            if change.old is None and change.new is None:
                return []
            if moved:
                sent.append((old, True, False))
            # Always one answer, even for a deletion and a null foreign key.
            sent.append((new, False, True))
        elif new is None:
            # Deleted, or no foreign key any more: a tombstone, even if there never was a result.
            sent += [(old, True, True)] if old is not None else []
        elif moved:
            # A tombstone if the new key finds nothing, even if the old one found nothing either.
            sent += [(old, True, False), (new, False, True)]
        else:
            sent.append((new, False, False))
        fingerprint = json_text(change.new)
        return [
            record.but(key=fk, value=Subscription(record.key, fingerprint, delete, always))
            for fk, delete, always in sent
        ]

    def answer(self, record: Record) -> list[Record]:
        """A subscription arrived: store it, and answer with the current value.

        The timestamp is the higher of both.
        """
        subscription: Subscription = record.value
        found = None
        if record.key is not None:
            subscribers = self._subscribers.setdefault(key_bytes(record.key), {})
            if subscription.delete:
                subscribers.pop(key_bytes(subscription.row), None)
            else:
                subscribers[key_bytes(subscription.row)] = subscription
            found = self.right.get(record.key)
        right = None if found is None or subscription.delete else found.value
        if right is None and not subscription.answer_always:
            return []
        timestamp = record.timestamp if found is None else max(record.timestamp, found.timestamp)
        answer = Answer(subscription.left_value, right)
        return [record.but(key=subscription.row, value=answer, timestamp=timestamp)]

    def right_changed(self, record: Record) -> list[Record]:
        """A right row has changed: answer all its subscribers, by their key, with this record's timestamp."""
        change: Change = record.value
        if record.key is None or (self.right.versioned and not change.latest):
            return []
        subscribers = self._subscribers.get(key_bytes(record.key), {})
        return [
            record.but(key=subscribers[row].row, value=Answer(subscribers[row].left_value, change.new))
            for row in sorted(subscribers)
        ]

    def respond(self, record: Record) -> list[Record]:
        """An answer arrived: join, unless the left row has changed since."""
        answer: Answer = record.value
        found = self.left.get(record.key)
        left = None if found is None else found.value
        if json_text(left) != answer.left_value:
            return []
        if left is None or (answer.right is None and not self.outer):
            return [record.but(value=None)]
        return [record.but(value=self.joiner(record.key, left, answer.right))]
