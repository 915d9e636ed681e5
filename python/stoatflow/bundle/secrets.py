"""Removes secrets from texts and data before they leave the machine.

Takes what was collected, and the environment; returns it with secrets replaced by `***`. A secret is recognized by the
name before it (`sasl.password=...`), by its form (`https://user:password@host`, `Bearer ...`, a private key), or
because a variable with a secret's name has this value. Hides too much rather than too little.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

HIDDEN = "***"
# As core::settings::is_secret, and other names that are used in variables and logs.
_WORDS = (
    "pass", "pasw", "pwd", "secret", "jaas", "token", "private", "credential", "user.info", "registry.url",
    "oauthbearer.config", "api.key", "apikey", "access.key", "authorization", "cookie",
)  # fmt: skip
# Values that are not hidden: they say that there is no secret, or that a variable isn't set.
_NO_SECRETS = ("off", "none", "null", "true", "false", "")
_SHORTEST = 4
# Variables of the shell whose names look like a password's.
_FOLDERS = ("PWD", "OLDPWD")

_WORD = "|".join(word.replace(".", "[._-]?") for word in _WORDS)
_NAME = rf"[\w.-]*(?:{_WORD})[\w.-]*|[\w.-]+[._-]key"
# A value ends with its quote, or at whitespace.
_VALUE = r"""\\?"(?:[^"\\]|\\[^"])*\\?"\S*|\\?'(?:[^'\\]|\\[^'])*\\?'\S*|\S+"""
_QUOTED = re.compile(r"""\\?(["'])(.*?)\\?\1.*""")
_SIGN = r"\\?[\"']?\s*[=:>-]*[=:>]\s*"
# Only from the beginning of a word: otherwise a long word would be scanned again and again.
_NAMED = re.compile(rf"(?i)(?<![\w.-])(?P<name>{_NAME})(?P<sign>{_SIGN})(?P<value>{_VALUE})")
_OPTION = re.compile(rf"(?i)(?<![\w.-])(?P<name>--?(?:{_NAME}))(?P<sign>\s+)(?P<value>{_VALUE})")
_REST_OF_LINE = re.compile(rf"(?i)(?<![\w.-])(?P<name>[\w.-]*(?:jaas|authorization|cookie)[\w.-]*)(?P<sign>{_SIGN}).*")
# The last @ ends the password; a password that contains a slash must not begin like a port.
_IN_ADDRESS = re.compile(r"://(?:[^\s/?#\"'<>@]*:(?!\d+[/?#])[^\s\"'<>]*|[^\s/?#\"'<>]+)@")
_SCHEME = re.compile(r"(?i)\b(?P<scheme>bearer|basic)\s+[\w.~+/=-]{6,}")
_JWT = re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.?[\w-]*")
_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", flags=re.DOTALL
)
# A key whose beginning was cut off.
_END_OF_KEY = re.compile(r"(?m)(?:^[\w+/=]+\r?\n)*[^\s\"]*-----END [A-Z0-9 ]*PRIVATE KEY-----")


def is_secret(name: str) -> bool:
    """Whether the value of a setting, a variable or an option with this name may be a secret."""
    dotted = re.sub(r"[_-]", ".", name.lower())
    return dotted.endswith((".key", "key.pem")) or any(word in dotted for word in _WORDS)


class Secrets:
    """Knows the secrets; `secrets.text(...)` and `secrets.data(...)` return content without them."""

    def __init__(self, environment: Iterable[tuple[str, str]], more: Iterable[str | None] = ()) -> None:
        """Take variables, and secrets that were passed in other ways."""
        known = {value for value in more if value}
        for name, value in environment:
            if is_secret(name) and name not in _FOLDERS:
                known |= {value, *_inside(value)}
            known |= set(_of_address(value))
        known = {each for each in known if len(each) >= _SHORTEST and each.lower() not in _NO_SECRETS}
        known |= {quote(each, safe="") for each in known} | {json.dumps(each)[1:-1] for each in known}
        # The longest first: one secret may contain another.
        self._known = sorted(known, key=len, reverse=True)

    def text(self, text: str) -> str:
        """Hide the secrets of a text."""
        for each in self._known:
            text = text.replace(each, HIDDEN)
        if "PRIVATE KEY-----" in text:
            text = _END_OF_KEY.sub(HIDDEN, _PRIVATE_KEY.sub(HIDDEN, text))
        return "".join(map(_line, text.splitlines(keepends=True)))

    def data(self, data: Any, name: str = "") -> Any:
        """Hide the secrets of plain data."""
        if isinstance(data, dict):
            return {self.text(str(key)): self.data(value, _named(data, str(key), name)) for key, value in data.items()}
        if isinstance(data, list):
            return [self.data(each, name) for each in data]
        if name and is_secret(name) and not _says_nothing(data):
            return HIDDEN
        return self.text(data) if isinstance(data, str) else data

    def arguments(self, words: list[str]) -> list[str]:
        """Hide the secrets of a command line, also the value after `--token`."""
        shown: list[str] = []
        for at, word in enumerate(words):
            before = words[at - 1] if at else ""
            is_value = before.startswith("-") and "=" not in before and is_secret(before)
            shown.append(HIDDEN if is_value else self.text(word))
        return shown


def _line(line: str) -> str:
    """Hide secrets by name and form in a line of text, or of JSON with a prefix."""
    body = line.rstrip("\r\n")
    end = line[len(body) :]
    begin = body.find("{")
    if begin >= 0:
        try:
            data = json.loads(body[begin:])
        except (ValueError, RecursionError):
            pass  # it only looks like JSON
        else:
            return _patterns(body[:begin]) + json.dumps(_plain(data), ensure_ascii=False) + end
    return _patterns(body) + end


def _plain(data: Any, name: str = "") -> Any:
    """Hide secrets by name and form, in data whose known secrets are hidden already."""
    if isinstance(data, dict):
        return {key: _plain(value, key) for key, value in data.items()}
    if isinstance(data, list):
        return [_plain(each, name) for each in data]
    if name and is_secret(name) and not _says_nothing(data):
        return HIDDEN
    return "\n".join(_patterns(line) for line in data.split("\n")) if isinstance(data, str) else data


def _patterns(line: str) -> str:
    line = _IN_ADDRESS.sub(f"://{HIDDEN}@", line)
    line = _SCHEME.sub(rf"\g<scheme> {HIDDEN}", line)
    line = _JWT.sub(HIDDEN, line)
    line = _REST_OF_LINE.sub(rf"\g<name>\g<sign>{HIDDEN}", line)
    return _OPTION.sub(_hidden, _NAMED.sub(_hidden, line))


def _hidden(found: re.Match[str]) -> str:
    value = found["value"]
    if value.strip("\\\"'").lower() in _NO_SECRETS:
        return found[0]
    return f"{found['name']}{found['sign']}{HIDDEN}"


def _says_nothing(value: Any) -> bool:
    return value is None or isinstance(value, bool) or str(value).lower() in _NO_SECRETS


def _named(data: dict[str, Any], key: str, name: str) -> str:
    """Return the name that describes a member: for `{"admin.token": {"value": ...}}` that of the setting."""
    return name if key == "value" and "source" in data else key


def _inside(value: str) -> list[str]:
    """List the secrets within a secret, such as the password of a JAAS configuration or of `user:password`."""
    found = [_QUOTED.sub(r"\2", match["value"]) for match in _NAMED.finditer(value)]
    user, colon, password = value.partition(":")
    is_pair = colon and user and " " not in value and not password.startswith("/")
    return [*found, password] if is_pair else found


def _of_address(value: str) -> list[str]:
    found = re.findall(r"://[^\s/?#\"'<>:@]*:([^\s\"'<>]*)@", value)
    return [password for each in found for password in (each, each.partition("@")[0])]
