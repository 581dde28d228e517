"""Compares a value with the frozen one and says where it differs.

Floats may differ by a tolerance, since processors and their libraries add up in different orders.
Everything else must be equal: texts, integers, keys, and the length and order of lists. Neighbours
in a ranking may change places if their frozen scores are equal within the tolerance.

Something may be removed if the caller says so. Then what remains must be equal all the same, and
nothing may be added.
"""

import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerance:
    """How far two numbers may be apart.

    Attributes:
        relative: Tolerance relative to the larger number.
        absolute: Tolerance for numbers near zero.
    """

    relative: float = 1e-4
    absolute: float = 2e-5

    def allows(self, was: float, now: float) -> bool:
        return math.isclose(was, now, rel_tol=self.relative, abs_tol=self.absolute)


TOLERANCE = Tolerance()
TRAINED = Tolerance(1e-3, 2e-5)
"""For what is trained: a fit carries the last bits of its input further than an answer does."""
MISSING = "(missing)"


class _Everything(Container[str]):
    def __contains__(self, key: object) -> bool:
        return True


EVERYTHING = _Everything()
"""For descriptions, such as a list of settings: any key and any item of a list may be removed."""

# What names an item of a ranked list, and what the list is sorted by.
_RANKED = (("id", "score"), ("entity", "weight"), ("name", "logit"))
_SHOWN = 160


def differences(
    was: object, now: object, tolerance: Tolerance = TOLERANCE, removed: Container[str] = ()
) -> list[str]:
    """A line for each difference: where it is, the frozen value, and the present one.

    Args:
        removed: Keys that may be missing, at any depth; or `EVERYTHING`.
    """
    return [
        f"{' > '.join(path) or '(all)'}: was {old}, is {new}"
        for path, old, new in _Walk(tolerance, removed).differences((), was, now)
    ]


def report(name: str, found: Sequence[str], most: int = 40) -> str:
    lines = [f"{name} differs from what was frozen in {len(found)} places:", *found[:most]]
    if len(found) > most:
        lines.append(f"... and {len(found) - most} more")
    return "\n".join(lines)


Path = tuple[str, ...]
Difference = tuple[Path, str, str]


@dataclass(frozen=True)
class _Walk:
    tolerance: Tolerance
    removed: Container[str]

    def differences(self, path: Path, was: object, now: object) -> Iterator[Difference]:
        if isinstance(was, dict) and isinstance(now, dict):
            for key in [*was, *(key for key in now if key not in was)]:
                below = (*path, str(key))
                if key not in was:
                    yield below, MISSING, _shown(now[key])
                elif key in now:
                    yield from self.differences(below, was[key], now[key])
                elif key not in self.removed:
                    yield below, _shown(was[key]), MISSING
        elif isinstance(was, list) and isinstance(now, list):
            yield from self._in_lists(path, self._remaining(was, now), now)
        elif not _same(was, now, self.tolerance):
            yield path, _shown(was), _shown(now)

    def _in_lists(
        self, path: Path, was: Sequence[object], now: Sequence[object]
    ) -> Iterator[Difference]:
        if len(was) != len(now):
            yield (*path, "(length)"), str(len(was)), str(len(now))
        ordered = _ties_as_they_were(was, now, self.tolerance)
        for place, (old, new) in enumerate(zip(was, ordered, strict=False)):
            yield from self.differences((*path, _place(place, old)), old, new)
        for place in range(min(len(was), len(now)), max(len(was), len(now))):
            old = _shown(was[place]) if place < len(was) else MISSING
            new = _shown(now[place]) if place < len(now) else MISSING
            yield (*path, str(place)), old, new

    def _remaining(self, was: Sequence[object], now: Sequence[object]) -> Sequence[object]:
        """The frozen items that the present ones are, in order; all of them if one is not there."""
        if self.removed is not EVERYTHING or len(was) == len(now):
            return was
        left, found = iter(was), []
        for new in now:
            old = next((old for old in left if not any(self.differences((), old, new))), MISSING)
            if old is MISSING:
                return was
            found.append(old)
        return found


def _same(was: object, now: object, tolerance: Tolerance) -> bool:
    if type(was) is not type(now):
        return False
    if isinstance(was, float) and isinstance(now, float):
        return tolerance.allows(was, now)
    return was == now


def _ties_as_they_were(
    was: Sequence[object], now: Sequence[object], tolerance: Tolerance
) -> Sequence[object]:
    """The present items, with those that only changed places with ties put back in frozen order."""
    for name, value in _RANKED:
        old, new = _column(was, name), _column(now, name)
        scores = _column(was, value)
        if old is None or new is None or scores is None or len(old) != len(new):
            continue
        ordered = list(now)
        start = 0
        for end in range(1, len(old) + 1):
            if end < len(old) and _close(scores[end - 1], scores[end], tolerance):
                continue
            here = slice(start, end)
            if old[here] != new[here] and sorted(map(str, old[here])) == sorted(
                map(str, new[here])
            ):
                ordered[here] = _put_back(old[here], now[here], name)
            start = end
        return ordered
    return now


def _put_back(names: Sequence[object], items: Sequence[object], name: str) -> list[object]:
    """Items in the order of the given names; each gets the rank of its new position."""
    rows = [item for item in items if isinstance(item, dict)]
    chosen = [next(row for row in rows if row[name] == wanted) for wanted in names]
    return [
        {**row, "rank": place["rank"]} if "rank" in row and "rank" in place else row
        for row, place in zip(chosen, rows, strict=True)
    ]


def _column(items: Sequence[object], key: str) -> list[object] | None:
    if not items:
        return None
    found: list[object] = []
    for item in items:
        if not isinstance(item, Mapping) or key not in item:
            return None
        found.append(item[key])
    return found


def _close(one: object, other: object, tolerance: Tolerance) -> bool:
    return (
        isinstance(one, int | float)
        and isinstance(other, int | float)
        and tolerance.allows(one, other)
    )


def _place(place: int, item: object) -> str:
    if isinstance(item, Mapping):
        for name, _ in _RANKED:
            if name in item:
                return f"{place} ({item[name]})"
    return str(place)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
