"""`stoatflow reset` and `StoatFlow.clean_up`: what they change, what they refuse, and the counts afterwards."""

from __future__ import annotations

import argparse
import builtins
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from stoatflow import EmbeddedBroker, StoatFlow
from stoatflow.cli import main
from stoatflow.cli.reset import Target, target

APP = """
import stoatflow as sf

builder = sf.StreamsBuilder()
words = builder.stream("lines", value=str).flat_map_values(sf.value.str.split())
words.group_by(sf.value, key=str).count(store="counts").to_stream().to("counts", key=str, value=int)
topology = builder.build()
nothing = 1
"""
LINES = ["to be", "or not", "to be"]
COUNTS = {"to": 2, "be": 2, "or": 1, "not": 1}


class Place:
    """An application that has counted, and its folder."""

    def __init__(self, folder: Path, broker: EmbeddedBroker) -> None:
        self.broker = broker
        self.state = folder / "state" / "words" / "rocksdb"
        self.app = folder / "app.py"
        self.app.write_text(APP, "utf-8")
        self.config = folder / "app.toml"
        self.config.write_text(
            f'[application]\nid = "words"\n[state]\ndir = "{folder / "state"}"\n'
            f'[bootstrap]\nservers = "embedded:{broker.path}"\n',
            "utf-8",
        )
        broker.create_topic("lines", 2)
        broker.create_topic("counts")
        broker.produce_many("lines", [(n % 2, None, line.encode(), 1000 + n) for n, line in enumerate(LINES)])

    def make(self) -> StoatFlow:
        topology = runpy.run_path(str(self.app))["topology"]
        return StoatFlow(topology, sf.Settings.from_file(self.config, environ={}), broker=self.broker)

    def count(self) -> None:
        with self.make() as app:
            while str(app.state) != "RUNNING" or app.lag():
                assert not app.wait(0.01)

    def outputs(self) -> list[tuple[str, int]]:
        rows = self.broker.read("counts")
        return [(r.key.decode(), int.from_bytes(r.value, "big")) for r in rows if r.key and r.value]

    def reset(self, *arguments: str) -> int:
        return main(["reset", str(self.app), "--config", str(self.config), *arguments])

    def untouched(self) -> bool:
        """Whether nothing is read again, and everything is unchanged."""
        before = len(self.outputs())
        assert self.state.exists()
        assert "words-counts-changelog" in self.broker.topics()
        self.count()
        return len(self.outputs()) == before


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with EmbeddedBroker(tmp_path / "broker") as broker:
        made = Place(tmp_path, broker)
        made.count()
        assert dict(made.outputs()) == COUNTS
        yield made


