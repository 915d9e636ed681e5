"""Records of tests: the same class as for processors."""

from __future__ import annotations

from stoatflow.record import Header, Headers, Record

__all__ = ["Header", "Headers", "Record"]
