"""Kinds of remote arms; a new one needs a file here and a line below."""

from collections.abc import Mapping
from typing import Any

from wye.service.arms.kinds.http import HttpKind
from wye.service.arms.kinds.mcp import McpKind
from wye.service.arms.kinds.pgvector import PgVectorKind
from wye.service.arms.kinds.python import PythonKind
from wye.service.arms.types import Kind

KINDS: Mapping[str, type[Kind[Any]]] = {
    "http": HttpKind,
    "mcp": McpKind,
    "pgvector": PgVectorKind,
    "python": PythonKind,
}
"""Kinds by their name in the arms file."""
