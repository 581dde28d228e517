"""Numbers as reports have them."""

import math

from training.evaluation.bootstrap import Interval


def share(value: float) -> str:
    """A share without the 0 that all of them begin with; a dash where there is none."""
    if math.isnan(value):
        return "-"
    return f"{value:.3f}".replace("0.", ".", 1) if abs(value) < 1 else f"{value:.2f}"


def spread(cell: Interval) -> str:
    """A mean with its interval."""
    return f"{share(cell.mean)} [{share(cell.low)} {share(cell.high)}]"


def signed(cell: Interval) -> str:
    """A difference; * where its interval excludes 0."""
    return f"{_gain(cell.mean)}{star(cell)}"


def signed_spread(cell: Interval) -> str:
    """A difference with its interval; * where that excludes 0."""
    return f"{_gain(cell.mean)} [{_gain(cell.low)} {_gain(cell.high)}]{star(cell)}"


def star(cell: Interval) -> str:
    """Whether a difference is beyond chance."""
    return "*" if cell.low > 0 or cell.high < 0 else ""


def percent(value: float) -> str:
    """A share in percent; a dash where there is none."""
    return "-" if math.isnan(value) else f"{100 * value:.0f} %"


def milliseconds(value: float) -> str:
    """With a decimal where that says something."""
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def _gain(value: float) -> str:
    return f"{value:+.3f}".replace("0.", ".", 1)
