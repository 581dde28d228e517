"""Which collections there are, and where; and how settings name them."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from service.errors import ServiceError

DEFAULT = "default"

_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,63}")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a collection is.

    Attributes:
        name: That requests use.
        folder: Of its index.
    """

    name: str
    folder: Path


def by_name(entries: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Entries NAME=VALUE as name and value; VALUE alone is for "default"."""
    for entry in entries:
        name, is_named, value = entry.partition("=")
        yield (name, value) if is_named else (DEFAULT, entry)


def places(named: Iterable[str], fallback: Path | None) -> list[Place]:
    """Collections as NAME=DIR, or DIR alone for "default".

    Args:
        named: As written.
        fallback: Folder of "default" when there are none.

    Raises:
        ServiceError: A name that cannot stand in an address, one that is there twice, or nothing
            to serve.
    """
    found: dict[str, Place] = {}
    for name, folder in by_name(named):
        if not _NAME.fullmatch(name):
            raise ServiceError(
                f"A collection cannot be called '{name}'; use letters, digits, dots and dashes."
            )
        if name in found:
            raise ServiceError(
                f"Two collections are called '{name}'; give each a name, as in --index {name}2=DIR."
            )
        if not folder:
            raise ServiceError(f"Collection '{name}' has no folder; write {name}=DIR.")
        found[name] = Place(name, Path(folder))
    if not found and fallback is not None:
        return [Place(DEFAULT, fallback)]
    if not found:
        raise ServiceError("Serve what? Give --index DIR, or set WYE_INDEX.")
    return list(found.values())
