"""A table of PostgreSQL with pgvector as a remote arm.

    [arms.notes]
    kind = "python"
    role = "list"
    target = "pgvector_arm:Notes"
    filters = true

Put this table into `wye.toml`, copy this file and change its names of table and columns. Start
`wye serve` with its folder in PYTHONPATH and the database's address in NOTES_DSN. EMBEDDINGS_URL is
the OpenAI-compatible endpoint that made the vectors, and EMBEDDINGS_KEY its key, if it has one. The
role needs to read the table and nothing else. It needs `pip install 'psycopg[binary]'`.
"""

import asyncio
import os

import httpx2
import psycopg
from psycopg.sql import SQL, Composable, Identifier

from wye.backends.filters import Combination, Filter, parse_filter

TABLE = Identifier("public", "notes")
ID, TITLE, TEXT, VECTOR = map(Identifier, ("id", "heading", "body", "embedding"))
METADATA = ("year", "author")  # columns that a filter may name
MODEL = "text-embedding-3-small"
QUERY = SQL(
    "SELECT {ID}::text, {TITLE}, {TEXT}, 1 - ({VECTOR} <=> %s::vector), {metadata} FROM {TABLE} "
    "WHERE {condition} ORDER BY {VECTOR} <=> %s::vector LIMIT %s"
)
ORDERS = {"gt": SQL(">"), "gte": SQL(">="), "lt": SQL("<"), "lte": SQL("<=")}


class Notes:
    """Searches the table by cosine."""

    async def search(self, question: str, k: int, filter_: object) -> list[dict[str, object]]:
        """The k nearest rows that pass the filter."""
        vector = str(await self.encode(question))
        values: list[object] = []
        condition = SQL("true") if filter_ is None else where(parse_filter(filter_), values)
        metadata = SQL(", ").join(map(Identifier, METADATA))
        names = {"ID": ID, "TITLE": TITLE, "TEXT": TEXT, "VECTOR": VECTOR, "TABLE": TABLE}
        query = QUERY.format(**names, metadata=metadata, condition=condition)
        options = "-c default_transaction_read_only=on -c statement_timeout=3000"
        async with await psycopg.AsyncConnection.connect(
            os.environ["NOTES_DSN"], options=options, connect_timeout=3
        ) as connection:
            cursor = await connection.execute(query, [vector, *values, vector, k])
            rows = await cursor.fetchall()
        return [
            {
                "id": id_,
                "title": title or "",
                "text": text,
                "score": score,
                "metadata": {k: v for k, v in zip(METADATA, others, strict=True) if v is not None},
            }
            for id_, title, text, score, *others in rows
        ]

    async def encode(self, question: str) -> list[float]:
        """The question's vector."""
        key = os.environ.get("EMBEDDINGS_KEY")
        headers = {"authorization": f"Bearer {key}"} if key else {}
        async with httpx2.AsyncClient(headers=headers) as client:
            url = f"{os.environ['EMBEDDINGS_URL']}/embeddings"
            reply = await client.post(url, json={"model": MODEL, "input": question})
        reply.raise_for_status()
        vector: list[float] = reply.json()["data"][0]["embedding"]
        return vector


def where(node: Filter, values: list[object]) -> Composable:
    """A filter as a condition; what it compares is appended to the values.

    A key that is no column is one that no row has. Texts are ordered by code points, as Wye's
    filters order them, whatever the collation of the database.
    """
    if isinstance(node, Combination):
        parts = [where(part, values) for part in node.filters]
        return SQL("({})").format(SQL(" AND " if node.type == "and" else " OR ").join(parts))
    column = Identifier(node.key) if node.key in METADATA else SQL("NULL")
    if node.type in ("in", "nin"):
        values.append(list(node.values))
        condition = SQL("coalesce({} = ANY(%s), false)").format(column)
        return condition if node.type == "in" else SQL("NOT ") + condition
    value = node.values[0]
    values.append(value)
    if node.type in ("eq", "ne"):
        word = SQL("IS NOT DISTINCT FROM" if node.type == "eq" else "IS DISTINCT FROM")
        return SQL("{} {} %s").format(column, word)
    collation = SQL(' COLLATE "C"' if isinstance(value, str) else "")
    return SQL("coalesce({}{} {} %s, false)").format(column, collation, ORDERS[node.type])


if __name__ == "__main__":
    print(asyncio.run(Notes().search(input("Question: "), 5, None)))
