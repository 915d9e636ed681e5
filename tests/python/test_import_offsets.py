"""`stoatflow import-offsets`: a new application continues where a group stopped; what is rejected."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

import stoatflow as sf
from stoatflow import EmbeddedBroker, StoatFlow
from stoatflow.cli import main
from stoatflow.cli.import_offsets import stores_fed_by

COPY = """
import stoatflow as sf

builder = sf.StreamsBuilder()
builder.stream(["a", "b"], key=str, value=str).to("out", key=str, value=str)
topology = builder.build()
"""
COUNT = """
import stoatflow as sf

builder = sf.StreamsBuilder()
names = builder.table("names", key=str, value=str, store="names-table")
builder.stream(["a", "b"], key=str, value=str).group_by_key().count(store="counts").to_stream().to("out")
topology = builder.build()
"""


class Place:
    """Two topics with ten records each, and an application `old` that has copied them."""

    def __init__(self, folder: Path, broker: EmbeddedBroker) -> None:
        self.folder, self.broker = folder, broker
        for topic in ("a", "b", "names", "out"):
            broker.create_topic(topic, partitions=1)
        self.write("first", 10)
        (folder / "route_app.py").write_text(COPY, "utf-8")
        (folder / "count_app.py").write_text(COUNT, "utf-8")
        self.copy("old", 20)

    def write(self, value: str, count: int) -> None:
        for n in range(count):
            for topic in ("a", "b"):
                self.broker.produce(topic, f"{topic}{n}".encode(), value.encode(), timestamp=1_000 + n)

    def copy(self, application: str, records: int) -> list[str]:
        """Run it until it has committed this many records; returns what it wrote."""
        before = len(list(self.broker.read("out")))
        topology = runpy.run_path(str(self.folder / "route_app.py"))["topology"]
        given = {"application.id": application, "state.dir": str(self.folder / "state")}
        with StoatFlow(topology, sf.Settings(given, environ={}), broker=self.broker) as app:
            while app.metrics()["records_committed"] < records:
                assert not app.wait(0.01)
        return [(row.value or b"").decode() for row in list(self.broker.read("out"))[before:]]

    def take_over(self, app: str, *arguments: str, application: str = "new", group: str = "old") -> int:
        where = ["--application-id", application, "--bootstrap", f"embedded:{self.broker.path}"]
        where += ["--state-dir", str(self.folder / "state")]
        return main(["import-offsets", str(self.folder / app), "--from-group", group, *where, *arguments])


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with EmbeddedBroker(tmp_path / "broker") as broker:
        yield Place(tmp_path, broker)


def test_a_new_application_goes_on_where_the_group_stopped(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.write("second", 5)
    assert place.take_over("route_app.py", "--dry-run") == 0
    shown = capsys.readouterr().out
    assert "begins where the group 'old' is" in shown
    assert "nothing was changed (--dry-run)" in shown
    assert place.take_over("route_app.py", "--yes") == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["a", "0", "-", "->", "10"] in rows
    assert ["b", "0", "-", "->", "10"] in rows
    assert place.copy("new", 10) == ["second"] * 10
    # The group is unchanged.
    assert place.copy("old", 10) == ["second"] * 10


def test_offsets_of_one_topic_only(place: Place) -> None:
    place.write("second", 5)
    assert place.take_over("route_app.py", "--yes", "--input-topic", "a") == 0
    assert sorted(place.copy("new", 20)) == ["first"] * 10 + ["second"] * 10


def test_an_application_that_is_not_new_is_refused(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.take_over("route_app.py", "--yes") == 0
    place.write("second", 1)
    place.copy("new", 2)
    capsys.readouterr()
    assert place.take_over("route_app.py", "--yes") == 2
    printed = capsys.readouterr()
    assert "'new' is not new: it has a committed offset in a-0 and" in printed.err
    assert "done" not in printed.out
    assert place.take_over("route_app.py", "--dry-run") == 2
    place.write("third", 1)
    assert place.copy("new", 2) == ["third"] * 2, "the refused import changed nothing"


@pytest.mark.parametrize("how", ["--yes", "--dry-run"])
def test_an_import_that_leaves_stores_empty_is_refused(
    place: Place, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place.take_over("count_app.py", how) == 2
    printed = capsys.readouterr().err
    assert "would be empty where the group 'old' is: 'names-table', 'counts'" in printed
    assert "start this one under its application.id" in printed
    assert place.take_over("count_app.py", how, "--empty-stores") == 0


def test_a_table_is_read_whole_if_its_topic_is_not_named(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    topology = runpy.run_path(str(place.folder / "count_app.py"))["topology"]
    assert stores_fed_by(topology, ["names"]) == ["names-table"]
    assert stores_fed_by(topology, ["a"]) == ["counts"]
    builder = sf.StreamsBuilder()
    builder.global_table("rates", key=str, value=str, store="rates")
    users = builder.table("users", key=str, value=str, store="users")
    clicks = builder.stream("clicks", key=str, value=str)
    clicks.join(users, lambda click, user: click + user).to("out", key=str, value=str)
    topology = builder.build()
    assert stores_fed_by(topology, ["clicks"]) == []
    assert stores_fed_by(topology, []) == ["users"], "a global table is read whole anyway"


def test_a_missing_group_is_refused(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.take_over("route_app.py", "--yes", group="odl") == 2
    printed = capsys.readouterr().err
    assert "the group 'odl' has committed no offset in what the topology reads: 'a', 'b'" in printed
    assert "kafka-consumer-groups.sh --list" in printed


def test_the_group_of_the_application_is_refused(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.take_over("route_app.py", "--yes", application="old") == 2
    assert "'old' is the group of this application itself" in capsys.readouterr().err


def test_without_a_terminal_a_confirmation_is_required(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    assert place.take_over("route_app.py") == 2
    assert "nothing was changed: you have to confirm it" in capsys.readouterr().err
    assert len(place.copy("new", 20)) == 20


def test_a_reset_to_the_offsets_of_a_group_deletes_the_state(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.copy("new", 20)
    place.write("second", 5)
    place.copy("new", 10)
    where = ["--application-id", "new", "--bootstrap", f"embedded:{place.broker.path}"]
    where += ["--state-dir", str(place.folder / "state")]
    assert main(["reset", str(place.folder / "route_app.py"), *where, "--to", "group:old", "--yes"]) == 0
    assert place.copy("new", 10) == ["second"] * 10
