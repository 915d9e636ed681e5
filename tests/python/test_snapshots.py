"""`output_snapshot`: written on request, compared line by line, and what it says when there is none or it differs."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import stoatflow as sf
from stoatflow.testing import Record
from stoatflow.testing.snapshots import Snapshots, shown

TEST = """
import stoatflow as sf
import pytest


@pytest.mark.parametrize("word", ["a/b", "c"])
def test_upper(topology_driver, output_snapshot, word):
    builder = sf.StreamsBuilder()
    builder.stream("in", key=str, value=str).map_values(str.{method}).to("out", key=str, value=str)
    driver = topology_driver(builder.build())
    driver.input("in", str, str).pipe("k", word, timestamp=5)
    output_snapshot(driver.output("out", str, str).read_all())
"""


def run(folder: Path, method: str, *options: str) -> str:
    (folder / "test_it.py").write_text(TEST.replace("{method}", method), "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    return subprocess.run(
        command, cwd=folder, env=dict(os.environ), capture_output=True, text=True, check=False, timeout=60
    ).stdout


def test_a_file_is_written_on_request_and_compared(tmp_path: Path) -> None:
    first = run(tmp_path, "upper")
    assert "2 failed" in first, first
    assert "there is no snapshot" in first
    assert "Next: write it: pytest --stoatflow-update" in first
    assert not (tmp_path / "snapshots").exists()
    assert "2 passed" in run(tmp_path, "upper", "--stoatflow-update")
    files = sorted((tmp_path / "snapshots" / "test_it").iterdir())
    assert [file.name for file in files] == ["test_upper-a-b.txt", "test_upper-c.txt"]
    assert files[0].read_text("utf-8") == '{"key": "k", "value": "A/B", "timestamp": 5}\n'
    assert "2 passed" in run(tmp_path, "upper")
    differs = run(tmp_path, "capitalize")
    assert "1 failed, 1 passed" in differs, differs
    assert '-{"key": "k", "value": "A/B", "timestamp": 5}' in differs
    assert '+{"key": "k", "value": "A/b", "timestamp": 5}' in differs
    assert "if the new results are right: pytest --stoatflow-update" in differs


@dataclass
class Order:
    item: str
    n: int


def test_what_is_shown() -> None:
    rows = [
        Record("é", {"n": [1, None], "b": b"\x00"}, 1, (("h", b"x"), ("n", None))),
        Record(sf.Windowed("a", sf.Window(0, 5)), Order("tea", 1), 2),
        Record(None, None, 3),
        Record("s", {1, 2}.__class__, 4),
    ]
    assert shown({"out": rows, "empty": []}).splitlines() == [
        "[out]",
        (
            '{"key": "é", "value": {"n": [1, null], "b": {"bytes": "00"}}, "timestamp": 1, '
            '"headers": [["h", {"bytes": "78"}], ["n", null]]}'
        ),
        '{"key": {"key": "a", "window": {"start": 0, "end": 5}}, "value": {"item": "tea", "n": 1}, "timestamp": 2}',
        '{"key": null, "value": null, "timestamp": 3}',
        '{"key": "s", "value": "<class \'set\'>", "timestamp": 4}',
        "[empty]",
    ]
    assert shown("a text") == shown("a text\n") == "a text\n"


def test_names_of_several_snapshots(tmp_path: Path) -> None:
    write = Snapshots(tmp_path / "test_x.py", "test_one[1]", update=True)
    write("first")
    write("second", "late ones")
    assert sorted(file.name for file in (tmp_path / "snapshots" / "test_x").iterdir()) == [
        "test_one-1-late-ones.txt",
        "test_one-1.txt",
    ]
    with pytest.raises(ValueError, match=r"two snapshots called 'late ones'. Next: give each a name"):
        write("third", "late ones")
    check = Snapshots(tmp_path / "test_x.py", "test_one[1]", update=False)
    check("first")
    many = "\n".join(str(number) for number in range(100))
    with pytest.raises(AssertionError, match=r"(?s)the results are not those of .*-second.*and \d+ more lines"):
        check(many, "late ones")
