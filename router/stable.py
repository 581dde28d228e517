"""JSON that is the same bytes for the same content, wherever it is printed or written."""

import json
from collections.abc import Mapping

DIGITS = 6


def stable_json(content: object, *, indent: int | None = 2) -> str:
    """Sorted keys, numbers of at most 6 decimals, text as it is.

    Args:
        content: Mappings, sequences, text, numbers, truth values and None.
        indent: Blanks per level, or None for one line.
    """
    return json.dumps(_rounded(content), sort_keys=True, indent=indent, ensure_ascii=False)


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value
