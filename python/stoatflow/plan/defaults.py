"""Default serdes and timestamp extractors of sources, stores and sinks.

Takes settings (`default.key.serde`, `default.value.serde`, `default.timestamp.extractor`), returns serdes and the name
of an extractor. A node without a serde holds one of the two markers below until the plan is encoded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stoatflow.serdes import BuiltinSerde, Serde

if TYPE_CHECKING:
    from stoatflow.settings import Settings

UNSET_KEY: Serde[bytes] = BuiltinSerde("bytes")
"""Marker: no serde was given for keys. Replaced by the default of the settings, or bytes."""
UNSET_VALUE: Serde[bytes] = BuiltinSerde("bytes")
"""Marker: no serde was given for values."""


@dataclass(frozen=True, slots=True)
class SourceDefaults:
    """Defaults of the settings; `None` where none is set."""

    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    timestamp: str | None = None

    def over(self, others: SourceDefaults) -> SourceDefaults:
        """Return these defaults, with those of `others` where one is not set."""
        return SourceDefaults(
            others.key if self.key is None else self.key,
            others.value if self.value is None else self.value,
            others.timestamp if self.timestamp is None else self.timestamp,
        )

    def resolved(self, serde: Serde[Any]) -> Serde[Any]:
        """Replace a marker by the default serde; return any other serde unchanged."""
        default = self.key if serde is UNSET_KEY else self.value if serde is UNSET_VALUE else None
        return serde if default is None else default


NO_DEFAULTS = SourceDefaults()


def source_defaults(settings: Settings) -> SourceDefaults:
    """Return the defaults of settings; raise `ConfigError` for invalid ones."""
    from stoatflow._runtime import bridge  # imported here: the plan uses serdes, and the bridge uses plans
    from stoatflow.errors import ConfigError

    try:
        key, value, timestamp = bridge.source_defaults(settings.pairs())
    except ConfigError as error:
        raise settings.explain(error) from None
    return SourceDefaults(
        _serde(settings, "default.key.serde", key), _serde(settings, "default.value.serde", value), timestamp
    )


def _serde(settings: Settings, name: str, word: str | None) -> Serde[Any] | None:
    from stoatflow.serdes import builtin_by_name

    if word is None:
        return None
    own = settings.serde(name)
    return builtin_by_name(word) if own is None else own
