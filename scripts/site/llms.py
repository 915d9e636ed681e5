"""llms.txt and llms-full.txt, for programs that read the documentation: `llms.py`, or `llms.py --check`.

Takes the navigation of mkdocs.yml and the pages. As a script it writes docs/llms.txt, the list of all pages with a
sentence on each; with `--check` exit code 1 if it is stale. As a hook of mkdocs it adds to the built site the text of
each page beside its HTML, and llms-full.txt, all pages but those of the section "Optional" in one file.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "docs" / "llms.txt"
OPTIONAL = ("Measurements", "Lab notes", "Decisions")
"""Sections that a reader may leave out: they explain why and how fast, not how."""
SKILL = "skills/port-this-topology.md"
_ENTRY = re.compile(r"^( *)- (?:(\"[^\"]+\"|[^:\"]+): ?)?([\w./-]+\.md)?$")
_FENCE = re.compile(r"^(```\w+) (?:no-run|run)$", re.MULTILINE)
_LONGEST = 240

HEAD = f"""# StoatFlow for Python

> Kafka Streams' DSL in Python on a Rust engine: one process on one machine; outputs, state and offsets are committed
> together, exactly once. `import stoatflow as sf`. No JVM, no rebalancing, no internal repartition topics.

- The Python code of these pages runs in the tests, unless a comment above it says why not. Links are relative to this
  file; each leads to Markdown.
- A method of Kafka Streams has the same name in snake_case; `with...` methods of configuration objects are keyword
  arguments. `reference/parity.md` has each one.
- Windows and joins need a grace, and tables and aggregations a name for their store.
- To port a topology from Java, follow [the skill]({SKILL}): its last step, `stoatflow prove`,
  compares the port with the real Kafka Streams.
- `stoatflow explain NAME` explains an error, a setting or a metric without a network.
"""


class Page(NamedTuple):
    """A page of the navigation."""

    section: str
    title: str
    path: str
    optional: bool


def pages(root: Path = ROOT) -> list[Page]:
    """Return the pages in the order of the navigation."""
    _, _, nav = (root / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")
    found: list[Page] = []
    around: list[tuple[int, str]] = []
    for line in nav.splitlines():
        entry = _ENTRY.match(line)
        if entry is None:
            continue
        indent, title, path = len(entry[1]), (entry[2] or "").strip('"'), entry[3]
        around = [one for one in around if one[0] < indent]
        if path is None:
            around.append((indent, title))
            continue
        sections = [name for _, name in around]
        heading = _heading((root / "docs" / path).read_text("utf-8"))
        optional = any(name in OPTIONAL for name in sections)
        found.append(Page("Optional" if optional else sections[-1], title or heading, path, optional))
    return found


def _heading(text: str) -> str:
    match = re.search(r"^# (.+)$", text, re.MULTILINE)
    return match[1] if match else ""


def summary(text: str) -> str:
    """Return the first sentence of a page, without its links."""
    _, _, body = text.partition("\n# ") if text.startswith("---") else text.partition("# ")
    body = re.sub(r"<!--.*?-->|^```.*?^```", "", body.partition("\n")[2], flags=re.DOTALL | re.MULTILINE)
    for paragraph in re.split(r"\n\s*\n", body):
        plain = re.sub(r"\s+", " ", re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)).strip()
        if plain and not plain.startswith(("#", "|", "- ", "* ")):
            sentence = re.match(r".+?[.:](?= [A-Z`]|$)", plain)
            short = (sentence[0] if sentence else plain).rstrip(":.")
            return short if len(short) <= _LONGEST else short[:_LONGEST].rsplit(" ", 1)[0] + " ..."
    return ""


def listed() -> str:
    """Return the text of llms.txt."""
    lines = [HEAD]
    known = pages()
    for section in dict.fromkeys(page.section for page in sorted(known, key=lambda page: page.optional)):
        lines += [f"## {section}", ""]
        for page in known:
            if page.section == section:
                about = "" if page.optional else summary((ROOT / "docs" / page.path).read_text("utf-8"))
                lines.append(f"- [{page.title}]({page.path})" + (f": {about}" if about else ""))
        lines.append("")
    return "\n".join(lines)


def full(root: Path = ROOT) -> str:
    """Return the text of llms-full.txt."""
    parts = [HEAD]
    for page in pages(root):
        if not page.optional:
            text = _FENCE.sub(r"\1", (root / "docs" / page.path).read_text("utf-8"))
            parts.append(f"<!-- {page.path} -->\n\n{text}")
    return "\n".join(parts)


def on_post_build(config: MkDocsConfig) -> None:
    """Add the texts to the site."""
    site, docs = Path(config.site_dir), Path(config.docs_dir)
    for page in pages(docs.parent):
        target = site / page.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(_FENCE.sub(r"\1", (docs / page.path).read_text("utf-8")), "utf-8")
    (site / "llms-full.txt").write_text(full(docs.parent), "utf-8")


def main() -> int:
    """Write the list, or check it."""
    text = listed()
    if "--check" in sys.argv:
        stale = not LIST.exists() or LIST.read_text("utf-8") != text
        if stale:
            print("docs/llms.txt is stale. Next: make docs", file=sys.stderr)
        return int(stale)
    LIST.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
