"""JSON pointers (RFC 6901), and templates that a question is put into."""

import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator

from service.arms.types import Garbled

MISSING = object()
"""Stands where a pointer leads nowhere."""

_POINTER = re.compile(r"(?:/(?:[^~/]|~0|~1)*)*")


def check_pointer(pointer: str) -> str:
    """The same pointer.

    Raises:
        ValueError: It is none.
    """
    if not _POINTER.fullmatch(pointer):
        raise ValueError("write a JSON pointer, such as /data/hits; empty for the whole")
    return pointer


Pointer = Annotated[str, AfterValidator(check_pointer)]


def at(value: object, pointer: str) -> object:
    """What a pointer leads to in parsed JSON; `MISSING` where that is nothing."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping):
            value = value.get(name, MISSING)
        elif isinstance(value, list) and re.fullmatch("0|[1-9][0-9]*", name):
            value = value[int(name)] if int(name) < len(value) else MISSING
        else:
            return MISSING
    return value


def found_at(value: object, pointer: str) -> object:
    """The same for what need not be there: None where it is not, or no pointer says where."""
    found = at(value, pointer) if pointer else None
    return None if found is MISSING else found


def list_at(value: object, pointer: str) -> list[object]:
    """The list that a pointer leads to.

    Raises:
        Garbled: It leads to none.
    """
    found = at(value, pointer)
    if not isinstance(found, list):
        raise Garbled(f"there is no list at {pointer or 'its top'}")
    return found


def names_in(template: object) -> set[str]:
    """The strings of a template, those within lists and tables too."""
    if isinstance(template, str):
        return {template}
    if isinstance(template, Mapping):
        return set().union(*map(names_in, template.values()))
    if isinstance(template, list):
        return set().union(*map(names_in, template))
    return set()


def filled(template: object, values: Mapping[str, object]) -> object:
    """A template with values in the place of strings such as "{question}".

    A string is replaced as a whole, so that nothing in a question is read as part of a template.
    Where the value of an entry is `MISSING`, the entry is left out.
    """
    if isinstance(template, str):
        return values.get(template, template)
    if isinstance(template, Mapping):
        entries = ((key, filled(value, values)) for key, value in template.items())
        return {key: value for key, value in entries if value is not MISSING}
    if isinstance(template, list):
        items = (filled(value, values) for value in template)
        return [value for value in items if value is not MISSING]
    return template
