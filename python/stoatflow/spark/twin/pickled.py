"""How Python objects travel between two parts where the topology names no serde for them.

Takes and gives any object that pickle takes. Never: is used for what is stored or given to anybody else.
"""

from __future__ import annotations

import pickle
from typing import Any

from stoatflow.serdes import Serde


class PickleSerde(Serde[Any]):
    """Pickles objects; what the engine decodes lazily is made plain first."""

    @property
    def name(self) -> str:
        """Its name in messages."""
        return "pickle"

    def serialize(self, value: Any) -> bytes:
        """Return the bytes of a value."""
        from stoatflow.lazy import to_python  # of the engine, which imports serdes

        return pickle.dumps(to_python(value), protocol=5)

    def deserialize(self, data: bytes) -> Any:
        """Return the value of the bytes."""
        # Written by this twin a moment ago, never read from a topic.
        return pickle.loads(data)  # noqa: S301
