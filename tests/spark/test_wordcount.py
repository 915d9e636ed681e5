"""The word count check: every injected fault is found, by its own name, and a correct output is never accused."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from stoatflow.spark.report import Fault, Reconciliation
from stoatflow.spark.wordcount import expected_counts, reconcile

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

LINES = ["the stoat flows", "  The STOAT\truns \n the  fields ", "", "   ", None, "a field a stoat"]
Update = tuple[int, int, "str | None", "int | None"]
"""Partition, offset, key, value."""

SCHEMA = "partition int, offset long, key string, value long"


@pytest.fixture
def updates(word_count: Callable[[Sequence[str | None]], list[Update]]) -> list[Update]:
    """Return the right output for `LINES`: every update."""
    return word_count(LINES)


def check(
    spark: SparkSession,
    updates: Sequence[Update],
    lines: Sequence[str | None] = LINES,
    *,
    every_update: bool = False,
) -> Reconciliation:
    """Reconcile rows, passed in a random order."""
    shuffled = random.Random(1).sample(list(updates), len(updates))  # noqa: S311
    source = spark.createDataFrame([(line,) for line in lines], "value string")
    return reconcile(source, spark.createDataFrame(shuffled, SCHEMA), every_update=every_update)


def found(result: Reconciliation) -> dict[Fault, int]:
    """Return the faults that were found."""
    return {fault: count for fault, count in result.faults.items() if count}


def where(updates: Sequence[Update], key: str, value: int) -> int:
    """Return the index of one update."""
    return next(i for i, update in enumerate(updates) if update[2:] == (key, value))


def per_commit(updates: Sequence[Update]) -> list[Update]:
    """Leave out the first two updates of ``the``, as a commit with three of them does."""
    return [update for update in updates if update[2] != "the" or update[3] == 3]


@pytest.mark.parametrize("every_update", [False, True])
def test_a_correct_output_is_ok(spark: SparkSession, updates: list[Update], every_update: bool) -> None:
    result = check(spark, updates, every_update=every_update)
    assert result.ok
    assert (result.missing, result.duplicated, result.wrong) == (0, 0, 0)
    assert (result.input_records, result.input_words, result.expected_keys) == (6, 12, 7)
    assert (result.output_records, result.output_keys) == (12, 7)


def test_updates_once_per_commit_are_ok_unless_all_are_demanded(spark: SparkSession, updates: list[Update]) -> None:
    updates = per_commit(updates)
    assert check(spark, updates).ok
    strict = check(spark, updates, every_update=True)
    assert found(strict) == {Fault.MISSING_UPDATE: 2}
    assert str(strict.examples[0]) == "'the' lacks 2 of its 3 updates"


def test_a_missing_word(spark: SparkSession, updates: list[Update]) -> None:
    result = check(spark, [update for update in updates if update[2] != "stoat"])
    assert found(result) == {Fault.MISSING_WORD: 1}
    assert not result.ok
    assert result.missing == 1
    assert str(result.examples[0]) == "'stoat' occurs 3 times in the input and never in the output"


def test_a_missing_last_update(spark: SparkSession, updates: list[Update]) -> None:
    del updates[where(updates, "the", 3)]
    assert found(check(spark, updates)) == {Fault.WRONG_COUNT: 1}
    assert found(check(spark, updates, every_update=True)) == {Fault.WRONG_COUNT: 1, Fault.MISSING_UPDATE: 1}


def test_a_wrong_count(spark: SparkSession, updates: list[Update]) -> None:
    at = where(updates, "stoat", 3)
    updates[at] = (*updates[at][:3], 4)
    result = check(spark, updates)
    assert found(result) == {Fault.WRONG_COUNT: 1}
    assert result.wrong == 1
    example = result.examples[0]
    assert (example.key, example.expected, example.actual) == ("stoat", 3, 4)
    assert (example.partition, example.offset) == updates[at][:2]


def test_an_update_emitted_twice(spark: SparkSession, updates: list[Update]) -> None:
    partition, offset, key, value = updates[where(updates, "the", 2)]
    updates = [(p, o + (p == partition and o > offset), k, v) for p, o, k, v in updates]
    updates.append((partition, offset + 1, key, value))
    for every_update in (False, True):
        result = check(spark, updates, every_update=every_update)
        assert found(result) == {Fault.REPEATED: 1}
        assert result.duplicated == 1
    assert str(result.examples[0]) == f"'the' counts 2 again (partition {partition}, offset {offset + 1})"


def test_a_last_update_emitted_twice(spark: SparkSession, updates: list[Update]) -> None:
    # The table is right, so that only the sequence reveals it.
    partition, _, key, value = updates[where(updates, "the", 3)]
    updates.append((partition, 1000, key, value))
    assert found(check(spark, updates)) == {Fault.REPEATED: 1}


def test_a_replay_after_a_crash(spark: SparkSession, updates: list[Update]) -> None:
    # 1 2 3 | 2 3: what at-least-once does when the last two records are processed again.
    partition = updates[where(updates, "the", 3)][0]
    updates += [(partition, 1000, "the", 2), (partition, 1001, "the", 3)]
    result = check(spark, updates, every_update=True)
    assert found(result) == {Fault.WENT_BACK: 1, Fault.REPEATED: 1}
    assert result.duplicated == 2


def test_a_value_counted_again_after_a_lost_state(spark: SparkSession, updates: list[Update]) -> None:
    at = where(updates, "the", 3)
    updates[at] = (*updates[at][:3], 1)
    assert found(check(spark, updates)) == {Fault.WENT_BACK: 1, Fault.WRONG_COUNT: 1}


def test_updates_in_the_wrong_order(spark: SparkSession, updates: list[Update]) -> None:
    one, two = where(updates, "the", 1), where(updates, "the", 2)
    updates[one], updates[two] = (*updates[one][:3], 2), (*updates[two][:3], 1)
    result = check(spark, updates, every_update=True)
    assert found(result) == {Fault.WENT_BACK: 1}
    assert "counts 1 after 2" in str(result.examples[0])


@pytest.mark.parametrize("key", ["ferret", "", "The", None])
def test_an_output_key_that_is_no_input_word(spark: SparkSession, updates: list[Update], key: str | None) -> None:
    result = check(spark, [*updates, (0, 1000, key, 1)])
    assert found(result) == {Fault.EXTRA_WORD: 1}
    assert result.output_keys == 8
    assert result.examples[0].key == key


@pytest.mark.parametrize("value", [None, 0, -3])
def test_a_value_that_is_not_a_count(spark: SparkSession, updates: list[Update], value: int | None) -> None:
    at = where(updates, "the", 1)
    updates[at] = (*updates[at][:3], value)
    result = check(spark, updates)
    assert found(result) == {Fault.BAD_VALUE: 1}
    assert result.examples[0].offset == updates[at][1]


def test_a_key_in_two_partitions(spark: SparkSession, updates: list[Update]) -> None:
    at = where(updates, "the", 3)
    updates[at] = (9, 0, "the", 3)
    assert found(check(spark, updates)) == {Fault.SPLIT_KEY: 1}


def test_an_input_without_words_proves_nothing(spark: SparkSession) -> None:
    result = check(spark, [], ["", None])
    assert found(result) == {}
    assert not result.ok
    assert "NOT PROVEN" in result.render()


def test_an_output_without_records_misses_everything(spark: SparkSession) -> None:
    assert found(check(spark, [])) == {Fault.MISSING_WORD: 7}


def test_examples_are_few_and_the_same_every_time(spark: SparkSession) -> None:
    result = check(spark, [])
    assert [example.key for example in result.examples] == ["a", "field", "fields"]


def test_words_are_split_and_lowered_as_by_the_engine(spark: SparkSession) -> None:
    texts = ["Straße\u00a0GROSS\u2003x", "\u0130 ΣΑΣ\u3000Ж", " \r\n\v\f\u0085 ", "don't stop-now, ok."]
    source = spark.createDataFrame([(text,) for text in texts], "value string")
    counted = {row["word"]: row["count"] for row in expected_counts(source).collect()}
    assert counted == Counter(word for text in texts for word in text.lower().split())


def test_a_frame_without_its_columns_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match=r"lacks \['offset', 'partition'\]"):
        reconcile(
            spark.createDataFrame([("a",)], "value string"), spark.createDataFrame([("a", 1)], "key string, value long")
        )


def oracle(values: Sequence[int], count: int, every_update: bool) -> Counter[Fault]:
    """Check the values of one known word by hand, one after the other."""
    faults: Counter[Fault] = Counter()
    if not values:
        return Counter({Fault.MISSING_WORD: 1})
    highest = 0
    for value in values:
        if value < 1:
            faults[Fault.BAD_VALUE] += 1
        elif value <= highest:
            faults[Fault.REPEATED if value == highest else Fault.WENT_BACK] += 1
        highest = max(highest, value)
    faults[Fault.WRONG_COUNT] = int(values[-1] != count)
    if every_update:
        faults[Fault.MISSING_UPDATE] = count - len(set(values) & set(range(1, count + 1)))
    return faults


def damage(values: list[int], dice: random.Random) -> list[int]:
    """Return a copy with up to three random faults."""
    for _ in range(dice.randrange(4)):
        at = dice.randrange(len(values) + 1)
        match dice.randrange(5):
            case 0:
                values = values[:at] + values[at + 1 :]
            case 1:
                values = values[:at] + values[at - 1 : at] + values[at:]
            case 2:
                values = [*values[:at], dice.randrange(-1, 12), *values[at + 1 :]]
            case 3:
                values = [*values, *values[at:]]
            case _:
                other = dice.randrange(len(values) + 1)
                values = values[:at] + values[other : other + 1] + values[at:]
    return values


@pytest.mark.parametrize("every_update", [False, True])
def test_random_damage_gets_the_expected_verdict(spark: SparkSession, every_update: bool) -> None:
    # Each word is its own case: 2,000 cases in one job.
    dice = random.Random(2024)  # noqa: S311
    counts = {f"w{n}": dice.randrange(1, 9) for n in range(2000)}
    outputs = {word: damage(list(range(1, count + 1)), dice) for word, count in counts.items()}
    assert sum(not values for values in outputs.values()) > 10
    updates = [(0, at, word, value) for at, (word, value) in enumerate((w, v) for w in outputs for v in outputs[w])]
    expected: Counter[Fault] = Counter()
    right = 0
    for word, values in outputs.items():
        faults = +oracle(values, counts[word], every_update)
        expected += faults
        legal = (
            values == list(range(1, counts[word] + 1))
            if every_update
            else (values == sorted(set(values)) and values[:1] >= [1] and values[-1] == counts[word])
        )
        assert legal is not bool(faults), (word, values, faults)
        right += legal
    assert 300 < right < 1700
    result = check(
        spark, updates, [" ".join([word] * count) for word, count in counts.items()], every_update=every_update
    )
    assert found(result) == dict(expected)
