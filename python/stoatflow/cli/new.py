"""`stoatflow new NAME`: create a working project: an application, its tests, settings, CI, a Dockerfile.

Takes a name, for the folder and the application's id; writes files from `template/`. Never writes into a folder that is
not empty.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from stoatflow._version import __version__
from stoatflow.cli.commands import COMMANDS
from stoatflow.cli.json_output import add_json, print_json

if TYPE_CHECKING:
    from typing import Any

_NAME = re.compile(r"[a-z][a-z0-9-]{0,99}")
_TEMPLATE = Path(__file__).parent / "template"
_PLACES = {"dockerignore": ".dockerignore", "gitignore": ".gitignore", "test.yml": ".github/workflows/test.yml"}
_NEXT = ("pytest", "python try_it.py", "stoatflow run app.py --config settings.toml --check")


def add_to(commands: argparse._SubParsersAction[Any]) -> None:
    """Add the command."""
    parser = commands.add_parser("new", help=COMMANDS["new"])
    parser.add_argument("name", metavar="NAME", help="the folder, and the application's id: orders-by-customer")
    parser.add_argument("--in", dest="parent", type=Path, default=Path(), metavar="DIR", help="where (default: here)")
    add_json(parser, "a JSON object with the folder and its files")
    parser.set_defaults(run=run)


def run(given: argparse.Namespace) -> int:
    """Write the files, print the next steps."""
    from stoatflow.errors import ConfigError

    if _NAME.fullmatch(given.name) is None:
        raise ConfigError(
            f"{given.name!r} is no name of a project",
            next_step="use a-z, 0-9 and '-', a letter first, such as orders-by-customer",
        )
    folder = given.parent / given.name
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} is there already, and not empty", next_step="choose another name, or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for source in sorted(_TEMPLATE.glob("*.txt")):
        stem = source.name.removesuffix(".txt")
        text = source.read_text("utf-8").replace("PROJECT_NAME", given.name).replace("STOATFLOW_VERSION", __version__)
        name = _PLACES.get(stem, stem)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")
        files.append(name)
    if given.json:
        print_json(given, {"folder": str(folder), "files": files})
        return 0
    print(f"{folder} is made. Next:\n  cd {folder}")
    print("\n".join(f"  {command}" for command in _NEXT))
    return 0
