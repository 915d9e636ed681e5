"""The pages are true: their code runs, their links have targets, and their tables match the engine.

Blocks of one page share their names and run in one separate process, in an empty folder. A block marked
`python no-run` needs a reason in a comment of the page just above it. A block with `title="app.py"` is a file: it is
written to that file for later blocks. A block marked `console run` is a transcript: its commands run in order with the
other blocks, and must print the output shown, where `/home/ann` stands for the folder. (Marker lines in tracebacks are
left out: they differ between versions of Python.) The commands of a block marked `sh run` must succeed.
"""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import stoatflow as sf
from stoatflow._runtime.bridge import node_kinds

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "CHANGELOG.md",
        *(ROOT / "docs").rglob("*.md"),
    ]
)
FILE = re.compile(r'\w+ title="([\w.]+)"')
REASON = re.compile(r"<!-- not run: .{10,} -->")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")


class Block(NamedTuple):
    """A code block of a page."""

    line: int
    marker: str
    code: str


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, with the line of their fence."""
    found: list[Block] = []
    marker, start, lines = None, 0, list[str]()
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if line.startswith("```"):
            if marker is None:
                marker, start, lines = line[3:].strip(), number, []
            else:
                found.append(Block(start, marker, "\n".join(lines)))
                marker = None
        elif marker is not None:
            lines.append(line)
    assert marker is None, f"{page}:{start}: the block is never closed"
    return found


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def runnable(page: Path) -> list[Block]:
    return [
        block
        for block in blocks(page)
        if block.marker in {"python", "console run", "sh run"} or FILE.fullmatch(block.marker)
    ]


TRANSCRIPTS = """
def _transcript(page, line, text):
    import contextlib, io, os, re, shlex, subprocess, sys
    from stoatflow.cli import main
    here, path = os.getcwd(), os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    def plain(text):
        text = re.sub(r"^ *[~^]+\\n", "", text.rstrip("\\n") + "\\n", flags=re.MULTILINE)
        return re.sub(r" in [0-9.]+s\\b", " in 0.00s", text)
    for part in re.split(r"^(?=\\$ )", text, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\\n")
        words = shlex.split(command)[1:]
        said = io.StringIO()
        if words[0] == "cd":
            os.chdir(words[1])
        elif words[0] == "stoatflow":
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
                main(words[1:])
        else:
            done = subprocess.run(words, env=os.environ | {"PATH": path}, stdout=-1, text=True)
            said.write(done.stdout)
        found = said.getvalue().replace(here, "/home/ann")
        assert plain(found) == plain(expected), f"{page}:{line}: {command} says\\n{found}"
    os.chdir(here)

def _commands(page, line, text):
    import os, subprocess, sys
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    done = subprocess.run(["bash", "-euc", text], env=os.environ | {"PATH": path}, capture_output=True, text=True)
    assert done.returncode == 0, f"{page}:{line}: {done.stdout}{done.stderr}"
"""


def statement(page: Path, block: Block) -> str:
    """The statement that runs a block."""
    if block.marker == "console run":
        return f"_transcript({name(page)!r}, {block.line}, {block.code!r})"
    if block.marker == "sh run":
        return f"_commands({name(page)!r}, {block.line}, {block.code!r})"
    if file := FILE.fullmatch(block.marker):
        return f"open({file[1]!r}, 'w', encoding='utf-8').write({block.code!r} + chr(10))"
    # Tracebacks show the line of the page.
    return f"exec(compile({chr(10) * block.line + block.code!r}, {name(page)!r}, 'exec'))"


def slug(heading: str) -> str:
    """The anchor that a heading gets."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", "-")


@pytest.mark.parametrize("page", [page for page in PAGES if runnable(page)], ids=name)
def test_the_code_runs(page: Path, tmp_path: Path) -> None:
    program = [TRANSCRIPTS, *(statement(page, block) for block in runnable(page))]
    script = tmp_path / "page.py"
    script.write_text("\n".join(program), "utf-8")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("STOATFLOW_")}
    result = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=environment | {"TMPDIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, f"{name(page)}\n{result.stdout}\n{result.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_skipped_code_block_has_a_reason(page: Path) -> None:
    lines = page.read_text("utf-8").splitlines()
    for block in blocks(page):
        language = block.marker.split(" ")[0]
        if language == "python" and block.marker != "python" and not FILE.fullmatch(block.marker):
            assert block.marker == "python no-run", f"{name(page)}:{block.line}: {block.marker!r} means nothing"
            assert REASON.fullmatch(lines[block.line - 2]), (
                f"{name(page)}:{block.line}: write the reason just above: <!-- not run: ... -->"
            )


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_resolve(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{name(page)}: {target} leads nowhere"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text("utf-8"), flags=re.MULTILINE)
            assert anchor in {slug(heading) for heading in headings}, f"{name(page)}: no heading for {target}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_pictures_exist(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    for words, target in re.findall(r"!\[([^\]]*)\]\(([^)\s]+)\)", text):
        assert words, f"{name(page)}: {target} needs words for those who can't see it"
        assert re.match(r"[a-z]+:", target) or (page.parent / target).is_file(), f"{name(page)}: no picture {target}"


def test_pictures_show_real_results() -> None:
    ended = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "pictures.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


def test_generated_pages_are_up_to_date() -> None:
    assert runpy.run_path(str(ROOT / "scripts" / "reference.py"))["stale"]() == [], "run: make docs"


OPERATOR_PAGES = ("reference/operators", "reference/tables", "reference/joins", "reference/windows", "guide/processors")


def test_every_operator_has_its_section() -> None:
    pages = [ROOT / "docs" / f"{page}.md" for page in OPERATOR_PAGES]
    headings = [line for page in pages for line in page.read_text("utf-8").splitlines() if line.startswith("##")]
    described = {name for heading in headings for name in re.findall(r"`(\w+)`", heading)}
    # Stores are added by methods of the builder.
    wanted = {{"state_store": "add_state_store", "global_store": "add_global_store"}.get(op, op) for op in node_kinds()}
    assert wanted <= described, wanted - described


def test_the_admin_page_names_every_endpoint() -> None:
    listed = set(re.findall(r'^    \(?\s*"(/[\w/-]*)",|^    \("(/[\w/-]*)"', _admin_source(), flags=re.MULTILINE))
    endpoints = {one or other for one, other in listed}
    page = (ROOT / "docs" / "reference" / "admin.md").read_text("utf-8")
    assert endpoints, "the endpoints were not found in the source: mend this test"
    assert {path for path in endpoints if f"`{path}`" not in page} == set()


def test_the_page_of_errors_names_every_public_class() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text("utf-8")
    errors = [each for each in dir(sf) if each.endswith("Error") and issubclass(getattr(sf, each), sf.StoatFlowError)]
    public = [each for each in errors if each != "StoatFlowError"]
    assert [each for each in public if f"`{each}`" not in page] == []


def _admin_source() -> str:
    source = (ROOT / "crates" / "engine" / "src" / "admin.rs").read_text("utf-8")
    return source.partition("const ENDPOINTS")[2].partition("];")[0].replace('(\n        "', '("')


def test_the_parity_page_is_up_to_date() -> None:
    ended = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "parity.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
