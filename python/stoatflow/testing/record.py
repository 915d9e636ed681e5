"""A record as tests write and read it: the one that processors see."""

from __future__ import annotations

from stoatflow.record import Header, Headers, Record

__all__ = ["Header", "Headers", "Record"]
