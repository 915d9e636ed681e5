"""`stoatflow reset` on real Kafka: the word count starts over, and running instances are stopped."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from counting import by_hand, check_every_update, consume, lines, make, table, until, until_consumed
from members import PROTOCOLS, Member
from topics import KafkaTopics, Row

from stoatflow import FencedError, IncompatibleStateError
from stoatflow.cli import main

APP = """
from stoatflow.cli.word_count import topology as words

topology = words("{name}-in", "{name}-out", "native")
"""


def reset(kafka: KafkaTopics, name: str, folder: Path, guarantee: str, *arguments: str) -> int:
    app, config = folder / "app.py", folder / "app.json"
    app.write_text(APP.format(name=name), "utf-8")
    config.write_text(f'{{"processing.guarantee": "{guarantee}"}}', "utf-8")
    where = ["--config", str(config), "--application-id", name, "--bootstrap", kafka.address]
    return main(["reset", str(app), *where, "--state-dir", str(folder), *arguments])


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_the_word_count_starts_over(kafka: KafkaTopics, name: str, tmp_path: Path, guarantee: str) -> None:
    kafka.create(f"{name}-in", 3)
    kafka.create(f"{name}-out", 3)
    given = lines(1, 400)
    kafka.write(f"{name}-in", given)
    changelog = f"{name}-counts-changelog"
    app = make(kafka.address, name, tmp_path, processing_guarantee=guarantee)
    with app:
        until_consumed(app)
        once = kafka.read(f"{name}-out")
        check_every_update(once, given)
        # A dry run stops nothing and changes nothing.
        assert reset(kafka, name, tmp_path, guarantee, "--dry-run") == 0
        assert changelog in kafka.topics()
        until_consumed(app)
        assert str(app.state) == "RUNNING"
    assert kafka.committed(name, f"{name}-in") == kafka.ends(f"{name}-in")

    assert reset(kafka, name, tmp_path, guarantee, "--yes") == 0
    assert changelog not in kafka.topics()
    assert not (tmp_path / name).exists()
    assert set(kafka.committed(name, f"{name}-in").values()) == {0}
    assert kafka.read(f"{name}-out") == once, "outputs are left alone"

    consume(make(kafka.address, name, tmp_path, processing_guarantee=guarantee))
    both = kafka.read(f"{name}-out")
    doubled = Counter({row: 2 * count for row, count in _values(once).items()})
    assert _values(both) == doubled, "every result is written again, none is added to the old ones"
    assert table(kafka.read(changelog)) == by_hand(given)
    assert kafka.config(changelog)["cleanup.policy"] == "compact"
    assert kafka.committed(name, f"{name}-in") == kafka.ends(f"{name}-in")


def _values(rows: list[Row]) -> Counter[tuple[bytes | None, bytes | None]]:
    return Counter((row.key, row.value) for row in rows)


def test_an_interrupted_reset_must_be_repeated(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    kafka.create(f"{name}-in", 2)
    kafka.create(f"{name}-out", 2)
    given = lines(3, 100)
    kafka.write(f"{name}-in", given)
    consume(make(kafka.address, name, tmp_path))
    once = kafka.read(f"{name}-out")
    # A file in place of one of the engine's folders: it can't be removed, and the reset fails halfway.
    in_the_way = tmp_path / name / "rocksdb" / "ingest"
    in_the_way.write_text("", "utf-8")
    assert reset(kafka, name, tmp_path, "exactly_once_v2", "--yes") == 2
    with pytest.raises(IncompatibleStateError, match="was started and has not ended"):
        make(kafka.address, name, tmp_path).run()
    in_the_way.unlink()
    assert reset(kafka, name, tmp_path, "exactly_once_v2", "--yes") == 0
    consume(make(kafka.address, name, tmp_path))
    both = kafka.read(f"{name}-out")
    assert _values(both) == Counter({row: 2 * count for row, count in _values(once).items()})
    assert table(kafka.read(f"{name}-counts-changelog")) == by_hand(given)


@pytest.mark.parametrize("guarantee", ["exactly_once_v2", "at_least_once"])
def test_a_reset_stops_a_running_application(kafka: KafkaTopics, name: str, tmp_path: Path, guarantee: str) -> None:
    kafka.create(f"{name}-in", 2)
    kafka.create(f"{name}-out", 2)
    given = lines(2, 200)
    kafka.write(f"{name}-in", given)
    running = make(kafka.address, name, tmp_path, processing_guarantee=guarantee)
    try:
        running.start()
        until_consumed(running)
        # It waits for the directory that the other instance holds, and so for its end.
        assert reset(kafka, name, tmp_path, guarantee, "--yes") == 0
        until(lambda: str(running.state) == "ERROR", "the running one stops")
        with pytest.raises(FencedError, match="took over"):
            running.wait(10)
    finally:
        running.close()
    once = kafka.read(f"{name}-out")
    check_every_update(once, given)
    consume(make(kafka.address, name, tmp_path, processing_guarantee=guarantee))
    check_every_update([row for row in kafka.read(f"{name}-out") if row not in once], given)


def test_a_reset_is_refused_while_the_group_has_members(
    kafka: KafkaTopics, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for topic in (f"{name}-in", f"{name}-out"):
        kafka.create(topic, 2)
    given = lines(1, 50)
    kafka.write(f"{name}-in", given)
    with make(kafka.address, name, tmp_path) as app:
        until_consumed(app)
    committed = kafka.committed(name, f"{name}-in")
    with Member(kafka.address, name, PROTOCOLS["classic"]):
        assert reset(kafka, name, tmp_path, "exactly_once_v2", "--yes") == 4
        assert f"has members ('{name}-other' on 127.0.0.1): a reset" in capsys.readouterr().err
    assert kafka.committed(name, f"{name}-in") == committed
    with make(kafka.address, name, tmp_path) as app:
        until_consumed(app)
    check_every_update(kafka.read(f"{name}-out"), given)


def test_orphans_of_an_old_release_are_removed(kafka: KafkaTopics, name: str, tmp_path: Path) -> None:
    kafka.create(f"{name}-in", 3)
    kafka.create(f"{name}-out", 3)
    given = lines(3, 300)
    kafka.write(f"{name}-in", given)
    consume(make(kafka.address, name, tmp_path))
    counted, other = f"{name}-counts-changelog", f"{name}-other-counts-changelog"
    kafka.create(other, 1)
    committed = kafka.committed(name, f"{name}-in")
    # The newer release has no store, and runs on another machine: only the offsets topic knows the changelog.
    app, elsewhere = tmp_path / "app.py", tmp_path / "elsewhere"
    app.write_text(STATELESS.format(name=name), "utf-8")
    where = ["--application-id", name, "--bootstrap", kafka.address, "--state-dir", str(elsewhere)]
    assert main(["reset", str(app), *where, "--orphans", "--dry-run"]) == 0
    assert counted in kafka.topics()
    assert main(["reset", str(app), *where, "--orphans", "--yes"]) == 0
    assert counted not in kafka.topics()
    assert other in kafka.topics(), "it may be another application's"
    assert kafka.committed(name, f"{name}-in") == committed, "nothing is read again"

    # On the older release's machine its rows are removed too: should it return, it starts empty.
    where[-1] = str(tmp_path)
    assert main(["reset", str(app), *where, "--orphans", "--yes"]) == 0
    more = lines(4, 100)
    kafka.write(f"{name}-in", more)
    consume(make(kafka.address, name, tmp_path))
    assert table(kafka.read(counted)) == by_hand(more)


STATELESS = """
import stoatflow as sf

builder = sf.StreamsBuilder()
builder.stream("{name}-in", value=str).to("{name}-out", value=str)
topology = builder.build()
"""
