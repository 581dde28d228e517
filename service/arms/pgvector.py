"""A table of PostgreSQL with a column of vectors (pgvector)."""

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Literal, LiteralString

from pydantic import AfterValidator, Field

from wye.backends.errors import FilterError
from wye.backends.filters import Combination, Comparison, Filter, parse_filter
from wye.featurizer.errors import how_to_install
from wye.service.arms.http import Embedder, VectorConfig, secret_of
from wye.service.arms.kind import ArmError, Encode, Kind, RemoteHit, RemoteHits, remote_hit
from wye.service.errors import ServiceError

if TYPE_CHECKING:
    from psycopg import AsyncConnection
    from psycopg.sql import Composable

_DISTANCES: dict[str, LiteralString] = {"cosine": "<=>", "l2": "<->", "inner": "<#>"}
_ORDERS: dict[str, LiteralString] = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def _a_dsn(dsn: str) -> str:
    if not dsn.startswith(("postgresql://", "postgres://")):
        raise ValueError("begin it with postgresql://")
    authority, _, query = dsn.partition("://")[2].partition("?")
    if ":" in authority.rpartition("@")[0] or "password" in query:
        raise ValueError("put no password into it; name its variable with password_env")
    return dsn


Column = Annotated[str, Field(min_length=1, max_length=63)]


class PgVectorConfig(VectorConfig):
    """A table of PostgreSQL.

    Attributes:
        dsn: Address, user and database, as postgresql://USER@HOST/DATABASE.
        password_env: Name of the environment variable that holds the password.
        table: Its name, after its schema and a dot if the search path does not have the schema.
        id: Column of the id.
        text: Column of the passage's text.
        title: Column of the title; empty for none.
        vector: Column of the vector.
        columns: Further columns, which become metadata and can be filtered by.
        distance: "cosine", "l2" or "inner", as in the index of the column.
    """

    dsn: Annotated[str, AfterValidator(_a_dsn)]
    password_env: str = ""
    table: Annotated[str, Field(min_length=1, max_length=127)]
    id: Column = "id"
    text: Column = "text"
    title: Annotated[str, Field(max_length=63)] = ""
    vector: Column = "embedding"
    columns: list[Column] = Field(default_factory=list)
    distance: Literal["cosine", "l2", "inner"] = "cosine"


