"""What sources, stores and sinks get that don't say their serdes or their time.

Takes settings (`default.key.serde`, `default.value.serde`, `default.timestamp.extractor`), gives serdes and a word for
the plan. A node that says nothing holds one of the two marks below until the plan is encoded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stoatflow.serdes import BuiltinSerde, Serde

if TYPE_CHECKING:
    from stoatflow.settings import Settings

UNSET_KEY: Serde[bytes] = BuiltinSerde("bytes")
"""No serde was given for keys: the settings' one, or bytes."""
UNSET_VALUE: Serde[bytes] = BuiltinSerde("bytes")
"""No serde was given for values."""


@dataclass(frozen=True, slots=True)
class SourceDefaults:
    """The settings' own; `None` is what was not set."""

    key: Serde[Any] | None = None
    value: Serde[Any] | None = None
    timestamp: str | None = None

    def over(self, others: SourceDefaults) -> SourceDefaults:
        """Return these, and `others` where one is not set."""
        return SourceDefaults(
            others.key if self.key is None else self.key,
            others.value if self.value is None else self.value,
            others.timestamp if self.timestamp is None else self.timestamp,
        )

    def meant(self, serde: Serde[Any]) -> Serde[Any]:
        """Return the serde that a node's serde stands for."""
        default = self.key if serde is UNSET_KEY else self.value if serde is UNSET_VALUE else None
        return serde if default is None else default


NO_DEFAULTS = SourceDefaults()


def source_defaults(settings: Settings) -> SourceDefaults:
    """Return the defaults of settings; raise `ConfigError` for those that mean nothing."""
    from stoatflow._runtime import bridge  # the plan is made of serdes, and the bridge of plans
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
