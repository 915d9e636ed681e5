"""`stoatflow reset --orphans`: removes changelogs and rows of stores that the topology no longer has, nothing else."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

import stoatflow as sf
from stoatflow import EmbeddedBroker, StoatFlow
from stoatflow.cli import main

APP = """
import stoatflow as sf

builder = sf.StreamsBuilder()
words = builder.stream("lines", value=str).flat_map_values(sf.value.str.split())
words.group_by(sf.value, key=str).count(store="counts")
{more}
topology = builder.build()
"""
LENGTHS = """
words.group_by(lambda key, value: len(value), key=int).count(store="lengths")
"""


class Place:
    """An application that has two stores, and a newer release of it that has one."""

    def __init__(self, folder: Path, broker: EmbeddedBroker) -> None:
        self.broker = broker
        self.folder = folder
        self.config = folder / "app.toml"
        self.config.write_text(
            f'[application]\nid = "words"\n[state]\ndir = "{folder / "state"}"\n'
            f'[bootstrap]\nservers = "embedded:{broker.path}"\n',
            "utf-8",
        )
        broker.create_topic("lines", 2)
        broker.produce_many("lines", [(n, None, line, 1000) for n, line in enumerate([b"to be or", b"not to be"])])
        self.release(LENGTHS)
        assert self.stores() == {"counts": {"to": 2, "be": 2, "or": 1, "not": 1}, "lengths": {2: 5, 3: 1}}
        self.release("")

    def release(self, more: str) -> None:
        self.app = self.folder / "app.py"
        self.app.write_text(APP.format(more=more), "utf-8")

    def make(self) -> StoatFlow:
        topology = runpy.run_path(str(self.app))["topology"]
        return StoatFlow(topology, sf.Settings.from_file(self.config, environ={}), broker=self.broker)

    def stores(self) -> dict[str, dict[object, int]]:
        with self.make() as app:
            app.wait_until(caught_up=True)
            names = ["counts", *(name for name in ("lengths", "late") if name in self.app.read_text("utf-8"))]
            return {name: dict(app.store(name).all()) for name in names}

    def reset(self, *arguments: str) -> int:
        return main(["reset", str(self.app), "--config", str(self.config), *arguments])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with EmbeddedBroker(tmp_path / "broker") as broker:
        yield Place(tmp_path, broker)


COUNTS = {"counts": {"to": 2, "be": 2, "or": 1, "not": 1}}


def test_remains_of_a_removed_store_are_deleted(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.reset("--orphans", "--yes") == 0
    printed = capsys.readouterr().out
    assert "words-lengths-changelog  (at most" in printed
    assert "counts" not in printed
    assert set(place.broker.topics()) == {"lines", "words-counts-changelog"}
    assert place.stores() == COUNTS, "the other store goes on"
    assert place.reset("--orphans", "--yes") == 0
    printed = capsys.readouterr().out
    assert "deleted: none is there" in printed
    assert "removed: none are here" in printed


def test_a_store_that_returns_begins_empty(place: Place) -> None:
    assert place.reset("--orphans", "--yes") == 0
    place.broker.produce("lines", None, b"a")
    place.release(LENGTHS)
    assert place.stores()["lengths"] == {1: 1}


def test_without_cleanup_a_returning_store_keeps_its_rows(place: Place) -> None:
    place.broker.produce("lines", None, b"a")
    place.release(LENGTHS)
    assert place.stores()["lengths"] == {1: 1, 2: 5, 3: 1}


def test_a_dry_run_changes_nothing_and_stops_nobody(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    before = place.broker.topics()
    with place.make() as app:
        app.wait_until(caught_up=True)
        assert place.reset("--orphans", "--dry-run") == 0
        assert app.is_alive()
    printed = capsys.readouterr().out
    assert "words-lengths-changelog" in printed
    assert "nothing was changed (--dry-run)" in printed
    assert place.broker.topics() == before
    assert place.reset("--orphans", "--dry-run") == 0
    assert "\n  lengths\n" in capsys.readouterr().out, "the rows are here still"


def test_a_running_release_is_stopped(place: Place) -> None:
    place.release(LENGTHS)
    app = place.make()
    app.start()
    app.wait_until(caught_up=True)
    place.release("")
    assert place.reset("--orphans", "--yes") == 0
    with pytest.raises(sf.FencedError):
        app.wait(60)
    assert "words-lengths-changelog" not in place.broker.topics()
    assert place.stores() == COUNTS


def test_topics_of_others_stay(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.broker.create_topic("words-by-day-counts-changelog")
    assert place.reset("--orphans", "--yes") == 0
    printed = capsys.readouterr().out
    assert "words-by-day-counts-changelog  (delete it too: --topic words-by-day-counts-changelog)" in printed
    assert "words-by-day-counts-changelog" in place.broker.topics()
    assert place.reset("--orphans", "--yes", "--topic", "words-by-day-counts-changelog") == 0
    assert set(place.broker.topics()) == {"lines", "words-counts-changelog"}


def test_a_topic_that_is_read_stays(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.broker.create_topic("words-other-changelog")
    place.release('builder.stream("words-other-changelog").foreach(lambda key, value: None)')
    assert place.reset("--orphans", "--yes") == 0
    assert "words-other-changelog" not in capsys.readouterr().out
    assert place.reset("--orphans", "--yes", "--topic", "words-other-changelog") == 2
    assert "words-other-changelog" in place.broker.topics()


def test_stores_in_memory_leave_topics_that_have_to_be_named(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    # An embedded broker has no offsets topic, so without local state the owner of the topic is unknown.
    place.config.write_text(place.config.read_text("utf-8") + '[default]\n"dsl.store" = "in_memory"\n', "utf-8")
    assert place.reset("--orphans", "--yes") == 0
    assert "--topic words-lengths-changelog" in capsys.readouterr().out
    assert place.reset("--orphans", "--yes", "--topic", "words-lengths-changelog") == 0
    assert "words-lengths-changelog" not in place.broker.topics()


@pytest.mark.parametrize("topic", ["words-counts-changelog", "lines", "nowhere"])
def test_only_such_topics_are_deleted(place: Place, capsys: pytest.CaptureFixture[str], topic: str) -> None:
    before = place.broker.topics()
    assert place.reset("--orphans", "--yes", "--topic", topic) == 2
    assert f"'{topic}' is no changelog of 'words' that the topology has no store for" in capsys.readouterr().err
    assert place.broker.topics() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--orphans", "--to", "latest"], "--orphans rewinds nothing, so it doesn't go with --to"),
        (["--orphans", "--input-topic", "lines", "--shift-by", "0"], "go with --shift-by, --input-topic"),
        (["--topic", "lines"], "--topic belongs to --orphans"),
    ],
)
def test_removing_orphans_rewinds_no_offsets(
    place: Place, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert place.reset(*arguments, "--yes") == 2
    assert message in capsys.readouterr().err


def test_without_a_terminal_the_yes_flag_is_required(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.reset("--orphans") == 2
    assert "--yes" in capsys.readouterr().err
    assert "words-lengths-changelog" in place.broker.topics()


def test_orphans_that_appear_during_the_confirmation_are_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def another(_question: str) -> bool:
        place.release('words.group_by_key(key=str).count(store="late")')
        place.stores()
        place.release("")
        return True

    monkeypatch.setattr("stoatflow.cli.confirmation.confirm", another)
    assert place.reset("--orphans") == 2
    assert {"words-late-changelog", "words-lengths-changelog"} < set(place.broker.topics())
