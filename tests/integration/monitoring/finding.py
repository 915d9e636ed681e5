"""Finding Prometheus and promtool on this machine, or fetching them.

Takes: `PROMETHEUS_HOME`, `PATH`, `XDG_CACHE_HOME`.
Gives: paths of the two programs.
Owns: the folder `prometheus` in the cache of the project, and the sentences that tell a reader how to get them.
Never: installs anything into the system, needs root.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from broker.java_home import cache_dir

_PROGRAMS = ("prometheus", "promtool")
_GET = (
    "Install it: `sudo apt-get install prometheus` (Debian, Ubuntu), `sudo dnf install golang-github-prometheus` "
    "(Fedora), `brew install prometheus` (macOS), or point PROMETHEUS_HOME to an unpacked release. The tests start a "
    "server of their own: one that runs is neither needed nor touched."
)


class PrometheusError(RuntimeError):
    """Prometheus is missing; the message says how to get it."""


class Programs(NamedTuple):
    """The server, and the tool that checks its files."""

    prometheus: Path
    promtool: Path


def find_prometheus() -> Programs:
    """The programs of PROMETHEUS_HOME, `PATH` or the cache; otherwise Debian's package is fetched into the cache."""
    return _found(os.environ.get("PROMETHEUS_HOME"), os.environ.get("PATH"), cache_dir() / "prometheus")


@functools.cache
def _found(home: str | None, path: str | None, cached: Path) -> Programs:
    if home:
        return _running(_in(Path(home)), f"PROMETHEUS_HOME={home}")
    on_path = [shutil.which(name, path=path) for name in _PROGRAMS]
    if all(on_path):
        return _running(Programs(*(Path(found or "") for found in on_path)), "PATH")
    if not all(program.is_file() for program in _in(cached)):
        _fetch(cached)
    return _running(_in(cached), str(cached))


def _in(folder: Path) -> Programs:
    return Programs(*(folder / name for name in _PROGRAMS))


def _running(found: Programs, where: str) -> Programs:
    for program in found:
        try:
            answer = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60, check=False)
        except OSError as error:
            raise PrometheusError(f"{program} (from {where}) can't be run: {error}. {_GET}") from error
        if answer.returncode != 0:
            raise PrometheusError(f"{program} (from {where}) does not run: {answer.stderr.strip()!r}. {_GET}")
    return found


def _fetch(into: Path) -> None:
    """Unpacks Debian's package into the cache: the system doesn't change."""
    if not all(shutil.which(tool) for tool in ("apt-get", "dpkg-deb")):
        raise PrometheusError(
            "Prometheus (the server and promtool) is needed to test the alert rules and was not found, and there is "
            f"no apt-get to fetch it with. {_GET}"
        )
    print("==> fetching Prometheus with apt-get, once, into the cache", file=sys.stderr)
    into.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=into.parent, prefix="prometheus-") as scratch:
        folder = Path(scratch)
        _download(folder)
        package = next(folder.glob("prometheus_*.deb"))
        _run(["dpkg-deb", "-x", str(package), str(folder / "unpacked")], folder)
        ready = folder / "ready"
        ready.mkdir()
        for name in _PROGRAMS:
            (folder / "unpacked" / "usr" / "bin" / name).rename(ready / name)
        shutil.rmtree(into, ignore_errors=True)
        # Another process may have fetched the same package meanwhile.
        with contextlib.suppress(OSError):
            ready.rename(into)


def _download(folder: Path) -> None:
    """Uses the system's package lists; if they are missing or old, fetches its own."""
    try:
        _run(["apt-get", "download", "prometheus"], folder)
    except PrometheusError:
        for name in ("lists/partial", "archives/partial"):
            (folder / name).mkdir(parents=True)
        own = ["-o", f"Dir::State::lists={folder}/lists", "-o", f"Dir::Cache={folder}"]
        _run(["apt-get", *own, "update"], folder)
        _run(["apt-get", *own, "download", "prometheus"], folder)


def _run(command: list[str], folder: Path) -> None:
    answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    if answer.returncode != 0:
        output = answer.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise PrometheusError(f"Prometheus can't be fetched: `{command[0]}` says: {output[0]} {_GET}")
