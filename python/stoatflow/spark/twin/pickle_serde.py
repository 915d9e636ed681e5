"""Serde for Python objects between two parts, if the topology names no other.

Accepts any object that can be pickled. Never used for data that is stored, or read by other programs.
"""

from __future__ import annotations

import pickle
from typing import Any

from stoatflow.serdes import Serde


class PickleSerde(Serde[Any]):
    """Pickles objects; lazily decoded values are converted to plain ones first."""

    @property
    def name(self) -> str:
        """Name of the serde in messages."""
        return "pickle"

    def serialize(self, value: Any) -> bytes:
        """Serialize a value."""
        from stoatflow.lazy import to_python  # of the engine, which imports serdes

        return pickle.dumps(to_python(value), protocol=5)

    def deserialize(self, data: bytes) -> Any:
        """Deserialize bytes."""
        # Written by this twin a moment ago, never read from a topic.
        return pickle.loads(data)  # noqa: S301
