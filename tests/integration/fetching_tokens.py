"""A function for `oauth_cb` in its own process: its endpoint and its client are in the environment."""

from __future__ import annotations

import json
import os
import time
import urllib.parse
import urllib.request

import stoatflow as sf


def fetch() -> sf.OAuthToken:
    """Request a token from the tests' endpoint, as an identity provider's library would."""
    form = {"grant_type": "client_credentials"} | {
        name: os.environ[f"TOKEN_{name.upper()}"] for name in ("client_id", "client_secret")
    }
    body = urllib.parse.urlencode(form).encode()
    with urllib.request.urlopen(os.environ["TOKEN_ENDPOINT"], body, timeout=5) as answer:  # noqa: S310  # of the tests
        given = json.load(answer)
    return sf.OAuthToken(given["access_token"], time.time() + given["expires_in"], principal=form["client_id"])
