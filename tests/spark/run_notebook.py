"""Runs the cells of a notebook, top to bottom, as a kernel does: `run_notebook.py FILE`.

Prints what the cells print, and the value of each cell that ends with an expression.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def cells(path: Path) -> Iterator[str]:
    """Return the code of a notebook, cell by cell."""
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"])


def run(path: Path) -> None:
    """Run it. Functions of cells are of `__main__`, as in a kernel: so Spark pickles them by value."""
    names: dict[str, Any] = {"__name__": "__main__"}
    for number, code in enumerate(cells(path)):
        shown = f"{path.name}, cell {number}"
        body = ast.parse(code, shown).body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        # The notebook is this repository's own.
        exec(compile(ast.Module(body, []), shown, "exec"), names)  # noqa: S102
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), shown, "eval"), names)  # noqa: S307
            if value is not None:
                print(value)  # noqa: T201


if __name__ == "__main__":
    run(Path(sys.argv[1]))
