"""OAuth tokens (SASL/OAUTHBEARER): the result of the function in `oauth_cb`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True)
class OAuthToken:
    """A token and when it expires: `OAuthToken(text, expires_at=time.time() + 900)`.

    `expires_at` is in seconds since 1970, or a `datetime` with its zone. `principal` names the user in messages;
    `extensions` are those of SASL (KIP-342), such as `{"logicalCluster": "lkc-1"}`.

    >>> def token() -> sf.OAuthToken:
    ...     return sf.OAuthToken("secret", expires_at=1_900_000_000, principal="orders")
    >>> token().principal
    'orders'
    """

    token: str = field(repr=False)
    expires_at: float | datetime
    principal: str | None = None
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)


OAuthCallback = Callable[..., Any]
"""Returns an `OAuthToken` or, as with confluent-kafka, `(token, expires_at[, principal[, extensions]])`.

May be async. Called with `sasl.oauthbearer.config` if it takes an argument.
"""
