"""Kinds of remote arms; a new one needs a file here and a line below."""

from collections.abc import Mapping
from typing import Any

from service.arms.kinds.chroma import ChromaKind
from service.arms.kinds.http import HttpKind
from service.arms.kinds.lightrag import LightRagKind
from service.arms.kinds.mcp import McpKind
from service.arms.kinds.openai_vector_store import OpenAiVectorStoreKind
from service.arms.kinds.opensearch import OpenSearchKind
from service.arms.kinds.pgvector import PgVectorKind
from service.arms.kinds.python import PythonKind
from service.arms.kinds.qdrant import QdrantKind
from service.arms.kinds.wye import WyeKind
from service.arms.types import Kind

KINDS: Mapping[str, type[Kind[Any]]] = {
    "chroma": ChromaKind,
    "elasticsearch": OpenSearchKind,
    "http": HttpKind,
    "lightrag": LightRagKind,
    "mcp": McpKind,
    "openai-vector-store": OpenAiVectorStoreKind,
    "opensearch": OpenSearchKind,
    "pgvector": PgVectorKind,
    "python": PythonKind,
    "qdrant": QdrantKind,
    "wye": WyeKind,
}
"""Kinds by their name in the arms file."""
