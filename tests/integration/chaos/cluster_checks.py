"""What the topics of the word counts must hold after all faults of the cluster.

Takes topics and what was written; returns what is wrong, and figures. Reads `read_committed`, with another client
than the engine's.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from counting import by_hand, check_every_update, check_nothing_lost, table, updates
from topics import Row

if TYPE_CHECKING:
    from chaos.supervised import Counted

EXACTLY = "exactly_once_v2"
OPEN_S = 90.0
"""How long the markers of a transaction may take after its application was stopped cleanly."""


class Topics(Protocol):
    """What the checks need of a broker."""

    def read(self, topic: str) -> list[Row]:
        """Everything committed, in the order of each partition."""
        ...

    def ends(self, topic: str, isolation: str = "read_uncommitted") -> dict[int, int]:
        """The end offset of each partition."""
        ...

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """The offsets that a group has committed."""
        ...


class CheckedApplication:
    """The result for one application: what is wrong, and how much there was."""

    def __init__(self, kafka: Topics, application: Counted, written: Counter[str], *, patience: float = OPEN_S) -> None:
        self._kafka, self._of = kafka, application
        self.wrong: list[str] = []
        self.surplus = 0
        given = [(row.value or b"").decode() for row in kafka.read(application.source)]
        self._check("input", lambda: check_written(Counter(given), written))
        # Duplicates written by the producer or the cluster: they are part of the input, and count.
        self.lines, self.twice = len(given), (Counter(given) - written).total()
        rows, kept = kafka.read(application.sink), kafka.read(application.changelog)
        self.updates = len(rows)
        if application.guarantee == EXACTLY:
            self._check("output", lambda: check_every_update(rows, given))
            self._check("changelog", lambda: check_table(kept, by_hand(given)))
        else:
            self._check("output", lambda: check_nothing_lost(rows, given))
            self._check("output", lambda: check_repeats_only(rows))
            self._check("changelog", lambda: check_table(kept, table(rows)))
            self.surplus = sum(table(rows).values()) - sum(by_hand(given).values())
        self._check("offsets", self._check_offsets)
        for topic in application.topics[1:]:
            self._check("transactions", lambda topic=topic: self._check_ended(topic, patience))  # type: ignore[misc]

    def _check(self, what: str, check: Callable[[], None]) -> None:
        try:
            check()
        except AssertionError as found:
            self.wrong.append(f"{self._of.name}, {what}: {found}")

    def _check_offsets(self) -> None:
        committed, ends = self._kafka.committed(self._of.name, self._of.source), self._kafka.ends(self._of.source)
        assert committed == ends, f"committed {committed}, and it ends at {ends}"

    def _check_ended(self, topic: str, patience: float) -> None:
        """Checks that no transaction is open: a hanging one would hide the records behind it from all readers."""
        began = time.monotonic()
        while (seen := self._kafka.ends(topic, "read_committed")) != (ends := self._kafka.ends(topic)):
            assert time.monotonic() - began < patience, f"one is open in {topic}: readers see {seen} of {ends}"
            time.sleep(0.2)


def check_written(found: Counter[str], written: Counter[str]) -> None:
    """Checks that everything written is in the input: the cluster has lost nothing."""
    lost = written - found
    assert not lost, f"{lost.total()} lines are lost: {list(lost.elements())[:3]}"


def check_table(rows: Iterable[Row], expected: dict[str, int]) -> None:
    """Checks that the last counts are the expected table."""
    found = table(rows)
    wrong = {
        w: (found.get(w), expected.get(w)) for w in found.keys() | expected.keys() if found.get(w) != expected.get(w)
    }
    assert not wrong, f"{len(wrong)} words are wrong (found, expected): {dict(list(wrong.items())[:5])}"


def check_repeats_only(rows: Iterable[Row]) -> None:
    """At least once: a word's count rises by one each time, or goes back to an earlier count and rises from there."""
    wrong = []
    for word, counts in updates(rows).items():
        most = 0
        for count in counts:
            if count > most + 1:
                wrong.append(f"{word!r}: {count} after {most}")
            most = max(most, count)
    assert not wrong, f"{len(wrong)} updates were left out: {wrong[:5]}"


def check_results(kafka: Topics, applications: Sequence[Counted], written: Counter[str]) -> tuple[list[str], str]:
    """What is wrong with any application, and figures."""
    wrong, text = [], ""
    for application in applications:
        judged = CheckedApplication(kafka, application, written)
        wrong += judged.wrong
        more = "" if application.guarantee == EXACTLY else f", counted {judged.surplus} too many"
        more += f", {judged.twice} lines came twice from who wrote them" if judged.twice else ""
        text += f"{application.name}: {judged.lines:,} lines, {judged.updates:,} updates{more}\n"
    return wrong, text
