"""Hooks of mkdocs: the pages are written for the repository's host, and adapted to the site here.

Takes each page, returns it in the form of the site: a link to a file outside docs/ leads to the repository, and a code
block's second word (`run`, `no-run`), which is for the tests, is removed. Changes no file.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from xml.etree.ElementTree import SubElement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

    from markdown import Markdown
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from markdown.util import AtomicString

ROOT = Path(__file__).resolve().parents[2]
BRANCH = "main"
FENCE = re.compile(r"^(```\w+) (?:no-run|run)$", re.MULTILINE)
ROW = re.compile(r"^ *\|.*\|$", re.MULTILINE)
CODE = re.compile(r"`[^`\n]+`")
LONG = 26
"""Names with more characters may be broken after dots, so that a table has space for its other columns."""
SEAM = re.compile(r"(?<=[._/=(])(?=\w)")


def repository() -> str:
    """Return the URL of the repository."""
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Repository"])


class Outward(Treeprocessor):
    """Rewrites links that leave docs/ to the repository, and allows line breaks in long names in tables."""

    page = ""
    """The current page, such as `guide/running.md`."""

    def run(self, root: Element) -> None:
        """Visit all links and pictures."""
        for element, attribute in ((element, {"a": "href", "img": "src"}.get(element.tag)) for element in root.iter()):
            if attribute is not None:
                element.set(attribute, outward(self.page, element.get(attribute, "")))
        for cell in (*root.iter("td"), *root.iter("th")):
            for code in cell.iter("code"):
                let_break(code)


def let_break(code: Element) -> None:
    """Allow line breaks after the dots of a long name."""
    pieces = SEAM.split(code.text or "")
    if len(code.text or "") <= LONG or len(pieces) == 1:
        return
    code.set("class", "long")
    code.text = AtomicString(pieces[0])
    for piece in pieces[1:]:
        SubElement(code, "wbr").tail = AtomicString(piece)


def outward(page: str, link: str) -> str:
    """Return the link; a link to a folder, or to a file outside docs/, is rewritten to the repository."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc or not parts.path:
        return link
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), parts.path))
    # mkdocs reports links that lead nowhere. A folder is no page, not even in docs/.
    if not (ROOT / path).exists() or (path.startswith("docs/") and (ROOT / path).is_file()):
        return link
    kind = "tree" if (ROOT / path).is_dir() else "blob"
    return f"{repository()}/{kind}/{BRANCH}/{path}" + (f"#{parts.fragment}" if parts.fragment else "")


class ToRepository(Extension):
    """Runs `Outward` before mkdocs processes links."""

    def __init__(self, outward: Outward) -> None:
        """Take the `Outward` that knows the current page."""
        super().__init__()
        self._outward = outward

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802  # the name of Markdown's hook
        """Register it: mkdocs' own has the priority 0."""
        md.treeprocessors.register(self._outward, "to_repository", 5)


_outward = Outward()


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Set the repository's URL, and register the link rewriter."""
    config.repo_url, config.repo_name = repository(), "Repository"
    config.markdown_extensions.append(ToRepository(_outward))
    return config


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001  # by name
    """Remove what is for tests, and treat pipes in tables as the repository's host does."""
    _outward.page = page.file.src_uri
    without = FENCE.sub(r"\1", markdown)
    return ROW.sub(lambda row: CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), without)
