"""A store that changes its type, on a real broker: rejected even where no local state could tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from counting import PATIENCE_S, until_consumed, until_running
from topics import KafkaTopics

import stoatflow as sf

GUARANTEES = ["exactly_once_v2", "at_least_once"]


def application(kafka: KafkaTopics, name: str, state: Path, made: str, guarantee: str) -> sf.StoatFlow:
    """Fills the store `totals`, in one of several ways."""
    builder = sf.StreamsBuilder()
    words = builder.stream(f"{name}-in", key=bytes, value=str).group_by(sf.value, key=str)
    if made == "counts":
        words.count(store="totals")
    elif made == "kept in versions":
        words.reduce(lambda _, new: new, store=sf.Materialized("totals", key=str, value=str, history="1h"))
    elif made == "last values":
        words.reduce(lambda _, new: new, store=sf.Materialized("totals", key=str, value=str))
    else:
        windows = {"minutes": "1m", "hours": "1h"}[made]
        size = sf.TimeWindows.of_size_with_no_grace(windows)
        words.windowed_by(size).count(store=sf.Materialized("totals", key=str, retention="2h"))
    config = {
        "application.id": name,
        "bootstrap.servers": kafka.address,
        "state.dir": state,
        "processing.guarantee": guarantee,
        "statestore.cache.max.bytes": 0,
    }
    return sf.StoatFlow(builder.build(), config)


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize(
    ("before", "after", "format_before", "format_after"),
    [
        ("counts", "last values", "key-value:string:int64", "key-value:string:string"),
        ("counts", "minutes", "key-value:string:int64", "window(60000):string:int64"),
        ("minutes", "hours", "window(60000):string:int64", "window(3600000):string:int64"),
    ],
)
def test_rows_of_another_format_are_refused_on_another_disk(
    kafka: KafkaTopics,
    name: str,
    tmp_path: Path,
    guarantee: str,
    before: str,
    after: str,
    format_before: str,
    format_after: str,
) -> None:
    kafka.create(f"{name}-in", 2)
    kafka.write(f"{name}-in", ["a", "b", "a"])
    with application(kafka, name, tmp_path / "one", before, guarantee) as app:
        until_consumed(app)
    with (
        application(kafka, name, tmp_path / "other", after, guarantee) as app,
        pytest.raises(sf.IncompatibleStateError, match="totals-changelog") as refused,
    ):
        app.wait(PATIENCE_S)
    assert f"'{format_before}'" in str(refused.value)
    assert f"'{format_after}'" in str(refused.value)
    # Nothing was read or written: the application that wrote it continues, on that disk too.
    kafka.write(f"{name}-in", ["a"])
    with application(kafka, name, tmp_path / "other", before, guarantee) as app:
        until_consumed(app)
        store = app.store("totals")
        if before == "counts":
            assert dict(store.all()) == {"a": 3, "b": 1}
        else:
            assert sum(count for _, count in store.all()) == 4


def test_a_changed_disk_format_is_restored_from_the_changelog(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    """The rows of the changelog are the same with and without a history."""
    kafka.create(f"{name}-in", 1)
    kafka.write(f"{name}-in", ["a", "b"])
    with application(kafka, name, tmp_path / "one", "last values", "exactly_once_v2") as app:
        until_consumed(app)
    with application(kafka, name, tmp_path / "other", "kept in versions", "exactly_once_v2") as app:
        until_running(app)
        found = app.store("totals").get("a")
        assert found is not None
        assert found.value == "a"


def test_a_changelog_without_rows_takes_another_format(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    """A serde is often wrong at the first try; nothing was written with it."""
    kafka.create(f"{name}-in", 1)
    with application(kafka, name, tmp_path / "one", "counts", "exactly_once_v2") as app:
        until_consumed(app)
    kafka.write(f"{name}-in", ["a"])
    with application(kafka, name, tmp_path / "other", "last values", "exactly_once_v2") as app:
        until_consumed(app)
        assert app.store("totals").get("a") == "a"
    written = {
        json.loads(row.key or b"")[1]: json.loads(row.value or b"null")
        for row in kafka.read(f"{name}-offsets")
        if json.loads(row.key or b"")[0] == "format"
    }
    assert written[f"{name}-totals-changelog"] == {"format": "key-value:string:string"}


def counting(kafka: KafkaTopics, name: str, state: Path, *, logging: bool, kind: str) -> sf.StoatFlow:
    """Counts, with a changelog or without."""
    builder = sf.StreamsBuilder()
    words = builder.stream(f"{name}-in", key=bytes, value=str).group_by(sf.value, key=str)
    words.count(store=sf.Materialized("totals", key=str, logging=logging))
    config = {"application.id": name, "bootstrap.servers": kafka.address, "state.dir": state, "default.dsl.store": kind}
    return sf.StoatFlow(builder.build(), config)


@pytest.mark.parametrize("kind", ["rocksDB", "in_memory"])
def test_a_changelog_that_was_off_in_between_is_refused(
    kafka: KafkaTopics, name: str, tmp_path: Path, kind: str
) -> None:
    """A restore would bring back the old counts."""
    kafka.create(f"{name}-in", 1)
    for round_, logging in enumerate([True, False]):
        kafka.write(f"{name}-in", ["a", "b"])
        with counting(kafka, name, tmp_path / "one", logging=logging, kind=kind) as app:
            until_consumed(app)
            assert app.store("totals").get("a") == (1 if kind == "in_memory" else round_ + 1)
    for disk in ("one", "other"):
        with (
            counting(kafka, name, tmp_path / disk, logging=True, kind=kind) as app,
            pytest.raises(sf.IncompatibleStateError, match="totals-changelog' was off until now"),
        ):
            app.wait(PATIENCE_S)
    with counting(kafka, name, tmp_path / "one", logging=False, kind=kind) as app:
        until_running(app)


@pytest.mark.parametrize(("kind", "is_refused"), [("rocksDB", True), ("in_memory", False)])
def test_a_changelog_that_is_new_lacks_the_rows_of_a_disk(
    kafka: KafkaTopics, name: str, tmp_path: Path, kind: str, is_refused: bool
) -> None:
    kafka.create(f"{name}-in", 1)
    kafka.write(f"{name}-in", ["a", "b"])
    with counting(kafka, name, tmp_path, logging=False, kind=kind) as app:
        until_consumed(app)
    with counting(kafka, name, tmp_path, logging=True, kind=kind) as app:
        if is_refused:
            with pytest.raises(sf.IncompatibleStateError, match="stoatflow reset"):
                app.wait(PATIENCE_S)
        else:
            until_running(app)
