"""Kinds of remote arms; a new one needs a file here and a line below."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from wye.service.arms.types import Kind

KINDS: Mapping[str, str] = {
    "http": "HttpKind",
    "mcp": "McpKind",
    "pgvector": "PgVectorKind",
    "python": "PythonKind",
}
"""The class of each kind by its name in the arms file, which is also its file's name here."""


def kind_named(name: str) -> type[Kind[Any]]:
    """The class of a kind in `KINDS`; its libraries are loaded when an arms file names it first."""
    kind: type[Kind[Any]] = getattr(import_module(f"wye.service.arms.kinds.{name}"), KINDS[name])
    return kind
