"""Errors of SQL queries.

Each is a `ConfigError`: the query has to be changed, not the application.
"""

from __future__ import annotations

from stoatflow.errors import ConfigError


class SqlError(ConfigError):
    """The query is wrong; the message says where.

    >>> from stoatflow.sql import SqlError
    >>> builder = sf.StreamsBuilder()
    >>> users = builder.table("users", key=str, value=str, store="users")
    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("users")
    ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
    ...         app.wait_until("RUNNING")
    ...         try: app.sql("select value from usres")
    ...         except SqlError as error: print(error.message)
    there is no store 'usres'
    """

    default_next_step = "fix the query at the place that the message shows"


class ReadOnlyError(SqlError):
    """The statement is no SELECT: stores change only through their topics.

    >>> from stoatflow.sql import ReadOnlyError
    >>> builder = sf.StreamsBuilder()
    >>> users = builder.table("users", key=str, value=str, store="users")
    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("users")
    ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
    ...         app.wait_until("RUNNING")
    ...         try: app.sql("delete from users")
    ...         except ReadOnlyError as error: print(error.next_step)
    write one SELECT; to change a store, write to the topic that it is made from
    """

    default_next_step = "write one SELECT; to change a store, write to the topic that it is made from"


class ScanRefusedError(SqlError):
    """The query would read a whole store without `allow_scan`.

    >>> from stoatflow.sql import ScanRefusedError
    >>> builder = sf.StreamsBuilder()
    >>> users = builder.table("users", key=str, value=str, store="users")
    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("users")
    ...     broker.produce("users", "u1", "Ann")
    ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
    ...         app.wait_until(caught_up=True)
    ...         try: app.sql("select count(*) from users")
    ...         except ScanRefusedError as error: print(error.message)
    the query would read the whole store 'users': all rows would be read
    """

    default_next_step = "give a condition that the key or an index can answer, or allow_scan=True"
