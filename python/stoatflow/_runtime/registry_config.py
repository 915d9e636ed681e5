"""Converts the settings of Confluent's serdes to arguments of `SchemaRegistry`.

Takes a mapping with names of Java or of confluent-kafka, returns arguments. Refuses settings that can't be taken over;
ignores those that don't concern the registry.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stoatflow.errors import ConfigError

_NAMES = {
    "schema.registry.ssl.truststore.location": "ca",
    "ssl.ca.location": "ca",
    "schema.registry.ssl.keystore.location": "certificate",
    "ssl.certificate.location": "certificate",
    "ssl.key.location": "key",
    "schema.registry.ssl.key.password": "key_password",
    "bearer.auth.token": "token",
    "schema.registry.bearer.auth.token": "token",
}
_FLAGS = {
    "auto.register.schemas": "auto_register",
    "use.latest.version": "use_latest",
    "normalize.schemas": "normalize",
}
_STRATEGIES = {
    "TopicNameStrategy": "topic",
    "RecordNameStrategy": "record",
    "TopicRecordNameStrategy": "topic_record",
}


def arguments(config: Mapping[str, object]) -> dict[str, Any]:
    """Return the arguments; raise `ConfigError` for settings that can't be taken over."""
    url = config.get("schema.registry.url", config.get("url"))
    if not isinstance(url, str | list | tuple) or not url:
        raise ConfigError(
            "schema.registry.url is not set", next_step='write {"schema.registry.url": "http://localhost:8081", ...}'
        )
    found: dict[str, Any] = {"url": url}
    info = config.get("schema.registry.basic.auth.user.info", config.get("basic.auth.user.info"))
    if info is not None:
        found["user"], colon, found["password"] = str(info).partition(":")
        if not colon:
            raise ConfigError("basic.auth.user.info has no colon", next_step="write user:password")
    for prefix in ("", "schema.registry."):
        source = config.get(f"{prefix}basic.auth.credentials.source", "USER_INFO")
        if source not in {"USER_INFO", "URL"}:
            raise ConfigError(
                f"{prefix}basic.auth.credentials.source={source}: credentials can't be taken from there",
                next_step="set basic.auth.user.info",
            )
        source = config.get(f"{prefix}bearer.auth.credentials.source", "STATIC_TOKEN")
        if source not in {"STATIC_TOKEN", "CUSTOM"}:
            raise ConfigError(
                f"{prefix}bearer.auth.credentials.source={source}: tokens can't be fetched from there",
                next_step="fetch them yourself: SchemaRegistry(url, token=function)",
            )
        kind = config.get(f"{prefix}ssl.truststore.type", "PEM")
        location = str(config.get(f"{prefix}ssl.truststore.location", ""))
        if prefix and (kind != "PEM" or location.endswith((".jks", ".p12"))):
            raise ConfigError(
                f"{prefix}ssl.truststore.location: only PEM files are read",
                next_step="export the certificates: keytool -exportcert -rfc -keystore ... > ca.pem",
            )
    found.update((argument, config[name]) for name, argument in _NAMES.items() if name in config)
    found.update((argument, _flag(name, config[name])) for name, argument in _FLAGS.items() if name in config)
    strategies = {
        _strategy(name, config[name])
        for name in ("key.subject.name.strategy", "value.subject.name.strategy")
        if name in config
    }
    if len(strategies) > 1:
        raise ConfigError(
            "keys and values have subjects of two kinds",
            next_step="make two registries: SchemaRegistry(url, subjects=...), one for each serde",
        )
    if strategies:
        found["subjects"] = strategies.pop()
    return found


def _flag(name: str, given: object) -> bool:
    word = str(given).lower()
    if word not in {"true", "false"}:
        raise ConfigError(f"{name}={given!r} is neither true nor false", next_step="write true or false")
    return word == "true"


def _strategy(name: str, given: object) -> str:
    word = getattr(given, "__name__", str(given)).rpartition(".")[2]
    if word not in _STRATEGIES:
        raise ConfigError(
            f"{name}={word}: code of yours names no subjects here",
            next_step=f"write one of {', '.join(_STRATEGIES)}, or name the subject: subject= of the serde",
        )
    return _STRATEGIES[word]
