"""Print the requirements of extras in pyproject.toml, one per line: `requirements.py test spark`.

Takes names of extras, prints their requirements, with extras of this package resolved. Installs nothing. pip can
install an extra only together with the package, and the package takes a Rust build.
"""

from __future__ import annotations

import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    from pip._vendor import tomli as tomllib  # 3.10 has no TOML reader, but pip brings one

PYPROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"


def requirements(extras: dict[str, list[str]], name: str) -> list[str]:
    """Return the requirements of one extra."""
    if name not in extras:
        raise SystemExit(f"pyproject.toml has no extra '{name}'; it has: {', '.join(sorted(extras))}")
    found: list[str] = []
    for requirement in extras[name]:
        if requirement.startswith("stoatflow["):
            inner = requirement.removeprefix("stoatflow[").removesuffix("]").split(",")
            found.extend(line for extra in inner for line in requirements(extras, extra.strip()))
        else:
            found.append(requirement)
    return found


def main() -> None:
    """Print."""
    project = tomllib.loads(PYPROJECT.read_text("utf-8"))["project"]
    lines = list(project.get("dependencies", []))
    for name in sys.argv[1:]:
        lines.extend(requirements(project["optional-dependencies"], name))
    sys.stdout.write("".join(f"{line}\n" for line in dict.fromkeys(lines)))


if __name__ == "__main__":
    main()
