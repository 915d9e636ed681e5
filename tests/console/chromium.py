"""A headless Chromium, driven through its debugging pipe (the DevTools protocol).

Takes an address, returns the contents of the page and its errors. Owns the browser and its profile.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
)  # fmt: skip
PATIENCE_S = 20.0
CODES = {
    "Enter": 13, "Tab": 9, "Escape": 27, " ": 32, "/": 191,
    "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
}  # fmt: skip


def find() -> str:
    """Return the browser's command; raise `RuntimeError` with what to install."""
    for name in NAMES:
        if found := shutil.which(name):
            return found
    raise RuntimeError("there is no Chromium. Debian, Ubuntu: apt-get install chromium")


class Page:
    """One page in its own browser."""

    def __init__(self, profile: Path, width: int = 1400, height: int = 1000) -> None:
        to_child, self._to = os.pipe()
        self._from, from_child = os.pipe()

        # The pipes may have the numbers that the browser expects already, so they are moved first.
        def pipes() -> None:
            reads, writes = os.dup(to_child), os.dup(from_child)
            os.dup2(reads, 3)
            os.dup2(writes, 4)

        self._browser = subprocess.Popen(
            [find(), *QUIET, "--remote-debugging-pipe", f"--user-data-dir={profile}"],
            preexec_fn=pipes,  # noqa: PLW1509  # no thread of the test holds a lock here
            close_fds=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_child)
        os.close(from_child)
        self._rest, self._number = b"", 0
        self.complaints: list[str] = []
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        os.killpg(self._browser.pid, signal.SIGKILL)
        self._browser.wait()
        os.close(self._to)
        os.close(self._from)

    def open(self, address: str) -> None:
        """Load a page."""
        self._call("Page.navigate", {"url": address})

    def resize(self, width: int, height: int) -> None:
        """Resize the page, in CSS pixels."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self._call("Emulation.setDeviceMetricsOverride", size)

    def run(self, script: str) -> Any:
        """Evaluate an expression in the page."""
        done = self._call("Runtime.evaluate", {"expression": script, "returnByValue": True, "awaitPromise": True})
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def until(self, script: str, is_right: Callable[[Any], bool] = bool) -> Any:
        """Wait until an expression of the page has the expected value."""
        end = time.monotonic() + PATIENCE_S
        while not is_right(found := self.run(script)):
            assert time.monotonic() < end, f"{script} is still {found!r}; the page says: {self.text()[:2000]}"
            time.sleep(0.1)
        return found

    def text(self, selector: str = "body") -> str:
        """Return the visible text."""
        return str(self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''"))

    def click(self, selector: str) -> None:
        """Click an element."""
        self.run(f"document.querySelector({json.dumps(selector)}).click()")

    def type(self, selector: str, text: str) -> None:
        """Write into a field, as a user would."""
        at = f"document.querySelector({json.dumps(selector)})"
        self.run(f"{at}.value = {json.dumps(text)}; {at}.dispatchEvent(new Event('input', {{ bubbles: true }}))")

    def press(self, key: str) -> None:
        """Press a key, as on a keyboard."""
        keys = {"key": key, "code": key, "windowsVirtualKeyCode": CODES[key]}
        texts = {"Enter": "\r", "/": "/", " ": " "}
        text = {"text": texts[key]} if key in texts else {}
        self._call("Input.dispatchKeyEvent", {"type": "keyDown", **keys, **text})
        self._call("Input.dispatchKeyEvent", {"type": "keyUp", **keys})

    def prefer_dark(self) -> None:
        """Prefer dark colours."""
        self._call("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]})

    def picture(self, path: Path) -> None:
        """Save a screenshot."""
        shot = self._call("Page.captureScreenshot", {"format": "png"})
        path.write_bytes(base64.b64decode(shot["data"]))

    def _call(self, method: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
        self._number += 1
        call: dict[str, Any] = {"id": self._number, "method": method, "params": parameters or {}}
        if not method.startswith("Target."):
            call["sessionId"] = self._session
        os.write(self._to, json.dumps(call).encode() + b"\0")
        while True:
            output = self._next()
            if output.get("id") == self._number:
                assert "error" not in output, (method, output["error"])
                result: dict[str, Any] = output["result"]
                return result
            self._hear(output)

    def _hear(self, message: dict[str, Any]) -> None:
        if message.get("method") == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(message["params"]["exceptionDetails"]))
        elif message.get("method") == "Runtime.consoleAPICalled" and message["params"]["type"] in ("error", "warning"):
            self.complaints.append(json.dumps(message["params"]["args"]))
        elif message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            self.complaints.append(json.dumps(message["params"]["entry"]))

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._from], [], [], PATIENCE_S)
            assert ready, f"the browser says nothing; its exit code is {self._browser.poll()}"
            more = os.read(self._from, 1 << 20)
            assert more, "the browser has ended"
            self._rest += more
        one, _, self._rest = self._rest.partition(b"\0")
        output: dict[str, Any] = json.loads(one)
        return output
