"""A record as tests write and read it: the one that processors see."""

from __future__ import annotations

from stoatflow.record import Header as Header
from stoatflow.record import Headers as Headers
from stoatflow.record import Record as Record