def test_everything_is_counted_again(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    once = len(place.outputs())
    assert place.reset("--yes") == 0
    printed = capsys.readouterr().out
    rows = [line.split() for line in printed.splitlines()]
    assert ["lines", "0", "2", "->", "0"] in rows
    assert ["lines", "1", "1", "->", "0"] in rows
    assert "words-counts-changelog  (at most" in printed
    assert str(place.state) in printed
    assert not place.state.exists()
    assert "words-counts-changelog" not in place.broker.topics()
    assert len(place.outputs()) == once, "output topics are left alone"
    place.count()
    again = place.outputs()[-once:]
    assert len(place.outputs()) == 2 * once
    assert dict(again) == COUNTS, "not twice as much"


def test_a_dry_run_changes_nothing(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.reset("--dry-run", "--yes") == 0
    printed = capsys.readouterr().out
    assert "lines  " in printed
    assert "nothing was changed (--dry-run)" in printed
    assert place.untouched()


def test_a_dry_run_stops_no_running_application(place: Place) -> None:
    with place.make() as app:
        while str(app.state) != "RUNNING":
            app.wait(0.01)
        assert place.reset("--dry-run") == 0
        place.broker.produce("lines", None, b"be")
        while app.lag():
            assert not app.wait(0.01)
    assert dict(place.outputs())["be"] == 3


def test_without_a_terminal_the_yes_flag_is_required(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.reset() == 2
    printed = capsys.readouterr()
    assert "committed" in printed.out, "what it would do is shown"
    assert "there is no terminal to ask you on" in printed.err
    assert "--yes" in printed.err
    assert place.untouched()


class _Terminal:
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "code"), [("yes", 0), (" YES ", 0), ("y", 1), ("", 1), (None, 1)])
def test_a_reset_asks_for_confirmation(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: str | None, code: int
) -> None:
    asked: list[str] = []

    def answering(prompt: str) -> str:
        asked.append(prompt)
        if answer is None:
            raise EOFError
        return answer

    monkeypatch.setattr(sys, "stdin", _Terminal())
    monkeypatch.setattr(builtins, "input", answering)
    assert place.reset() == code
    assert asked == ["Reset 'words'? Type yes to do it: "]
    assert place.state.exists() == (code == 1)
    if code:
        assert "nothing was changed" in capsys.readouterr().out
        assert place.untouched()


def test_offsets_that_move_during_the_confirmation_are_shown(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answering(_prompt: str) -> str:
        place.broker.produce("lines", None, b"be", partition=1)
        place.count()
        return "yes"

    monkeypatch.setattr(sys, "stdin", _Terminal())
    monkeypatch.setattr(builtins, "input", answering)
    assert place.reset() == 0
    later = capsys.readouterr().out.partition("positions have moved meanwhile:")[2]
    assert ["lines", "1", "2", "->", "0"] in [line.split() for line in later.splitlines()]


def test_an_interrupted_reset_must_be_repeated(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    once = len(place.outputs())
    # A file in place of one of the engine's folders: it can't be removed, and the reset fails halfway.
    (place.state / "ingest").write_text("in the way", "utf-8")
    assert place.reset("--yes") == 2
    for _ in range(2):
        app = place.make()
        unfinished = "reset of 'words' was started and has not ended"
        with pytest.raises(sf.IncompatibleStateError, match=unfinished) as refused:
            app.run()
        assert "run it again" in refused.value.next_step
    (place.state / "ingest").unlink()
    capsys.readouterr()
    assert place.reset("--yes") == 0
    assert "a reset was begun before and has not ended: this one ends it" in capsys.readouterr().out
    place.count()
    assert dict(place.outputs()[once:]) == COUNTS


def test_a_mistyped_topic_is_refused_with_the_nearest(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    for extra in ("--yes", "--dry-run"):
        assert place.reset("--input-topic", "lnies", extra) == 2
        assert "'lnies' (did you mean 'lines'?)" in capsys.readouterr().err
    assert place.untouched()


def test_the_file_and_the_settings_are_checked(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    config = ["--config", str(place.config), "--yes"]
    assert main(["reset", f"{place.app}:nothing", *config]) == 2
    assert "no Topology named 'nothing'; it defines topology: choose with FILE:NAME" in capsys.readouterr().err
    assert main(["reset", f"{place.app}:topology", "--application-id", "words", "--dry-run"]) == 2
    assert "bootstrap.servers" in capsys.readouterr().err
    assert main(["reset", f"{place.app}:topology", *config, "--application-id", "other", "--dry-run"]) == 0
    assert "reset of 'other'" in capsys.readouterr().out
    assert place.untouched()


@pytest.mark.parametrize(
    ("arguments", "new"),
    [
        (["--to", "latest"], ["2", "1"]),
        (["--to", "earliest"], ["0", "0"]),
        (["--to", "offset:1"], ["1", "1"]),
        (["--to", "offset 9"], ["2", "1"]),
        (["--to", "1970-01-01T00:00:01.001Z"], ["1", "0"]),
        (["--to", "1970-01-01T01:00:01.002+01:00"], ["1", "1"]),
        (["--to", "-2h"], ["2", "1"]),
        (["--to", "-100000d"], ["0", "0"]),
        (["--shift-by", "-1"], ["1", "0"]),
        (["--shift-by", "3"], ["2", "1"]),
    ],
)
def test_positions_after_a_reset(
    place: Place, capsys: pytest.CaptureFixture[str], arguments: list[str], new: list[str]
) -> None:
    assert place.reset(*arguments, "--yes") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row[4] for row in rows if row[:1] == ["lines"]] == new
    assert place.make().lag() == len(LINES) - sum(map(int, new)), "what is committed is what was shown"


@pytest.mark.parametrize("text", ["yesterday", "2026-01-31T12:00:00", "-2 weeks", "-5", "offset:-1", "17", ""])
def test_invalid_offsets_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="is no place to go to"):
        target(text)


def test_offset_arguments_are_parsed() -> None:
    assert target("-1.5h") == Target("ago", 5_400_000)
    assert target("offset:7") == target("offset=7") == Target("offset", 7)
    assert target("1970-01-01T00:00:02z") == Target("since", 2_000)


def test_answering_no_changes_nothing(place: Place) -> None:
    from stoatflow._runtime import bridge

    def disagree(plan: str) -> None:
        raise KeyError(plan[:1])

    settings: Any = sf.Settings.from_file(place.config, environ={})
    topology: sf.Topology = runpy.run_path(str(place.app))["topology"]
    with pytest.raises(KeyError, match=r"\{"):
        bridge.reset(topology.plan, settings.pairs(), "earliest", 0, [], agree=disagree)
    assert place.untouched()


def test_clean_up_removes_the_local_state_only(place: Place) -> None:
    once = len(place.outputs())
    app = place.make()
    app.clean_up()
    assert not place.state.exists()
    app.clean_up()  # nothing is left to remove
    place.broker.produce("lines", None, b"be")
    place.count()
    assert place.outputs()[once:] == [("be", 3)], "the changelog had the rest"


def test_clean_up_is_refused_while_it_runs(place: Place) -> None:
    app = place.make()
    with app:
        while str(app.state) != "RUNNING":
            assert not app.wait(0.01)
        with pytest.raises(RuntimeError, match="is running"):
            app.clean_up()
        with pytest.raises(sf.StateLockedError, match="in use by another process"):
            place.make().clean_up()
    assert place.state.exists()
    app.clean_up()
    assert not place.state.exists()
