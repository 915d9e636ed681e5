"""What an SQL query can fail with.

Each is a `ConfigError`: the query has to change, not the application.
"""

from __future__ import annotations

from stoatflow.errors import ConfigError


class SqlError(ConfigError):
    """The query is wrong; the message says where."""

    default_next_step = "fix the query at the place that the message shows"


class ReadOnlyError(SqlError):
    """The statement is no SELECT: stores change through their topics alone."""

    default_next_step = "write one SELECT; to change a store, write to the topic that it is made from"


class ScanRefusedError(SqlError):
    """The query would read a whole store, and nobody allowed it."""

    default_next_step = "give a condition that the key or an index can answer, or allow_scan=True"
