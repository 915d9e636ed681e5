"""Failpoints in the wheel: a real SIGKILL at each place, and a result without a trace of it."""

from __future__ import annotations

import re
import signal
from collections import defaultdict
from pathlib import Path

import pytest

import lives
from stoatflow import EmbeddedBroker

PAGE = Path(__file__).parents[2] / "docs" / "explain" / "exactly-once.md"
PLACES = re.findall(r"^\| `([a-z]+\.[a-z-]+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
LINES = 60


def run(folder: Path, failpoints: str = "") -> tuple[int, str]:
    """One life of a word count, until nothing is left or it is killed."""
    where = ["--bootstrap", f"embedded:{folder / 'broker'}", "--state-dir", folder / "state", "--lanes", "2"]
    return lives.run("-m", "stoatflow", "word-count", *where, "--every-update", failpoints=failpoints)


def write(folder: Path, first: int) -> None:
    with EmbeddedBroker(folder / "broker") as broker:
        for topic in ("lines", "counts"):
            broker.create_topic(topic, 2)
        broker.produce_many(
            "lines", ((n % 2, None, f"w{n % 7} all".encode(), n + 1) for n in range(first, first + LINES))
        )


def test_the_page_lists_every_place(tmp_path: Path) -> None:
    write(tmp_path, 0)
    code, errors = run(tmp_path, "commit.before-flsh=kill")
    assert code not in {0, -signal.SIGKILL}
    assert "there is no place 'commit.before-flsh'" in errors
    listed = re.search(r"Places: ([a-z., -]+)\. Faults", " ".join(errors.split()))
    assert listed, errors
    assert listed[1].split(", ") == PLACES


# A shutdown only has work left while there is input; the kill harness of the integration tests covers it.
MET = [place for place in PLACES if place != "shutdown.barrier"]
THREADS = {
    "start": "stoatflow-main",
    "restore": "stoatflow-load-",
    "intake": "stoatflow-intake",
    "epoch": "stoatflow-commit",
    "lane": "stoatflow-lane-",
    "commit": "stoatflow-commit",
    "observe": "stoatflow-observe",
}


def written_twice(folder: Path, place: str) -> None:
    """Some lines are counted, and more are written."""
    write(folder, 0)
    code, errors = run(folder)
    assert code == 0, errors
    write(folder, LINES)
    for path in sorted((folder / "state").rglob("*"), reverse=True) if place == "restore.batch" else []:
        path.rmdir() if path.is_dir() else path.unlink()


@pytest.mark.parametrize("place", MET)
def test_a_kill_at_a_failpoint_loses_and_duplicates_nothing(tmp_path: Path, place: str) -> None:
    written_twice(tmp_path, place)
    code, errors = run(tmp_path, lives.kill_at(place))
    assert code == -signal.SIGKILL, errors
    check_the_next_life(tmp_path)


@pytest.mark.parametrize("place", MET)
def test_a_panic_at_a_failpoint_names_its_thread(tmp_path: Path, place: str) -> None:
    written_twice(tmp_path, place)
    code, errors = run(tmp_path, f"{place}=panic")
    assert code == 1, errors
    output = re.findall(r"the thread '([a-z0-9-]+)' panicked", errors)
    assert any(thread.startswith(THREADS[place.split(".", maxsplit=1)[0]]) for thread in output), errors
    check_the_next_life(tmp_path)


def check_the_next_life(tmp_path: Path) -> None:
    code, errors = run(tmp_path)
    assert code == 0, errors
    found: dict[str, list[int]] = defaultdict(list)
    with EmbeddedBroker(tmp_path / "broker") as broker:
        for row in broker.read("counts"):
            found[(row.key or b"").decode()].append(int.from_bytes(row.value or b"", "big"))
    assert found.pop("all") == list(range(1, 2 * LINES + 1))
    assert sum(len(counts) for counts in found.values()) == 2 * LINES
    for word, counts in found.items():
        assert counts == list(range(1, len(counts) + 1)), word
