"""Runs both topologies on the same inputs, finds the first difference, and the fewest inputs that show it.

Takes the options of the command line; returns a `Proof`. Both sides run with one partition and one lane, a commit per
input and without record caches, which would make the number of updates depend on commits. An input with which both
sides fail is left out and reported, so that the inputs behind it are compared too.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import zip_longest

from stoatflow.errors import ConfigError
from stoatflow.prove import hints
from stoatflow.prove.compare import Difference, Rules, compare, failed_together
from stoatflow.prove.engine_side import EngineSide
from stoatflow.prove.inputs import ClockStep, Input, InputRecord
from stoatflow.prove.jvm import KafkaStreams, in_memory
from stoatflow.prove.runs import Described, Failure, Run
from stoatflow.prove.shorten import Shortened, shorten
from stoatflow.settings import Settings

DEFAULTS: dict[str, object] = {"application.id": "stoatflow-prove", "bootstrap.servers": "localhost:9092"}
_OF_OURS = {"default.dsl.store": "in_memory", "ensure.explicit.naming": False}
_INTERVALS = ("outer.join.spurious.results.fix", "windowed.aggregation")
_OF_BOTH: dict[str, object] = {"statestore.cache.max.bytes": 0}
_MOST_FAILURES = 100


@dataclass(frozen=True)
class InputResults:
    """An input with which both sides fail."""

    given: Input
    java: Failure
    python: Failure


@dataclass
class Proof:
    """The result of a comparison."""

    java: Described
    python: Described
    inputs: list[Input]
    """Inputs that were compared, without those of `failed`."""
    compared: dict[str, int]
    """Number of equal records, by topic."""
    stores: dict[str, int]
    """Number of equal rows, by store."""
    shortened: Shortened | None = None
    failed: list[InputResults] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    slips: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)

    @property
    def difference(self) -> Difference | None:
        """The first difference; `at` counts in `shortened.inputs`."""
        return None if self.shortened is None else self.shortened.difference


def engine_settings(given: Settings) -> Settings:
    """Return the settings for the Python topology's runs."""
    forced = {f"emit.interval.ms.kstreams.{name}": 0 for name in _INTERVALS}
    return given.with_defaults({**DEFAULTS, **_OF_OURS}).with_values({**_OF_BOTH, **forced, "lanes.count": 1})


def java_config(given: Settings) -> dict[str, str]:
    """Return the configuration for the Java topology's runs."""
    named = {name: given.get(name) for name in given}
    forced = {f"__emit.interval.ms.kstreams.{name}__": 0 for name in _INTERVALS}
    old = {} if "cache.max.bytes.buffering" not in named else {"cache.max.bytes.buffering": 0}
    values = {**DEFAULTS, **named, **_OF_BOTH, **forced, **old}
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()}


@dataclass
class Sides:
    """The two sides."""

    java: KafkaStreams
    python: EngineSide
    same_json: bool = False
    renamed: dict[str, str] = field(default_factory=dict)
    """Stores that have another name in Python, by their name in Java."""
    start: int = 0

    def run(self, inputs: Sequence[Input]) -> tuple[Run, Run]:
        """Run both."""
        return self.java.run(inputs, self.start), self.python.run(inputs, self.start)

    def rules(self, java: Run, python: Run) -> Rules:
        """Pair the stores that can be read on both sides."""
        pairs = [(name, self.renamed.get(name, name)) for name in sorted(java.stores)]
        return Rules(self.same_json, tuple(pair for pair in pairs if pair[1] in python.stores))

    def difference(self, inputs: Sequence[Input]) -> Difference | None:
        """Run both, and compare."""
        java, python = self.run(inputs)
        return compare(java, python, self.rules(java, python))


def prove(
    both: Sides, inputs: Sequence[Input], *, most_runs: int, tell: Callable[[str], object] = lambda _: None
) -> Proof:
    """Compare; shorten inputs that differ, in at most `most_runs` runs. Raise `ConfigError` if nothing was compared."""
    kept = list(inputs)
    _check_topics(both, kept)
    both.start = next((one.timestamp for one in kept if isinstance(one, InputRecord)), 0)
    failed: list[InputResults] = []
    with _in_memory():
        while True:
            tell(f"running both with {len(kept):,} inputs")
            java, python = both.run(kept)
            _check_start(java, python)
            rules = both.rules(java, python)
            found = compare(java, python, rules)
            at = failed_together(java, python)
            if found is not None or at is None or java.failure is None or python.failure is None:
                break
            if len(failed) == _MOST_FAILURES:
                raise ConfigError(
                    f"both sides fail with more than {_MOST_FAILURES} inputs; Java: {java.failure.name}: "
                    f"{java.failure.message}; Python: {python.failure.name}: {python.failure.message}",
                    next_step="mend the topologies, or give inputs that they can read",
                )
            failed.append(InputResults(kept.pop(at), java.failure, python.failure))
        proof = Proof(both.java.described, both.python.described, kept, {}, {}, failed=failed)
        _note(proof, both, rules, java, python)
        _count(proof, rules, java, python, found)
        if found is not None:
            tell("they differ; looking for the fewest inputs that show it")
            proof.shortened = shorten(kept, found, both.difference, most_runs)
            proof.slips = hints.slips(proof.shortened.difference)
            proof.known = hints.known(proof.shortened.difference, both.python.plan, proof.python.text)
        elif not any(proof.compared.values()) and not any(proof.stores.values()):
            raise ConfigError(
                "nothing is proven: with these inputs neither side writes a record, or has a row in a store of both",
                next_step="give inputs that reach an output topic: other ones, or more of them",
            )
    return proof


