"""The site of docs/: it builds strictly, loads nothing from other hosts, and has no dead links."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
REPOSITORY = "https://github.com/stoatflow/stoatflow-python"
ASKS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src", "link": "href"}
# The kinds of `link` that a browser loads; others are only informative.
FETCHED = {"stylesheet", "icon", "preload", "prefetch", "modulepreload", "preconnect", "dns-prefetch", "manifest"}


class Tag(NamedTuple):
    """An opening tag of a page."""

    page: str
    name: str
    attributes: dict[str, str]


class Tags(HTMLParser):
    """Collects the opening tags of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.page = page
        self.found: list[Tag] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(Tag(self.page, tag, {name: value or "" for name, value in attrs}))


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(site)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=environment)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("site") / "built"
    built = build(ROOT / "mkdocs.yml", folder)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.fixture(scope="module")
def tags(site: Path) -> list[Tag]:
    """All opening tags of all pages."""
    return list(_tags(site))


def _tags(site: Path) -> Iterator[Tag]:
    for page in site.rglob("*.html"):
        tags = Tags(str(page.relative_to(site)))
        tags.feed(page.read_text("utf-8"))
        yield from tags.found


def test_every_page_is_built_and_searchable(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text("utf-8"))
    found = {entry["location"].partition("#")[0] for entry in index["docs"]}
    pages = {path.relative_to(DOCS) for path in DOCS.rglob("*.md")} - {Path("adr/0000-template.md")}
    urls = {str(page.with_suffix("")) + "/" for page in pages}
    assert {re.sub(r"(^|/)README/$", r"\1", url) for url in urls} == found


def test_pages_load_nothing_from_other_hosts(site: Path, tags: list[Tag]) -> None:
    for tag in tags:
        url = tag.attributes.get(ASKS.get(tag.name, ""), "")
        if tag.name != "link" or FETCHED & set(tag.attributes.get("rel", "").split()):
            assert not re.match(r"(https?:)?//", url), tag
        assert "srcset" not in tag.attributes, tag
        assert "http" not in tag.attributes.get("style", ""), tag
        # The theme's scripts load these from other hosts: the repository's stars, and diagrams.
        assert tag.attributes.get("data-md-component") != "source", tag
        assert "mermaid" not in tag.attributes.get("class", ""), tag
    styles = [style.read_text("utf-8") for style in site.rglob("*.css")]
    assert styles
    fetched = re.compile(r"(?:url\(|@import )[\"']?((?:https?:)?//[^)\"']*)")
    assert [url for style in styles for url in fetched.findall(style)] == []


def test_links_to_the_repository_lead_to_files(tags: list[Tag]) -> None:
    links = {tag.attributes.get("href", "") for tag in tags if tag.name == "a"}
    inside = {link for link in links if link.startswith(f"{REPOSITORY}/")}
    assert f"{REPOSITORY}/blob/main/examples/serve_state.py" in inside
    assert f"{REPOSITORY}/tree/main/deploy/monitoring" in inside
    for link in inside:
        kind, _, path = link.removeprefix(f"{REPOSITORY}/").partition("/main/")
        file = ROOT / path.partition("#")[0]
        assert file.is_dir() if kind == "tree" else file.is_file(), link
    # No other relative link leaves the site.
    assert not any(link.startswith("../") and re.search(r"\.(py|rs|md)$", link) for link in links)


def test_pictures_are_in_the_site(site: Path, tags: list[Tag]) -> None:
    pictures = [(tag.page, tag.attributes["src"]) for tag in tags if tag.name == "img"]
    wanted = {path.name for path in DOCS.rglob("*.svg")}
    assert {source.rpartition("/")[2] for _, source in pictures} >= wanted
    for page, source in pictures:
        assert ((site / page).parent / source).resolve().is_file(), (page, source)


