"""Install a wheel where there is nothing else, and do what a newcomer does: `smoke.py WHEEL [PYTHON ...]`.

Takes a wheel, and interpreters (default: each python3.10 to python3.14 of the PATH that starts). For each it makes an
empty environment, installs the wheel with pip, and runs `stoatflow --version`, `stoatflow new`, the commands that it
names as the next ones, and `stoatflow demo`. Prints the seconds of each step; exit code 1 if one fails or all take over
three minutes, or if the wheel's list of its crates lacks a version or a licence.
Needs neither Rust nor Java. Writes only into a temporary folder.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
LIMIT_S = 180.0
"""From nothing to a demo that has been checked."""


def interpreters() -> list[str]:
    """Return the interpreters of the PATH: a shim of a version that isn't installed doesn't start."""
    found = [shutil.which(f"python{version}") for version in VERSIONS]
    return [
        path
        for path in found
        if path and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0
    ]


class Smoke:
    """One interpreter."""

    def __init__(self, python: str, folder: Path) -> None:
        """Take the interpreter, and a folder that is removed later."""
        self._python, self._folder, self._bin = python, folder, folder / "venv" / "bin"
        kept = ("HOME", "LANG", "PIP_INDEX_URL", "PIP_CACHE_DIR", "TMPDIR", "HTTPS_PROXY", "SSL_CERT_FILE")
        self._environment = {name: os.environ[name] for name in kept if name in os.environ}
        # Nothing else: neither Java nor a compiler.
        self._environment["PATH"] = str(self._bin)
        self.seconds: dict[str, float] = {}

    def run(self, wheel: Path) -> None:
        """Do all steps; raise at the first that fails."""
        project = self._folder / "shop"
        self._step("venv", [self._python, "-m", "venv", str(self._folder / "venv")])
        self._step("install", [str(self._bin / "pip"), "install", "--quiet", str(wheel), "pytest>=8"])
        version = self._step("version", [str(self._bin / "stoatflow"), "--version"])
        if not version.startswith("stoatflow "):
            raise SystemExit(f"stoatflow --version printed {version!r}")
        self._step("new", [str(self._bin / "stoatflow"), "new", "shop", "--in", str(self._folder)])
        self._step("pytest", [str(self._bin / "python"), "-m", "pytest", "-q"], project)
        tried = self._step("try it", [str(self._bin / "python"), "try_it.py"], project)
        if tried.split() != ["ann", "2", "bob", "1"]:
            raise SystemExit(f"try_it.py printed {tried!r}")
        self._step(
            "check", [str(self._bin / "stoatflow"), "run", "app.py", "--config", "settings.toml", "--check"], project
        )
        demo = self._step("demo", [str(self._bin / "stoatflow"), "demo"])
        for text in ("OK: nothing lost, nothing counted twice", "1 time, and recovered", "Python reads both topics"):
            if text not in demo:
                raise SystemExit(f"stoatflow demo did not print {text!r}:\n{demo}")

    def _step(self, name: str, command: list[str], folder: Path | None = None) -> str:
        began = time.monotonic()
        done = subprocess.run(
            command,
            cwd=folder or self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        self.seconds[name] = time.monotonic() - began
        if done.returncode != 0:
            raise SystemExit(f"{self._python}: {name} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout


def components(wheel: Path) -> int:
    """Return the number of crates in the wheel's list of its parts; raise if one has no version or licence."""
    with zipfile.ZipFile(wheel) as files:
        (name,) = [name for name in files.namelist() if ".dist-info/sboms/" in name]
        listed: list[dict[str, object]] = json.loads(files.read(name))["components"]
    lacking = [part["name"] for part in listed if not part.get("version") or not part.get("licenses")]
    # The workspace's own crates have the licence of the wheel.
    if foreign := [name for name in lacking if not str(name).startswith("stoatflow")]:
        raise SystemExit(f"{wheel.name}: no version or licence of {', '.join(map(str, foreign))}")
    return len(listed)


def main() -> int:
    """Try each interpreter."""
    wheel = Path(sys.argv[1]).resolve()
    code = 0
    print(f"{wheel.name}: {components(wheel)} crates", flush=True)
    for python in sys.argv[2:] or interpreters():
        with tempfile.TemporaryDirectory(prefix="stoatflow-smoke-") as folder:
            smoke = Smoke(python, Path(folder))
            smoke.run(wheel)
        total = sum(smoke.seconds.values())
        steps = ", ".join(f"{name} {seconds:.1f}" for name, seconds in smoke.seconds.items())
        print(f"{python}: {total:.0f} s ({steps})", flush=True)
        if total > LIMIT_S:
            print(f"that is longer than {LIMIT_S:.0f} s", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