def _check_topics(both: Sides, inputs: Sequence[Input]) -> None:
    known = both.java.described.topics | both.python.described.topics
    for one in inputs:
        if isinstance(one, InputRecord) and one.topic not in known:
            raise ConfigError(
                f"neither topology reads the topic '{one.topic}' of the inputs",
                next_step=f"leave its records out; the topics are: {', '.join(sorted(known))}",
            )
    if not any(isinstance(one, InputRecord) for one in inputs):
        raise ConfigError("there is no record in the inputs", next_step="record or generate some")


def _check_start(java: Run, python: Run) -> None:
    """Raise `ConfigError` if a side fails before the first input."""
    for side, run in (("Java", java), ("Python", python)):
        failure = run.failure
        if failure is not None and failure.at < 0:
            raise ConfigError(
                f"the {side} topology does not start: {failure.name}: {failure.message}",
                next_step="give the application's configuration with --config (default serdes, for example), or name "
                "its main, which brings it along"
                if side == "Java"
                else "mend it: stoatflow run APP.py --check tells more",
            )


def _note(proof: Proof, both: Sides, rules: Rules, java: Run, python: Run) -> None:
    """Note what was not compared, and where the topologies differ."""
    left, right = both.java.described, both.python.described
    for what, theirs, ours in (
        ("reads the topic", left.topics, right.topics),
        ("writes to the topic", left.sinks, right.sinks),
    ):
        proof.notes += [f"only Java {what} '{name}'" for name in sorted(theirs - ours)]
        proof.notes += [f"only Python {what} '{name}'" for name in sorted(ours - theirs)]
    proof.notes += _described_otherwise(left.text, right.text)
    compared = {theirs for theirs, _ in rules.stores} | {ours for _, ours in rules.stores}
    reasons: dict[str, list[str]] = {}
    for name in sorted((left.stores | right.stores) - compared):
        reasons.setdefault(_why(name, both, java, python), []).append(f"'{name}'")
    proof.notes += [f"{', '.join(names)}: {why}" for why, names in reasons.items()]
    given = {one.topic for one in proof.inputs if isinstance(one, InputRecord)}
    proof.notes += [f"no input is of the topic '{name}'" for name in sorted((left.topics & right.topics) - given)]
    written = java.outputs.keys() | python.outputs.keys()
    proof.notes += [
        f"no record came to the topic '{name}': it was not compared"
        for name in sorted((left.sinks & right.sinks) - written)
    ]


def _described_otherwise(java: str, python: str) -> list[str]:
    """Return a note if `describe()` has another text: nodes, names, or their order."""
    theirs, ours = java.strip().splitlines(), python.strip().splitlines()
    if theirs == ours:
        return []
    pairs = zip_longest((line.strip() for line in theirs), (line.strip() for line in ours), fillvalue="nothing")
    at, (first, other) = next((at, pair) for at, pair in enumerate(pairs, 1) if pair[0] != pair[1])
    return [f"describe() differs from line {at} on: '{first}' in Java, '{other}' in Python (--json has both texts)"]


def _why(name: str, both: Sides, java: Run, python: Run) -> str:
    left, right = both.java.described.stores, both.python.described.stores
    if java.failure is not None or python.failure is not None:
        return "stores are compared at the end, and a side fails before"
    if name not in right:
        return "stores that only Java has (--store JAVA=PYTHON pairs two)"
    if name not in left:
        return "stores that only Python has (--store JAVA=PYTHON pairs two)"
    if name in python.stores and name in java.unreadable:
        return f"a store that can't be looked into ({java.unreadable[name]})"
    return "stores of what waits (in a join, a suppression), which each side keeps in a form of its own"


def _count(proof: Proof, rules: Rules, java: Run, python: Run, found: Difference | None) -> None:
    """Count the records and rows that are equal before the first difference."""
    failures = [run.failure.at for run in (java, python) if run.failure is not None]
    ends = [*failures, *([] if found is None or found.at is None else [found.at])]
    end = min(ends, default=len(proof.inputs))
    for topic in sorted(java.outputs.keys() | python.outputs.keys()):
        proof.compared[topic] = sum(at < end for at, _ in java.outputs.get(topic, ()))
    if found is None and not failures:
        proof.stores = {ours: len(python.stores[ours]) for _, ours in rules.stores}


@contextmanager
def _in_memory() -> Iterator[None]:
    """Let the engine create its temporary topics in memory: each run creates and removes them."""
    before = os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="stoatflow-prove-", dir=in_memory()) as folder:
        os.environ["TMPDIR"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["TMPDIR"]
            else:
                os.environ["TMPDIR"] = before


def counted(inputs: Sequence[Input]) -> tuple[int, int]:
    """Return the number of records and of steps of the wall clock."""
    steps = sum(isinstance(one, ClockStep) for one in inputs)
    return len(inputs) - steps, steps
