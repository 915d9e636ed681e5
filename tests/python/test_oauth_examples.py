"""The functions for three clouds in docs/guide/clusters.md, with stand-ins for the clouds' libraries."""

from __future__ import annotations

import base64
import json
import re
import sys
import time
import types
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import stoatflow as sf
from stoatflow._runtime.oauth_calls import TokenCalls

PAGE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "clusters.md"


def example(word: str) -> dict[str, Any]:
    """The names that the example containing this word defines."""
    blocks = re.findall(r"```python no-run\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    found = [code for code in blocks if word in code]
    assert len(found) == 1, word
    names: dict[str, Any] = {"sf": sf}
    exec(compile(found[0], word, "exec"), names)  # noqa: S102  # the page is ours
    return names


def module(monkeypatch: pytest.MonkeyPatch, name: str, **contents: object) -> None:
    """A stand-in for a library, and for the packages above it."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        path = ".".join(parts[:end])
        if end == len(parts) or path not in sys.modules:
            made = types.ModuleType(path)
            made.__path__ = []
            monkeypatch.setitem(sys.modules, path, made)
            if end > 1:
                setattr(sys.modules[".".join(parts[: end - 1])], parts[end - 1], made)
    vars(sys.modules[name]).update(contents)


class Heard:
    """What the engine would receive."""

    def __init__(self) -> None:
        """Nothing received yet."""
        self.outcome: list[Any] = []

    def token(self, *given: object) -> None:
        """A token."""
        self.outcome = ["token", *given]

    def raised(self, what: str) -> None:
        """An exception."""
        self.outcome = ["raised", what]

    def late(self, within_s: float) -> None:
        """Too late."""
        self.outcome = ["late", within_s]

    def wrong(self, what: str) -> None:
        """Nonsense."""
        self.outcome = ["wrong", what]


def heard(function: object) -> tuple[str, float]:
    """The token as the engine receives it, and its remaining lifetime."""
    heard = Heard()
    TokenCalls(function)._call(heard, 5.0)
    assert heard.outcome[0] == "token", heard.outcome
    return heard.outcome[1], heard.outcome[2]


def test_msk_with_iam(monkeypatch: pytest.MonkeyPatch) -> None:
    class MSKAuthTokenProvider:
        @staticmethod
        def generate_auth_token(region: str) -> tuple[str, int]:
            return f"signed-{region}", int((time.time() + 900) * 1000)

    module(monkeypatch, "aws_msk_iam_sasl_signer", MSKAuthTokenProvider=MSKAuthTokenProvider)
    text, lifetime_s = heard(example("MSKAuthTokenProvider")["fetch_token"])
    assert text == "signed-eu-central-1"
    assert 800 < lifetime_s <= 900


def test_azure(monkeypatch: pytest.MonkeyPatch) -> None:
    class DefaultAzureCredential:
        def get_token(self, scope: str) -> object:
            assert scope.endswith("/.default")
            return types.SimpleNamespace(token="azure", expires_on=int(time.time() + 3600))  # noqa: S106

    module(monkeypatch, "azure.identity", DefaultAzureCredential=DefaultAzureCredential)
    text, lifetime_s = heard(example("DefaultAzureCredential")["fetch_token"])
    assert text == "azure"
    assert 3500 < lifetime_s <= 3600


def test_google(monkeypatch: pytest.MonkeyPatch) -> None:
    class Credentials:
        service_account_email = "me@example.iam"
        token: str
        expiry: datetime

        def refresh(self, request: object) -> None:
            self.token = "access"  # noqa: S105
            self.expiry = (datetime.now(timezone.utc) + timedelta(hours=1)).replace(tzinfo=None)

    module(monkeypatch, "google.auth", default=lambda scopes: (Credentials(), "project"))
    module(monkeypatch, "google.auth.transport.requests", Request=object)
    text, lifetime_s = heard(example("google.auth")["fetch_token"])
    header, claims, token = (base64.urlsafe_b64decode(part + "==") for part in text.split("."))
    assert json.loads(header)["alg"] == "GOOG_OAUTH2_TOKEN"
    assert json.loads(claims)["sub"] == "me@example.iam"
    assert token == b"access"
    assert 3500 < lifetime_s <= 3600
