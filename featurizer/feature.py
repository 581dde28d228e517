"""The type of a feature, and helpers to define one."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wye.featurizer.question import View


@dataclass(frozen=True, slots=True)
class Feature:
    """One number that describes a question.

    Attributes:
        name: In snake case; never reused for another feature.
        unit: E.g. "words" or "words a clause"; "0 or 1" for a flag.
        doc: Its meaning in one sentence, with its value when there is nothing to divide by.
        value: Computes the number from a question's view; finite for any question.
        group: The group that it is listed in and ablated with.
        source: Where the definition comes from.
        version: Raised when the value changes for any question.
    """

    name: str
    unit: str
    doc: str
    value: Callable[["View"], float]
    group: str
    source: str
    version: int = 1


def ratio(above: float, below: float) -> float:
    """The ratio, and 0 when there is nothing to divide by."""
    return above / below if below else 0.0


def words(text: str) -> frozenset[str]:
    """The words of a space-separated list."""
    return frozenset(text.split())


def mean(values: list[int]) -> float:
    """The mean; 0 of an empty list."""
    return sum(values) / len(values) if values else 0.0
