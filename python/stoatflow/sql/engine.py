"""Runs a query: conditions that the stores can evaluate are pushed down, DuckDB does the rest.

Takes stores as of one commit and a SELECT; returns its rows. DuckDB runs the unchanged query over the rows that were
read, in memory, without access to files, network or variables of the program. pyarrow and duckdb are imported at their
first use.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stoatflow import arrow
from stoatflow._runtime.bridge import to_python
from stoatflow._runtime.columns import KEY, TIMESTAMP, VALUE, WINDOW_END, WINDOW_START, Columns, Row
from stoatflow.errors import ConfigError
from stoatflow.sql import bounds, pushdown, tree
from stoatflow.sql.errors import ReadOnlyError, SqlError
from stoatflow.sql.pushdown import Place
from stoatflow.sql.reading import StoreRead, Stores, Wanted
from stoatflow.sql.store_schema import StoreSchema
from stoatflow.sql.tree import Node

__all__ = ["Parameters", "SqlResult", "run"]

Parameters = Mapping[str, object] | Sequence[object]
"""Values for `$name`, or for `?`."""

_SETTINGS = {
    # No access to files, nor to variables of the program.
    "enable_external_access": "false",
    "autoload_known_extensions": "false",
    "autoinstall_known_extensions": "false",
    "threads": "1",
    "memory_limit": "1GB",
    "TimeZone": "UTC",
}
_PLAIN_TYPES = {"VARCHAR", "BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "DOUBLE", "DATE"}
_TABLE_FUNCTIONS = {"range", "generate_series", "unnest", "json_each", "json_tree"}


class SqlResult(Sequence[dict[str, Any]]):
    """The rows of a query, as dicts; also a stream of Arrow.

    >>> builder = sf.StreamsBuilder()
    >>> users = builder.table("users", key=str, value=str, store="users")
    >>> with sf.EmbeddedBroker() as broker:
    ...     broker.create_topic("users")
    ...     broker.produce("users", "u1", "Ann")
    ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
    ...         app.wait_until(caught_up=True)
    ...         found = app.sql("select value from users where _key = 'u1'")
    ...         print(found[0], len(found))
    {'value': 'Ann'} 1
    """

    def __init__(self, table: Any, epoch: int, reads: tuple[StoreRead, ...]) -> None:
        """Created by `sql`."""
        self._table = table
        self._rows: list[dict[str, Any]] | None = None
        self.epoch = epoch
        """Number of the commit that was read."""
        self.reads = reads
        """How each store was read."""

    @property
    def columns(self) -> list[str]:
        """Names of the columns.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(app.sql("select _key, value from users where _key = 'u1'").columns)
        ['_key', 'value']
        """
        names: list[str] = self._table.column_names
        return names

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(app.sql("select value from users where _key = 'u1'").rows)
        [{'value': 'Ann'}]
        """
        if self._rows is None:
            self._rows = self._table.to_pylist()
        return self._rows

    def explain(self) -> str:
        """Return how each store was read, one line each.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(app.sql("select value from users where _key = 'u1'").explain())
        users: by keys, 1 rows read, _key = 'u1'
        """
        return "\n".join(str(read) for read in self.reads)

    def to_arrow(self) -> Any:
        """Return the rows as a `pyarrow.Table`.

        >>> builder = sf.StreamsBuilder()
        >>> users = builder.table("users", key=str, value=str, store="users")
        >>> with sf.EmbeddedBroker() as broker:
        ...     broker.create_topic("users")
        ...     broker.produce("users", "u1", "Ann")
        ...     with sf.StoatFlow(builder.build(), {"application.id": "app"}, broker=broker) as app:
        ...         app.wait_until(caught_up=True)
        ...         print(app.sql("select value from users where _key = 'u1'").to_arrow().to_pydict())
        {'value': ['Ann']}
        """
        return self._table

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the rows as a stream of columns, for Polars, pandas, DuckDB and others."""
        return self._table.__arrow_c_stream__(requested_schema)

    def __getitem__(self, at: Any) -> Any:
        """Return a row, or a slice of rows."""
        return self.rows[at]

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self._table.num_rows)

    def __repr__(self) -> str:
        """Show the number of rows and columns."""
        return f"<SqlResult: {len(self)} rows of {', '.join(self.columns)}>"


def run(
    stores: Stores,
    sql: str,
    parameters: Parameters | None = None,
    *,
    schema: Mapping[str, object] | None = None,
    allow_scan: bool = False,
    push: bool = True,
) -> SqlResult:
    """Run a SELECT. `schema` holds the columns of values, by store; without `push` all rows are read."""
    duckdb, pa = _modules()
    connection = _connect(duckdb)
    try:
        return _Run(duckdb, pa, connection, stores, sql, parameters).result(schema or {}, allow_scan, push)
    finally:
        connection.close()


def _modules() -> tuple[Any, Any]:
    try:
        import duckdb
    except ImportError as error:
        raise ConfigError(
            "sql(...) runs queries with DuckDB, which is not installed", next_step="pip install 'stoatflow[sql]'"
        ) from error
    return duckdb, arrow.load(arrow.Caller("sql(...)", ConfigError, "sql"))


_opening = threading.Lock()
_databases: dict[int, Any] = {}
"""The database of this process, by process id: it can't be used after a fork."""


