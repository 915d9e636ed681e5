"""Calls of the user's function that returns OAuth tokens (`oauth_cb`).

Takes the function, or `module:function`; returns the object that the engine calls when it needs a token. Each call runs
in a daemon thread of its own, so one that never returns blocks nothing. Never keeps a token: the client does.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
import os
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from stoatflow.errors import ConfigError
from stoatflow.oauth import OAuthCallback, OAuthToken

_log = logging.getLogger("stoatflow")


class Answer(Protocol):
    """Receives the outcome of a call; the first one counts."""

    def token(self, text: str, expires_in_s: float, principal: str | None, extensions: list[tuple[str, str]]) -> None:
        """The function returned a token."""

    def raised(self, what: str) -> None:
        """The function raised; it is called again."""

    def late(self, within_s: float) -> None:
        """The function exceeded its time limit."""

    def wrong(self, what: str) -> None:
        """The function returned something that is no token."""


class TokenCalls:
    """The function, wrapped for the engine."""

    def __init__(self, given: object, config: str = "") -> None:
        """Accept a callable or `module:function`; raise `ConfigError` for anything else."""
        function = _imported(given) if isinstance(given, str) else given
        if not callable(function):
            raise ConfigError(
                f"oauth_cb must be a function that returns a token, not {type(function).__name__}",
                next_step="pass a function, or its name as 'module:function'",
            )
        self._function: OAuthCallback = function
        self._config = (config,) if _takes_config(function) else ()
        self._said = ""
        self.name = f"oauth_cb ({getattr(function, '__qualname__', type(function).__name__)})"

    def begin(self, answer: Answer, within_s: float) -> None:
        """Call the function in a thread; returns at once."""
        threading.Thread(target=self._call, args=(answer, within_s), name="stoatflow-oauth", daemon=True).start()

    def _call(self, answer: Answer, within_s: float) -> None:
        try:
            returned = self._function(*self._config)
            if inspect.isawaitable(returned):
                returned = asyncio.run(_within(returned, within_s))
        except _LateError:
            answer.late(within_s)
            return
        except BaseException as error:  # SystemExit too: it ends only this call
            what = f"it raised {type(error).__name__}: {error}"
            if what != self._said:
                # Log the same error once: the function is called again soon.
                self._said = what
                _log.warning("%s failed", self.name, exc_info=error)
            answer.raised(what)
            return
        self._said = ""
        try:
            token = _token(returned)
            expires_in_s = _seconds(token.expires_at) - time.time()
            answer.token(token.token, expires_in_s, token.principal, list(token.extensions.items()))
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            answer.wrong(str(error))


class _LateError(Exception):
    """A time limit of this module, not an error of the function."""


async def _within(awaitable: Any, seconds: float) -> Any:
    task = asyncio.ensure_future(awaitable)
    done, _ = await asyncio.wait({task}, timeout=seconds)
    if not done:
        task.cancel()
        raise _LateError
    return task.result()


def _token(returned: object) -> OAuthToken:
    """Convert what the function returned; raise an error that says what it should return."""
    if isinstance(returned, Sequence) and not isinstance(returned, str | bytes) and 2 <= len(returned) <= 4:
        returned = OAuthToken(*returned)
    if not isinstance(returned, OAuthToken):
        # Only the type: the value may be a secret.
        raise TypeError(f"it returned {type(returned).__name__}")
    if not isinstance(returned.token, str):
        raise TypeError(f"its token is {type(returned.token).__name__}, not str")
    if not isinstance(returned.extensions, Mapping | None):
        raise TypeError(f"its extensions are {type(returned.extensions).__name__}, not a dict of texts")
    if returned.principal is not None and not isinstance(returned.principal, str):
        raise TypeError(f"its principal is {type(returned.principal).__name__}, not str")
    extensions = returned.extensions or {}
    if not all(isinstance(part, str) for pair in extensions.items() for part in pair):
        raise TypeError("its extensions are not a dict of texts")
    return OAuthToken(returned.token, returned.expires_at, returned.principal, extensions)


def _seconds(expires_at: object) -> float:
    if isinstance(expires_at, datetime):
        if expires_at.tzinfo is None:
            raise ValueError("its expiry has no time zone: give one, such as expiry.replace(tzinfo=timezone.utc)")
        return expires_at.timestamp()
    if isinstance(expires_at, bool) or not isinstance(expires_at, int | float):
        raise TypeError(f"its expiry is {type(expires_at).__name__}, not seconds since 1970")
    return float(expires_at)


def _takes_config(function: OAuthCallback) -> bool:
    """Whether the function takes an argument, as confluent-kafka's callbacks do."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return any(each.kind in positional and each.default is inspect.Parameter.empty for each in parameters)


def _imported(name: str) -> object:
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise ConfigError(
            f"oauth_cb = '{name}' is no function", next_step="write its name as 'module:function', or pass it in code"
        )
    sys.path.insert(0, os.getcwd())
    try:
        found: object = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"oauth_cb = '{name}' can't be imported: {error}",
            next_step="name a module that can be imported from here, and a function of it",
        ) from error
    finally:
        sys.path.remove(os.getcwd())
    return found
