"""A Prometheus server on loopback, with its own folder, that ends with its test.

Takes: a configuration file.
Gives: its HTTP API.
Never: keeps anything.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any

from monitoring.finding import find_prometheus

_LISTENS = re.compile(r'msg="?Listening on"? .*address=(?:127\.0\.0\.1|\[?::1]?):(\d+)')
_START_S = 90


class PrometheusServer:
    """Started by `with`; `ask` is its API."""

    def __init__(self, configuration: Path, folder: Path) -> None:
        self._configuration = configuration
        self._folder = folder
        self._log = folder / "prometheus.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    def __enter__(self) -> PrometheusServer:
        command = [
            str(find_prometheus().prometheus),
            f"--config.file={self._configuration}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            "--web.listen-address=127.0.0.1:0",
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + _START_S
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.__exit__(None, None, None)
                raise AssertionError(f"Prometheus did not start:\n{self._log.read_text('utf-8')}")
            time.sleep(0.02)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(60)

    def _is_ready(self) -> bool:
        if not self._port:
            found = _LISTENS.search(self._log.read_text("utf-8"))
            self._port = int(found.group(1)) if found else 0
        if not self._port:
            return False
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/-/ready", timeout=5) as answer:
                return int(answer.status) == 200
        except (urllib.error.HTTPError, OSError):
            return False

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of a response of its API; a wrong query raises AssertionError with Prometheus's message."""
        url = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The current value of an expression: `metric` and `value` of each series."""
        found: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return found

    def firing(self) -> dict[str, list[dict[str, Any]]]:
        """The firing alerts, by name."""
        found: dict[str, list[dict[str, Any]]] = {}
        for alert in self.ask("alerts")["alerts"]:
            if alert["state"] == "firing":
                found.setdefault(alert["labels"]["alertname"], []).append(alert)
        return found