def _connect(duckdb: Any) -> Any:
    """Return a connection that shares only the database's memory with others."""
    with _opening:
        database = _databases.get(os.getpid())
        if database is None:
            database = duckdb.connect(":memory:")
            for name, setting in _SETTINGS.items():
                database.execute(f"SET GLOBAL {name} = '{setting}'").fetchall()
            database.execute("SET GLOBAL lock_configuration = true").fetchall()
            _databases[os.getpid()] = database
        connection = database.cursor()
    # One transaction, so now() is the same everywhere.
    connection.begin()
    return connection


class _Run:
    """One query."""

    def __init__(
        self, duckdb: Any, pa: Any, connection: Any, stores: Stores, sql: str, parameters: Parameters | None
    ) -> None:
        self._duckdb = duckdb
        self._pa = pa
        self._connection = connection
        self._stores = stores
        self._sql = sql
        self._parameters = parameters
        self._reads: list[StoreRead] = []

    def result(self, schema: Mapping[str, object], allow_scan: bool, push: bool) -> SqlResult:
        query = self._parsed()
        names = self._stores_of(query)
        schemas = self._schemas(schema)
        known = {name: self._stores.known(name) for name in names}
        places = pushdown.places(query, known, push=push)
        limit = pushdown.limit_of(query, places) if push else None
        constants = self._constants(places, limit or [])
        used = pushdown.used_names(query, places) if push else None
        plan = _Plan(limit, used, _named(places), allow_scan)
        for name in names:
            mine = [place for place in places if place.store == name]
            wanted = [self._wanted(place, constants, plan, schemas.get(name)) for place in mine]
            self._connection.register(name, self._table(name, known[name], wanted, plan, schemas.get(name)))
        answer = self._answer()
        table = answer.rename_columns(_distinct(answer.column_names))
        return SqlResult(table, self._stores.epoch, tuple(self._reads))

    # The query --------------------------------------------------------------------------------

    def _parsed(self) -> Node:
        parsed = self._serialized(self._sql)
        if parsed["error"] and parsed["error_type"] != "not implemented":
            raise SqlError(f"{parsed['error_message']}{_at(self._sql, parsed.get('position'))}")
        if parsed["error"] or len(parsed["statements"]) != 1:
            how_many = "several statements" if parsed.get("statements") else "no statement"
            why = "no SELECT, or one of a form that can't be looked through" if parsed["error"] else how_many
            raise ReadOnlyError(f"stores are read only, and by one SELECT. This is {why}: {_short(self._sql)}")
        node: Node = parsed["statements"][0]["node"]
        for each in tree.walk(node):
            function = each.get("function") if each.get("type") == "TABLE_FUNCTION" else None
            if function and function["function_name"].casefold() not in _TABLE_FUNCTIONS:
                raise SqlError(
                    f"the function {function['function_name']}() gives rows that are of no store",
                    next_step=f"select from stores: {self._listed()}",
                )
            if each.get("type") == "SHOW_REF" and not each.get("query"):
                raise SqlError("there is no catalog to show", next_step=f"select from stores: {self._listed()}")
        return node

    def _stores_of(self, query: Node) -> list[str]:
        common = tree.common_tables(query)
        by_name = {name.casefold(): name for name in self._stores.forms}
        names: dict[str, None] = {}
        for node in tree.tables(query):
            given = node["table_name"]
            named = by_name.get(given.casefold())
            if named is None and given.casefold() not in common:
                raise SqlError(f"there is no store '{given}'", next_step=f"select from one of these: {self._listed()}")
            if named is not None and given.casefold() in common:
                raise SqlError(f"WITH names '{given}', as a store is named", next_step="give it another name")
            if named is not None:
                names[named] = None
        return list(names)

    def _listed(self) -> str:
        return ", ".join(f'"{name}"' if not name.isidentifier() else name for name in sorted(self._stores.forms))

    def _schemas(self, schema: Mapping[str, object]) -> dict[str, Any]:
        made = {}
        for name, given in schema.items():
            if name not in self._stores.forms:
                raise SqlError(f"schema= names the store '{name}', which isn't there", next_step=f"{self._listed()}")
            made[name] = arrow.as_schema(self._pa, given, arrow.Caller("sql", ConfigError))
        return made

    # Constants --------------------------------------------------------------------------------

    def _constants(self, places: Sequence[Place], counts: Sequence[Node]) -> dict[int, Any]:
        """Compute constants, as DuckDB does."""
        values: dict[int, Any] = {}
        nodes = [node for place in places for condition in place.conditions for node in condition.constants] + list(
            counts
        )
        for node in nodes:
            if node["class"] == "PARAMETER":
                self._parameter(node, values)
        self._compute([node for node in nodes if node["class"] != "PARAMETER"], values)
        for place in places:
            for condition in place.conditions:
                if condition.column.kind == "time":
                    self._read_times(condition.constants, values)
        return values

    def _parameter(self, node: Node, values: dict[int, Any]) -> None:
        name, given = node["identifier"], self._parameters
        if isinstance(given, Mapping):
            if name in given:
                values[id(node)] = given[name]
        elif given is not None and name.isdigit() and int(name) <= len(given):
            values[id(node)] = given[int(name) - 1]

    def _compute(self, nodes: Sequence[Node], values: dict[int, Any]) -> None:
        """Compute nodes without parameters. If one fails, none is computed: the query itself reports the error."""
        if not nodes:
            return
        query = self._serialized("SELECT 1")
        query["statements"][0]["node"]["select_list"] = list(nodes)
        try:
            text = self._one("SELECT json_deserialize_sql(?::JSON)", json.dumps(query))
            relation = self._connection.sql(text)
            kinds = [str(kind) for kind in relation.types]
            computed = relation.to_arrow_table().columns
        except self._duckdb.Error:
            self._connection.rollback()
            self._connection.begin()
            return
        for node, kind, column in zip(nodes, kinds, computed, strict=True):
            if kind in _PLAIN_TYPES or kind.startswith(("DECIMAL", "TIMESTAMP", '"NULL"')):
                values[id(node)] = column[0].as_py()

    def _read_times(self, nodes: Sequence[Node], values: dict[int, Any]) -> None:
        """Parse texts that are compared with times, as DuckDB does."""
        for node in nodes:
            if node["class"] == "CONSTANT" and isinstance(values.get(id(node)), str):
                text = values[id(node)].replace("'", "''")
                relation = self._connection.sql(f"SELECT try_cast('{text}' AS TIMESTAMPTZ)")
                values[id(node)] = relation.to_arrow_table().column(0)[0].as_py()

    def _one(self, query: str, *parameters: object) -> Any:
        rows = self._connection.execute(query, list(parameters)).fetchall()
        return rows[0][0]

    def _serialized(self, sql: str) -> Node:
        parsed: Node = json.loads(self._one("SELECT json_serialize_sql(?::VARCHAR)", sql))
        return parsed

    # The rows ---------------------------------------------------------------------------------

    def _wanted(self, place: Place, constants: bounds.Constants, plan: _Plan, schema: Any) -> Wanted:
        found = bounds.bounds(place.conditions, constants, place.known.form)
        whole = len(found) == len(place.conditions) and all(each.exact for each in found)
        counts = [constants.get(id(node)) for node in plan.limit or ()]
        numbers = [each for each in counts if type(each) is int and each >= 0]
        limit = sum(numbers) if whole and numbers and len(numbers) == len(counts) else None
        return Wanted(found, limit, self._members(place.known, plan, schema), plan.allow_scan)

    def _members(self, known: StoreSchema, plan: _Plan, schema: Any) -> list[str] | None:
        """Return the members of values that the query needs."""
        if known.form.kind != "key_value" or not known.holds_only_objects or known.form.is_custom:
            return None
        if schema is not None:
            return list(schema.names)
        if plan.used is None or not plan.used <= plan.named:
            return None
        return [name for name in known.members if name.casefold() in plan.used]

    def _table(self, name: str, known: StoreSchema, wanted: list[Wanted], plan: _Plan, schema: Any) -> Any:
        form = known.form
        columns = Columns(
            self._pa, name, json_keys=form.has_json_keys, windows=form.has_windows, schema=schema, only=plan.used
        )
        columns.look(known.rows, known.serde_kinds, known.members)
        everything = [each for each in wanted if not each.bounds]
        several = everything[:1] or [each for at, each in enumerate(wanted) if each not in wanted[:at]]
        seen: set[object] | None = set() if len(several) > 1 else None
        for each in several:
            pages, how = self._stores.read(name, each)
            for page in pages:
                columns.add(page if seen is None else _unseen(page, seen))
            self._reads.append(how())
        table = _in_microseconds(self._pa, columns.table())
        small = [each.casefold() for each in table.column_names]
        if twice := [each for each in table.column_names if small.count(each.casefold()) > 1]:
            raise SqlError(
                f"the store '{name}' has members that SQL can't tell apart: {', '.join(twice)}",
                next_step="name the one that is meant with schema=",
            )
        return table

    def _answer(self) -> Any:
        try:
            if self._parameters is None:
                return self._connection.sql(self._sql).to_arrow_table()
            given = self._parameters
            params = dict(given) if isinstance(given, Mapping) else list(given)
            return self._connection.sql(self._sql, params=params).to_arrow_table()
        except self._duckdb.OutOfMemoryException as error:
            raise SqlError(str(error), next_step="read fewer rows: give more conditions") from error
        except self._duckdb.BinderException as error:
            raise SqlError(
                str(error),
                next_step="fix the name; for a member that none of the rows that were looked at has, give schema=",
            ) from error
        except self._duckdb.Error as error:
            raise SqlError(str(error)) from error


