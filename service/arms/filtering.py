"""Translates our filters to other languages, exactly or not at all."""

from collections.abc import Callable
from typing import TypeVar

from backends.filters import Combination, Comparison, Filter, parse_filter

T = TypeVar("T")


def translated(
    filter_: object,
    compare: Callable[[Comparison], T],
    combine: Callable[[str, list[T]], T],
) -> T:
    """Translate a filter to another language.

    Args:
        filter_: Parsed JSON.
        compare: Translates one comparison.
        combine: Joins translated parts with "and" or "or".

    Raises:
        FilterError: A part cannot be expressed there.
    """

    def one(part: Filter) -> T:
        if isinstance(part, Combination):
            return combine(part.type, [one(each) for each in part.filters])
        return compare(part)

    return one(parse_filter(filter_))
