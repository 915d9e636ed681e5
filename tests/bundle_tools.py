"""Bundles in tests: `stoatflow bundle`, the contents of its file, and a proxy in front of an admin port.

Takes the arguments of the command. The proxy answers some paths itself, and others never.
"""

from __future__ import annotations

import json
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from concurrency import until
from http_calls import ask
from stoatflow import State, StoatFlow
from stoatflow.cli import main

ANSWERS = {
    "info.json", "state.json", "health-live.json", "health-ready.json", "threads.json", "barriers.json", "offsets.json",
    "errors.json", "watermarks.json", "config.json", "top.json", "topology.json", "stores.json",
    "dead-letters.json", "endpoints.json", "findings.json", "metrics-1.txt", "metrics-2.txt",
}  # fmt: skip
OF_MACHINE = {"versions.json", "machine.json", "environment.json", "process.json", "state-directory.json"}


class Archive:
    """The contents of a zip file."""

    def __init__(self, path: Path) -> None:
        with zipfile.ZipFile(path) as archive:
            self.folders = {name.partition("/")[0] for name in archive.namelist()}
            self.texts = {name.rpartition("/")[2]: archive.read(name).decode() for name in archive.namelist()}
        self.manifest = json.loads(self.texts["MANIFEST.json"])
        self.summary = self.texts["SUMMARY.md"]
        self.missing = {each["from"]: each["reason"] for each in self.manifest["missing"]}

    def data(self, name: str) -> Any:
        return json.loads(self.texts[name])

    def everything(self) -> str:
        return "\n".join(self.texts.values())


def bundle(folder: Path, *arguments: str | None, interval: str = "0") -> Archive:
    """Create a bundle. A slow machine has all the time that it needs, unless the test sets a limit."""
    given = [str(each) for each in arguments]
    given += [] if "--timeout" in given else ["--timeout", "60"]
    assert main(["bundle", *given, "-o", str(folder / "made.zip"), "--interval", interval]) == 0
    return Archive(folder / "made.zip")


def works_off(app: StoatFlow) -> None:
    until(lambda: app.state is State.ERROR or (app.state is State.RUNNING and app.lag() == 0))
    assert app.error is None


class PortProxy(BaseHTTPRequestHandler):
    """In front of a real port; doesn't answer some paths, and answers others itself."""

    url = ""
    silent: tuple[str, ...] = ()
    drips = ""
    own: dict[str, bytes] = {}  # noqa: RUF012  # set by each test for itself
    goes_on = threading.Event()

    def do_GET(self) -> None:
        if self.path in self.silent:
            self.goes_on.wait(600)
            return
        if self.path == self.drips:
            self.send_response(200)
            self.end_headers()
            while not self.goes_on.wait(0.1):
                self.wfile.write(b" ")
            return
        body = self.own[self.path] if self.path in self.own else ask(self.url, self.path).text.encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def port_proxy(
    url: str | None, silent: tuple[str, ...] = (), own: dict[str, bytes] | None = None, drips: str = ""
) -> Iterator[str]:
    """The address of a proxy in front of an application."""
    given = {"url": url, "silent": silent, "own": own or {}, "drips": drips, "goes_on": threading.Event()}
    handler = type("Handler", (PortProxy,), given)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        handler.goes_on.set()  # type: ignore[attr-defined]  # made above
        server.shutdown()
        thread.join()
        server.server_close()
