"""Settings that change the plan: default serdes and timestamp extractors, and `topology.optimization`.

A node without a serde holds one of the two markers below until the plan is encoded.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from stoatflow.serdes import BuiltinSerde, Serde

if TYPE_CHECKING:
    from stoatflow.settings import Settings

UNSET_KEY: Serde[bytes] = BuiltinSerde("bytes")
"""Marker: no serde was given for keys. Replaced by the default of the settings, or bytes."""
UNSET_VALUE: Serde[bytes] = BuiltinSerde("bytes")
"""Marker: no serde was given for values."""


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Default serdes and timestamp extractor (`None` where none is set), and optimizations."""

    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    timestamp: str | None = None
    single_store_self_join: bool = False

    def over(self, others: PlanSettings) -> PlanSettings:
        """Return these settings, with those of `others` where one is not set."""
        return PlanSettings(
            others.key if self.key is None else self.key,
            others.value if self.value is None else self.value,
            others.timestamp if self.timestamp is None else self.timestamp,
            self.single_store_self_join or others.single_store_self_join,
        )

    def resolved(self, serde: Serde[Any]) -> Serde[Any]:
        """Replace a marker by the default serde; return any other serde unchanged."""
        default = self.key if serde is UNSET_KEY else self.value if serde is UNSET_VALUE else None
        return serde if default is None else default


NO_PLAN_SETTINGS = PlanSettings()


def plan_settings(settings: Settings) -> PlanSettings:
    """Return the plan's part of settings; raise `ConfigError` for invalid ones."""
    from stoatflow._runtime import bridge  # imported here: the plan uses serdes, and the bridge uses plans
    from stoatflow.errors import ConfigError

    try:
        words, single_store_self_join = bridge.plan_settings(settings.pairs())
    except ConfigError as error:
        raise settings.explain(error) from None
    key, value, timestamp, key_entries, value_entries = words
    return PlanSettings(
        _serde(settings, "default.key.serde", key, key_entries),
        _serde(settings, "default.value.serde", value, value_entries),
        timestamp,
        single_store_self_join,
    )


def _serde(settings: Settings, name: str, word: str | None, entries: str | None) -> Serde[Any] | None:
    if word is None:
        return None
    own = settings.serde(name)
    return own if own is not None else _lists(entries) if word == "list" and entries else _named(word)


def _named(word: str) -> Serde[Any]:
    from stoatflow.serdes import Serdes, builtin_by_name

    uuids: Serde[Any] = Serdes.uuid()
    return uuids if word == "uuid" else builtin_by_name(word)


@cache
def _lists(entries: str) -> Serde[Any]:
    """Return the serde of lists; always the same one, so that equal settings are equal."""
    from stoatflow.serdes import Serdes

    # Java's lists may contain null.
    return Serdes.list(_named(entries), nulls=True)
