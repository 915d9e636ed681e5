"""`stoatflow diff` on the command line: files, settings, exit codes, output."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from stoatflow.cli import main

OLD = """
import stoatflow as sf
from helper import TOPIC

builder = sf.StreamsBuilder()
builder.stream(TOPIC, key=str, value=int).group_by_key().count(store="counts")
topology = builder.build()
other = builder.build()
"""


@pytest.fixture
def files(tmp_path: Path) -> Callable[..., int]:
    for name, topic, text in (("old", "orders", OLD), ("new", "orders", OLD.replace("counts", "totals"))):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "app.py").write_text(text, "utf-8")
        (folder / "helper.py").write_text(f"TOPIC = {topic!r}", "utf-8")

    def diff(*arguments: str) -> int:
        old, new, *more = arguments
        return main(["diff", str(tmp_path / old), str(tmp_path / new), *more])

    return diff


def test_the_command_prints_the_comparison(files: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    assert files("old/app.py", "old/app.py:other") == 0
    assert capsys.readouterr().out == "stores\n  = counts  kept\n\nnothing of the state is lost\n"
    assert files("old/app.py", "new/app.py") == 1
    printed = capsys.readouterr().out
    assert "  ! totals  renamed\n      name: counts -> totals\n" in printed
    assert "  - <application.id>-counts-changelog\n" in printed
    assert printed.endswith("\nLOST: totals\n")
    assert files("new/app.py", "old/app.py", "--json") == 1
    reported = json.loads(capsys.readouterr().out)
    assert reported["lost"] is True
    assert reported["stores"] == [
        {
            "name": "counts",
            "old_name": "totals",
            "status": "renamed",
            "lost": True,
            "changes": ["name: totals -> counts"],
            "then": "begins empty, if it is the same store: its state is under the old name",
            "next": 'to go on, name it as its state is named: "totals"',
        }
    ]


def test_each_file_has_its_own_modules(
    files: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "new" / "helper.py").write_text("TOPIC = 'clicks'", "utf-8")
    assert files("old/app.py", "new/app.py", "--json") == 1
    assert json.loads(capsys.readouterr().out)["inputs"] == {"added": ["clicks"], "removed": ["orders"]}


def test_the_command_knows_settings(
    files: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text(f'"application.id" = "{name}"', "utf-8")
    one, two = str(tmp_path / "one.toml"), str(tmp_path / "two.toml")
    assert files("old/app.py", "old/app.py", "--config", one) == 0
    assert capsys.readouterr().out.startswith("stores\n")
    assert files("old/app.py", "old/app.py", "--config", one, "--new-config", two) == 1
    printed = capsys.readouterr().out
    assert printed.startswith("! application.id: one -> two\n")
    assert "  - one-counts-changelog\n" in printed
    assert printed.endswith("LOST: all state, with the application.id\n")
    assert files("old/app.py", "old/app.py", "--config", str(tmp_path / "none.toml")) == 2
    assert "Next: " in capsys.readouterr().err


def test_a_refused_start_is_reported(
    files: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = OLD.replace("count(store", "aggregate(sf.sum(sf.value), store")
    (tmp_path / "new" / "app.py").write_text(text, "utf-8")
    assert files("old/app.py", "new/app.py") == 1
    printed = capsys.readouterr().out
    assert "      value serde: int64 -> json\n      made by: count at app.py:6 -> aggregate at app.py:6\n" in printed
    assert "the next start is refused, because of counts\n" in printed
    (tmp_path / "new" / "app.py").write_text(OLD.replace('store="counts"', ""), "utf-8")
    files("old/app.py", "new/app.py")
    assert "unless ensure.explicit.naming=false; give each store a name\n  KSTREAM-AGG" in capsys.readouterr().out


RAISES = "import stoatflow as sf\nraise sf.SerdeError('wrong')"


@pytest.mark.parametrize(
    "text", ["1 / 0", RAISES, "import stoatflow", None], ids=["raises", "says it", "has none", "is not there"]
)
def test_a_file_that_is_wrong(
    files: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    if text is not None:
        (tmp_path / "wrong.py").write_text(text, "utf-8")
    assert files("old/app.py", "wrong.py") == 2, "1 is an answer"
    printed = capsys.readouterr()
    assert not printed.out
    assert "wrong" in printed.err


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ('builder.stream("new")', "read from where auto.offset.reset says, unless"),
        ('builder.stream("new", reset="earliest")', "read from the beginning, unless"),
        ('builder.stream("new", reset="latest")', "read from its end, unless"),
        ('builder.stream("new", reset=sf.OffsetReset.by_duration("1h"))', "read from where its reset= says, unless"),
        ('builder.global_table("new", store="g")', "read whole at each start"),
    ],
)
def test_where_a_new_input_begins(
    files: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str], source: str, says: str
) -> None:
    (tmp_path / "new" / "app.py").write_text(OLD.replace("topology =", f"{source}\ntopology ="), "utf-8")
    assert files("old/app.py", "new/app.py") == 0
    assert f"input topics\n  + new: {says}" in capsys.readouterr().out


FUNCTIONS = """
import stoatflow as sf

def double(value: int) -> int:
    return value * 2

def triple(value: int) -> int:
    return value * 3

builder = sf.StreamsBuilder()
orders = builder.stream("orders", key=str, value=int)
orders.map_values(double).group_by_key().count()
orders.map_values(triple).group_by_key().count()
topology = builder.build()
"""


def test_functions_are_recognized_by_name_anywhere_in_the_file(
    files: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "old" / "app.py").write_text(FUNCTIONS, "utf-8")
    moved = "# More lines.\n" + FUNCTIONS.replace("(double)", "(first)").replace("(triple)", "(double)")
    (tmp_path / "new" / "app.py").write_text(moved.replace("(first)", "(triple)"), "utf-8")
    assert files("old/app.py", "new/app.py", "--json") == 1
    assert [each["status"] for each in json.loads(capsys.readouterr().out)["stores"]] == ["misread", "misread"]
    (tmp_path / "new" / "app.py").write_text("# More lines.\n" + FUNCTIONS, "utf-8")
    assert files("old/app.py", "new/app.py") == 0