def test_code_blocks_and_tables_are_rendered(site: Path) -> None:
    fences = {page: page.read_text("utf-8").count("\n```") // 2 for page in DOCS.rglob("*.md")}
    for page, count in fences.items():
        if page.name == "0000-template.md":
            continue
        built = site / page.relative_to(DOCS).with_suffix("")
        text = ((built.parent if page.name == "README.md" else built) / "index.html").read_text("utf-8")
        main = text.partition("<article")[2].partition("</article>")[0]
        assert "```" not in re.sub(r"<code.*?</code>", "", main, flags=re.DOTALL), page
        assert main.count('<div class="highlight">') + main.count('class="language-') >= count, page
        assert "<p>|" not in main, f"{page}: a table that is none"
        assert "\\|" not in re.sub(r"<pre.*?</pre>", "", main, flags=re.DOTALL), page


def test_the_list_for_programs_is_up_to_date_and_has_all_pages(site: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "site" / "llms.py"), "--check"]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stderr
    text = (site / "llms.txt").read_text("utf-8")
    links = set(re.findall(r"\]\(([^)]+)\)", text))
    assert links == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} - {"adr/0000-template.md"}
    for link in links:
        assert (site / link).is_file(), link
        assert not re.search(r"^```\w+ (no-)?run$", (site / link).read_text("utf-8"), re.MULTILINE), link
    # The form of llmstxt.org: a title, a quote, sections of links, the last of them what may be left out.
    assert re.match(r"# .+\n\n(> .+\n)+", text)
    assert text.rpartition("\n## ")[2].startswith("Optional\n")


def test_the_whole_text_for_programs_is_in_one_file(site: Path) -> None:
    full = (site / "llms-full.txt").read_text("utf-8")
    required = (site / "llms.txt").read_text("utf-8").partition("\n## Optional\n")[0]
    paths = re.findall(r"^- \[[^]]+\]\(([^)]+)\)", required, re.MULTILINE)
    assert len(paths) > 60
    assert re.findall(r"^<!-- ([\w./-]+\.md) -->$", full, re.MULTILINE) == paths
    for path in paths:
        assert (site / path).read_text("utf-8") in full


def test_the_skill_names_commands_and_options_that_exist(site: Path) -> None:
    page = DOCS / "skills" / "port-this-topology.md"
    text = page.read_text("utf-8")
    assert re.match(r"---\nname: port-this-topology\ndescription: .+\n", text)
    commands = re.findall(r"(?:^|`)(stoatflow (\w+)[^`\n]*)", text, re.MULTILINE)
    assert {name for _, name in commands} == {"prove", "explain", "describe", "doctor", "record"}
    helps: dict[str, str] = {}
    for command, name in commands:
        if name not in helps:
            asked = [sys.executable, "-m", "stoatflow", name, "--help"]
            helps[name] = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
        for option in re.findall(r"--[\w-]+", command):
            assert re.search(rf"{option}\b", helps[name]), (command, option)
    # Options that the text names alone.
    for option in re.findall(r"`(--[\w-]+)", text):
        assert re.search(rf"{option}\b", helps["prove"]), option
    # The last command is the proof.
    blocks = re.findall(r"^```sh[^\n]*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks[-1].startswith("stoatflow prove app.py ")


def test_a_broken_link_is_an_error(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "scripts" / "site", tmp_path / "scripts" / "site")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "README.md").write_text(
        "# Home\n\n[file](gone.md), [anchor](other.md#gone), [outside](../examples/gone.py), ![picture](gone.svg)\n",
        "utf-8",
    )
    (docs / "other.md").write_text("# Other\n", "utf-8")
    (docs / "orphan.md").write_text("# Nobody leads here\n", "utf-8")
    config = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[0]
    (tmp_path / "mkdocs.yml").write_text(f"{config}\nnav: [README.md, other.md]\n", "utf-8")
    built = build(tmp_path / "mkdocs.yml", tmp_path / "built")
    assert built.returncode != 0
    for output in ("gone.md", "other.md#gone", "examples/gone.py", "gone.svg", "orphan.md"):
        assert output in built.stderr, built.stderr


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_lists_are_indented_for_both_renderers(page: Path) -> None:
    """The repository's host accepts two spaces, the site's Markdown needs four."""
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for line in re.findall(r"^ {1,3}(?:[-*] |\d+\. |\|).*", text, flags=re.MULTILINE):
        raise AssertionError(f"{page.name}: indent by four spaces: {line}")
    for line in re.findall(r"\n\n( {1,3}\S.*)", text):
        raise AssertionError(f"{page.name}: a paragraph of a list is indented by four spaces: {line}")
