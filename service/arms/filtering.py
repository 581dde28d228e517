"""Filters of ours in the words of others, exactly or not at all."""

from collections.abc import Callable
from typing import TypeVar

from backends.errors import FilterError
from backends.filters import Combination, Comparison, Filter, parse_filter

T = TypeVar("T")


def translated(
    filter_: object,
    compare: Callable[[Comparison], T],
    combine: Callable[[str, list[T]], T],
) -> T:
    """A filter as another language has it.

    Args:
        filter_: Parsed JSON.
        compare: Translates one comparison.
        combine: Translates "and" or "or" of what is translated.

    Raises:
        FilterError: One of them cannot be said there.
    """

    def one(part: Filter) -> T:
        if isinstance(part, Combination):
            return combine(part.type, [one(each) for each in part.filters])
        return compare(part)

    return one(parse_filter(filter_))


def numbers_only(part: Comparison) -> None:
    """Refuse an order of texts.

    Raises:
        FilterError: It asks for one.
    """
    if part.type in ("gt", "gte", "lt", "lte") and isinstance(part.values[0], str):
        raise FilterError(f"it has no order of texts, which {part.key!r:.60} is compared by")


def value_of(part: Comparison) -> object:
    """What a comparison compares with: a list for "in" and "nin"."""
    return list(part.values) if part.type in ("in", "nin") else part.values[0]
