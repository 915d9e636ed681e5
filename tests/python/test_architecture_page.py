"""The files and functions named on the pages about the source exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = {"docs/explain/architecture.md": 80, "CONTRIBUTING.md": 15}
# `Type::function`, `function` in `crate/src/file.rs`; words may be separated by a line break.
NAMED = re.compile(r"((?:`[\w:]+`,\s+)*`[\w:]+`)\s+in\s+`([\w/]+\.(?:rs|py))`")
FILE = re.compile(r"`((?:crates|python|tests|docs|scripts|[a-z-]+/src)/[\w/.-]*\w)`")


def text(page: str) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```", "", (ROOT / page).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def found(path: str) -> Path:
    """The file of a path: from the root, or from the folder of the crates."""
    return next((base / path for base in (ROOT, ROOT / "crates") if (base / path).exists()), ROOT / path)


def functions(page: str) -> list[tuple[str, str]]:
    """Every function of a page with its file."""
    return [
        (name.strip("`"), path) for names, path in NAMED.findall(text(page)) for name in re.findall(r"`[\w:]+`", names)
    ]


def declared(name: str, source: str) -> bool:
    """Whether the source declares a function (and names its type)."""
    kind, _, function = name.rpartition("::")
    return bool(re.search(rf"\b(?:fn|def) {function}\b", source)) and (not kind or kind in source)


@pytest.mark.parametrize("page", PAGES)
def test_every_file_exists(page: str) -> None:
    paths = FILE.findall(text(page))
    assert paths
    assert [path for path in paths if not found(path).exists()] == []


CRATES = sorted(each.parent for each in (ROOT / "crates").glob("*/Cargo.toml"))


@pytest.mark.parametrize("crate", CRATES, ids=lambda crate: crate.name)
def test_each_crate_says_where_to_start(crate: Path) -> None:
    """Its README names files of its own sources, of another crate, or from the root; folders end with a slash."""
    readme = f"crates/{crate.name}/README.md"
    named = re.findall(r"`([\w./-]+(?:\.(?:rs|py|pyi|toml|md)|/))`", text(readme))
    places = (crate / "src", crate, ROOT, ROOT / "crates")
    assert named
    files = [path for path in named if path != "tests.rs"]
    gone = [path for path in files if not any((place / path.removeprefix("stoatflow-")).exists() for place in places)]
    assert gone == []


@pytest.mark.parametrize("page", PAGES)
def test_every_function_is_in_its_file(page: str) -> None:
    named = functions(page)
    assert len(named) >= PAGES[page]
    gone = [
        f"{name} in {path}"
        for name, path in named
        if not found(path).exists() or not declared(name, found(path).read_text("utf-8"))
    ]
    assert gone == []


@pytest.mark.parametrize(
    ("name", "there"), [("push", True), ("Chain::push", True), ("pus", False), ("Lane::push", False), ("gone", False)]
)
def test_a_function_that_is_gone_is_found(name: str, there: bool) -> None:
    assert declared(name, "impl Chain {\n    pub fn push(&self) {}\n}\n// gone\n") is there
