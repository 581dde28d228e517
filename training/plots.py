"""Plots that are readable on light and dark backgrounds."""

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from backends.types import Float64, Int64
from router.types import Thresholds
from training.fit.calibration import Reliability
from training.markdown import INK
from training.thresholds.outcomes import Outcome
from training.thresholds.solve import Front

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BINS = 20
OUTCOMES: Mapping[str, int] = {
    "only the simple arm succeeds": 0,
    "both or neither": -1,
    "only the graph succeeds": 1,
}
"""Outcome -> `better` of `training.labels.Disagreement`."""
BLUE, GREY, ORANGE, GREEN = "#3d7fc1", "#a9a9a9", "#d97f26", "#5c9a55"
_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    **{f"{part}.color": INK for part in ("text", "xtick", "ytick")},
    **{f"axes.{part}color": INK for part in ("edge", "label", "title")},
}
_SVG: dict[Any, Any] = {"svg.hashsalt": "wye", "svg.fonttype": "none"}
_BARE = dict.fromkeys(("Date", "Creator", "Format", "Type"))
"""Drops date and version, so that only numbers change the bytes."""


def histogram(scores: Float64, better: Int64) -> dict[str, Int64]:
    """Outcome -> (BINS,) number of questions by score, in bins of equal width.

    Args:
        better: (n,) as in `training.labels.Disagreement`.
    """
    return {
        outcome: np.histogram(scores[better == which], bins=BINS, range=(0, 1))[0]
        for outcome, which in OUTCOMES.items()
    }


@mpl.rc_context(_STYLE)
def reliability_figure(found: Mapping[str, Reliability]) -> Figure:
    """Share of questions that the graph wins against the score, in bins of equal size."""
    figure, (axes,) = _figure(1, 4.2, 3.8)
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=":")
    for (name, one), colour in zip(found.items(), (BLUE, ORANGE, GREEN), strict=False):
        score, outcome = one.mass.score, one.mass.outcome
        axes.plot(score, outcome, color=colour, marker="o", markersize=4, label=name)
    axes.set(xlabel="mean score", ylabel="share that only the graph answers")
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    axes.legend(loc="upper left")
    return figure


@mpl.rc_context(_STYLE)
def score_figure(
    found: Mapping[str, Mapping[str, Int64]], thresholds: Thresholds | None = None
) -> Figure:
    """Histograms of scores by outcome, one panel for each set of questions.

    Args:
        found: Title -> result of `histogram`.
        thresholds: Drawn as lines; None for none.
    """
    edges = np.linspace(0, 1, BINS + 1)
    # The legend needs that width even below a single panel.
    figure, panels = _figure(len(found), max(6.4, 4.2 * len(found)), 3.0)
    for axes, (title, counts) in zip(panels, found.items(), strict=True):
        below, left = np.zeros(BINS), edges[:-1]
        for name, color in zip(OUTCOMES, (BLUE, GREY, ORANGE), strict=True):
            axes.bar(left, counts[name], 1 / BINS, below, align="edge", color=color, label=name)
            below = below + counts[name]
        for threshold in (thresholds.low, thresholds.high) if thresholds else ():
            axes.axvline(threshold, color=INK, linewidth=1.2, linestyle="--")
        axes.set(title=title, xlabel="score", ylabel="questions", xlim=(0, 1))
    marks, names = panels[0].get_legend_handles_labels()
    figure.legend(marks, names, loc="outside lower center", ncols=len(names))
    return figure


@mpl.rc_context(_STYLE)
def front_figure(
    front: Front, chosen: Outcome, fixed: Mapping[str, Outcome], measure: str = "quality"
) -> Figure:
    """The Pareto front, with the chosen thresholds and each of the fixed routes."""
    figure, (axes,) = _figure(1, 5.6, 3.6)
    axes.plot(front.mean_ms, front.quality, color=BLUE, label="best pairs of thresholds")
    # A route that no thresholds take is far off, and would squeeze the front.
    taken = {name: one for name, one in fixed.items() if any(one.shares)}
    for (name, one), marker in zip(taken.items(), "s^D", strict=False):
        axes.plot(one.mean_ms, one.quality, marker, color=GREY, label=f"always {name}")
    own = chosen.mean_ms, chosen.quality
    axes.plot(*own, "o", color=ORANGE, markersize=8, label="these thresholds")
    axes.set(xlabel="mean latency, ms", ylabel=measure)
    axes.legend(loc="lower right")
    return figure


@mpl.rc_context(_STYLE)
def importance_figure(names: Sequence[str], importances: Float64, most: int = 20) -> Figure:
    """Bars of the most important features, by (d,) importances."""
    order = np.argsort(-importances, kind="stable")[:most][::-1].tolist()
    figure, (axes,) = _figure(1, 6.2, 0.6 + 0.2 * len(order))
    axes.barh([names[at] for at in order], importances[order], color=BLUE)
    axes.set(xlabel="mean |contribution| to the logit")
    return figure


def _figure(panels: int, width: float, height: float) -> "tuple[Figure, list[Axes]]":
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, [figure.add_subplot(1, panels, place + 1) for place in range(panels)]


def as_png(figure: Figure) -> bytes:
    """PNG on a white background, which is readable anywhere."""
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=110, facecolor="white")
    return written.getvalue()


@mpl.rc_context(_SVG)
def as_svg(figure: Figure) -> str:
    """SVG; equal numbers give equal bytes."""
    written = io.StringIO()
    figure.savefig(written, format="svg", transparent=True, metadata=_BARE)
    svg = written.getvalue()
    return svg[svg.index("<svg") :]
