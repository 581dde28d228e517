"""Every environment variable that is a setting: its name, default and meaning, from the code.

`python -m service.settings` prints SETTINGS.md with it; `make docs` writes it.
"""

import difflib
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from inspect import getdoc
from typing import Any

from pydantic import BaseModel

from router.errors import SettingsError

PREFIX = "WYE_"
SEPARATOR = "__"
# Slices of the service, which lies above and checks their names itself.
ELSEWHERE = ("serve", "generator")

_ATTRIBUTE = re.compile(r"^    (\w+): ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Variable:
    """One setting as the environment says it.

    Attributes:
        name: Of the variable.
        part: Docstring's first line of the settings it belongs to.
        default: As it would be written in the environment; "" for nothing.
        doc: What it means.
    """

    name: str
    part: str
    default: str
    doc: str


def variables(model: type[BaseModel]) -> list[Variable]:
    """Every variable of a settings model, its own first, then those of each part in order."""
    docs: dict[str, str] = {}
    for owner in reversed(model.__mro__):
        docs |= attribute_docs(owner)  # what a layer above adds to a model is on top
    own: list[Variable] = []
    parts: list[Variable] = []
    for name, info in model.model_fields.items():
        variable = PREFIX + name.upper()
        default = info.get_default(call_default_factory=True)
        if is_dataclass(default) and not isinstance(default, type):
            parts.extend(_of_part(variable, default))
        else:
            own.append(Variable(variable, _first_line(model), _written(default), docs[name]))
    return own + parts


def refuse_unknown(model: type[BaseModel], environment: Mapping[str, str] | None = None) -> None:
    """Refuse a variable with our prefix that sets nothing: most likely it is misspelt.

    Slices that the model lacks because a layer above has them are left to that layer.

    Args:
        model: The settings.
        environment: The process's own by default.

    Raises:
        SettingsError: Names the variable and those like it.
    """
    known = {variable.name for variable in variables(model)}
    above = tuple(
        PREFIX + part.upper() + SEPARATOR for part in ELSEWHERE if part not in model.model_fields
    )
    for name in sorted(os.environ if environment is None else environment):
        if not name.upper().startswith(PREFIX) or name.upper() in known:
            continue
        if above and name.upper().startswith(above):
            continue
        near = difflib.get_close_matches(name.upper(), sorted(known), n=3, cutoff=0.6)
        advice = f"did you mean {' or '.join(near)}?" if near else "SETTINGS.md lists them all."
        raise SettingsError(f"{name} is set, but there is no such setting; {advice}")


def attribute_docs(owner: type) -> dict[str, str]:
    """Attribute -> text of its entry under "Attributes:" in a class's docstring, on one line.

    Raises:
        KeyError: When looked up, for an attribute that is not documented.
    """
    _, _, section = (getdoc(owner) or "").partition("Attributes:\n")
    found = list(_ATTRIBUTE.finditer(section))
    ends = [*(match.start() for match in found), len(section)][1:]
    return {
        match[1]: " ".join(section[match.end() : end].split())
        for match, end in zip(found, ends, strict=True)
    }


def markdown(model: type[BaseModel]) -> str:
    """The settings as a page of tables, one for each part."""
    lines = [
        "# Settings",
        "",
        "Every setting is an environment variable. Written from the code by `make docs`; do not "
        "edit.",
    ]
    part = ""
    for variable in variables(model):
        if variable.part != part:
            part = variable.part
            lines += ["", f"## {part.rstrip('.')}", "", "| variable | default | meaning |"]
            lines.append("|---|---|---|")
        default = f"`{variable.default}`" if variable.default else "none"
        lines.append(f"| `{variable.name}` | {default} | {variable.doc} |")
    return "\n".join(lines) + "\n"


def _of_part(prefix: str, value: Any) -> Iterator[Variable]:  # noqa: ANN401 - any dataclass
    """The variables of a settings dataclass, parts within it last."""
    docs = attribute_docs(type(value))
    nested: list[Variable] = []
    for entry in fields(value):
        variable = prefix + SEPARATOR + entry.name.upper()
        own = getattr(value, entry.name)
        if is_dataclass(own) and not isinstance(own, type):
            nested.extend(_of_part(variable, own))
        else:
            part = _first_line(type(value))
            yield Variable(variable, part, _written(own), docs[entry.name])
    yield from nested


def _first_line(owner: type) -> str:
    return (getdoc(owner) or "").splitlines()[0]


def _written(value: object) -> str:
    """A default as the environment would say it."""
    if value is None or value is MISSING:
        return ""
    if isinstance(value, tuple | list):
        return ",".join(_written(item) for item in value)
    if isinstance(value, bool):
        return str(value).lower()
    return str(value.value if isinstance(value, Enum) else value)