class _Plan(NamedTuple):
    """Properties of a query that apply to all stores."""

    limit: list[Node] | None
    used: set[str] | None
    """Names in the query, in lower case; `None`: it may use any."""
    named: set[str]
    """Known names: of tables, and columns of stores."""
    allow_scan: bool


def _unseen(page: list[Row], seen: set[object]) -> list[Row]:
    """Leave out rows that another place of the query has read."""
    new = []
    for row in page:
        identity = (repr(to_python(row.key)), row.window)
        if identity not in seen:
            seen.add(identity)
            new.append(row)
    return new


def _in_microseconds(pa: Any, table: Any) -> Any:
    """Convert times to DuckDB's unit: DuckDB 1.x truncates constants to the column's unit when it filters Arrow."""
    read, wanted = pa.timestamp("ms", tz="UTC"), pa.timestamp("us", tz="UTC")
    schema = pa.schema([field.with_type(wanted) if field.type == read else field for field in table.schema])
    try:
        return table.cast(schema)
    except pa.ArrowInvalid:
        return table  # a window without an end


def _distinct(names: Sequence[str]) -> list[str]:
    """Make column names unique, as DuckDB does in tables: `_key`, `_key_1`."""
    given: list[str] = []
    for name in names:
        options = (name, *(f"{name}_{at}" for at in range(1, len(names))))
        given.append(next(option for option in options if option not in given))
    return given


def _named(places: Sequence[Place]) -> set[str]:
    names = {KEY, TIMESTAMP, WINDOW_START, WINDOW_END, VALUE}
    for place in places:
        names |= {place.alias, place.store, *place.known.members}
    return {name.casefold() for name in names}


def _at(sql: str, position: object) -> str:
    """Show a position in a query."""
    at = int(str(position)) if str(position).isdigit() else None
    if at is None:
        return ""
    before, behind = sql[:at].splitlines() or [""], sql[at:].splitlines() or [""]
    return (
        f"\n\nLINE {len(before)}: {before[-1]}{behind[0]}\n{' ' * (len(f'LINE {len(before)}: ') + len(before[-1]))}^\n"
    )


def _short(sql: str) -> str:
    text = " ".join(sql.split())
    return text if len(text) <= 60 else f"{text[:60]}..."