class PgVectorKind(Kind[PgVectorConfig]):
    """Asks with one statement that only reads; names are quoted, values are parameters."""

    Config = PgVectorConfig

    def __init__(self, config: PgVectorConfig) -> None:
        super().__init__(config)
        try:
            import psycopg  # noqa: PLC0415 - of the extra arms
        except ImportError:
            raise ServiceError(
                f"kind: pgvector needs another package; {how_to_install('arms')}"
            ) from None
        self._psycopg = psycopg
        self._password = secret_of(config.password_env, "password_env")
        self._vectors = Embedder(config)
        self._idle: list[AsyncConnection[Any]] = []

    def use(self, encode: Encode) -> None:
        """Set the collection's encoder, for vectors that no endpoint of the arm's own makes."""
        self._vectors.encode = encode

    async def search(self, question: str, k: int, filter_: object | None) -> RemoteHits:
        """Find at most k rows, nearest first."""
        vector = await self._vectors.vector(question)
        connection = await self._connect()
        try:
            async with asyncio.timeout(self.config.timeout_ms / 1000):
                cursor = await connection.execute(*self._statement(vector, k, filter_))
                rows = await cursor.fetchall()
        except self._psycopg.errors.DataError:
            await connection.close()
            raise ArmError(
                "has columns of other types than the question's values", fault=False
            ) from None
        except self._psycopg.Error as error:
            await connection.close()
            raise ArmError(f"failed ({type(error).__name__})") from None
        except BaseException:  # cancelled: the server is still working on the statement
            await connection.close()
            raise
        self._idle.append(connection)
        return RemoteHits(tuple(map(self._hit, rows)))

    async def close(self) -> None:
        """Close its connections."""
        await self._vectors.close()
        while self._idle:
            await self._idle.pop().close()

    async def _connect(self) -> "AsyncConnection[Any]":
        while self._idle:
            connection = self._idle.pop()
            if not connection.closed:
                return connection
        credentials = {"password": self._password} if self._password else {}
        milliseconds = self.config.timeout_ms
        try:
            return await self._psycopg.AsyncConnection.connect(
                self.config.dsn,
                autocommit=True,
                connect_timeout=max(2, milliseconds // 1000),
                options=f"-c default_transaction_read_only=on -c statement_timeout={milliseconds}",
                **credentials,
            )
        except self._psycopg.Error:
            raise ArmError(
                "cannot be reached", outcome="unreachable", retry=True, charged=False
            ) from None

    def _statement(
        self, vector: list[float], k: int, filter_: object | None
    ) -> "tuple[Composable, list[object]]":
        sql, config = self._psycopg.sql, self.config
        title = sql.Identifier(config.title) if config.title else sql.SQL("''")
        distance = sql.SQL("{} {} %s::vector").format(
            sql.Identifier(config.vector), sql.SQL(_DISTANCES[config.distance])
        )
        where, values = (sql.SQL("true"), []) if filter_ is None else self.translate(filter_)
        columns = [sql.Identifier(name) for name in config.columns]
        near = str(vector)
        statement = sql.SQL(
            "SELECT {id}::text, {text}, {title}, {distance}{columns} FROM {table} "
            "WHERE {where} ORDER BY {distance} LIMIT %s"
        ).format(
            id=sql.Identifier(config.id),
            text=sql.Identifier(config.text),
            title=title,
            distance=distance,
            columns=sql.SQL("").join(sql.SQL(", {}").format(name) for name in columns),
            table=sql.Identifier(*config.table.split(".", 1)),
            where=where,
        )
        return statement, [near, *values, near, k]

    def translate(self, filter_: object) -> "tuple[Composable, list[object]]":
        """Translate a filter to a condition and its values; keys must be columns."""
        sql = self._psycopg.sql
        values: list[object] = []

        def compare(node: Comparison) -> "Composable":
            if node.key not in self.config.columns:
                raise FilterError(f"{node.key!r:.60} is not one of its columns")
            column = sql.Identifier(node.key)
            if node.type in ("in", "nin"):
                values.append(list(node.values))
                condition = sql.SQL("coalesce({} = ANY(%s), false)").format(column)
                return condition if node.type == "in" else sql.SQL("NOT ") + condition
            values.append(node.values[0])
            if node.type in ("eq", "ne"):
                word = sql.SQL("IS NOT DISTINCT FROM" if node.type == "eq" else "IS DISTINCT FROM")
                return sql.SQL("{} {} %s").format(column, word)
            order = sql.SQL(_ORDERS[node.type])
            # By code points, as Python compares strings, whatever the database's collation.
            texts = sql.SQL(' COLLATE "C"' if isinstance(node.values[0], str) else "")
            return sql.SQL("coalesce({}{} {} %s, false)").format(column, texts, order)

        def condition(node: Filter) -> "Composable":
            if not isinstance(node, Combination):
                return compare(node)
            word = sql.SQL(" AND " if node.type == "and" else " OR ")
            return sql.SQL("({})").format(word.join(map(condition, node.filters)))

        return condition(parse_filter(filter_)), values

    def _hit(self, row: tuple[Any, ...]) -> RemoteHit:
        id_, text, title, distance, *values = row
        score = 1 - distance if self.config.distance == "cosine" else -distance
        metadata = {
            name: _plain(value)
            for name, value in zip(self.config.columns, values, strict=True)
            if value is not None
        }
        return remote_hit(id_, text, title or "", score, metadata)


def _plain(value: object) -> object:
    """A value for metadata; dates and the like become text."""
    if isinstance(value, str | int | float | list):
        return value
    as_number = getattr(value, "__float__", None)
    return as_number() if as_number else str(value)
