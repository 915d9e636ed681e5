"""The admin port of an application in this process.

Takes the settings for address and token; returns what the port answers, or nothing while it doesn't.
"""

from __future__ import annotations

import json
import ssl
from typing import TYPE_CHECKING, Any

from stoatflow.cli.admin_port import AdminPort, RefusedError, read_token
from stoatflow.errors import ConfigError
from stoatflow.opentelemetry.exposition import Family, parse

if TYPE_CHECKING:
    from stoatflow.app import StoatFlow

_SECONDS = 5.0


class OwnPort:
    """Asks the admin port, as long as there is one."""

    def __init__(self, app: StoatFlow, token: str | None, trust: ssl.SSLContext | None) -> None:
        """Remember how to get in; the address is known when the application runs."""
        self._app = app
        self._token = token
        self._trust = trust

    def families(self) -> list[Family] | None:
        """Return all metrics; `None` while the application doesn't run."""
        text = self._read("/metrics")
        return None if text is None else parse(text.decode())

    def barriers(self) -> dict[str, Any] | None:
        """Return what `/debug/barriers` says; `None` while the application doesn't run."""
        text = self._read("/debug/barriers")
        return None if text is None else dict(json.loads(text))

    def _read(self, path: str) -> bytes | None:
        url = self._app.admin_url
        if url is None:
            return None
        try:
            return AdminPort(url.rstrip("/"), self._token, self._trust).read(path, seconds=_SECONDS)[1]
        except RefusedError as error:
            if error.status is None and str(self._app.state) != "RUNNING":
                return None  # it has just stopped, or starts
            raise


def own_port(app: StoatFlow) -> OwnPort:
    """Return the port; raise `ConfigError` where this process can't get in."""
    given = {name: str(app.settings.get(f"admin.{name}", "off")) for name in ("token", "ssl.ca", "ssl.certificate")}
    if app.settings.get("admin.listen") == "off":
        raise ConfigError(
            "OpenTelemetry reads the metrics of the admin port, and admin.listen is off",
            next_step="leave admin.listen out: by default only this machine reaches it",
        )
    if given["ssl.ca"] != "off" and given["token"] == "off":  # noqa: S105  # that there is none
        raise ConfigError(
            "OpenTelemetry reads the metrics of the admin port, which wants a client certificate",
            next_step="set admin.token too: a client with the token needs no certificate",
        )
    trust = None
    if given["ssl.certificate"] != "off":
        # Its own certificate, whatever the name in it: the address is that of this process.
        trust = ssl.create_default_context(cafile=given["ssl.certificate"])
        trust.check_hostname = False
        # Whoever signed it may be unknown here.
        trust.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    token = None if given["token"] == "off" else read_token(given["token"])  # noqa: S105  # that there is none
    return OwnPort(app, token, trust)
