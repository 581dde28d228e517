"""The two figures of a training run."""

import io
from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from wye.training.fit.calibration import Reliability
from wye.training.thresholds import Front, Outcome

INK = "#7f7f80"
BLUE, GREY, ORANGE, GREEN = "#3d7fc1", "#a9a9a9", "#d97f26", "#5c9a55"
_STYLE: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 9,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    **{f"{item}.color": INK for item in ("text", "xtick", "ytick")},
    **{f"axes.{item}color": INK for item in ("edge", "label", "title")},
}
_SVG: dict[Any, Any] = {"svg.hashsalt": "wye", "svg.fonttype": "none"}
_BARE = dict.fromkeys(("Date", "Creator", "Format", "Type"))
"""Drops date and version, so that only numbers change the bytes."""


@mpl.rc_context(_STYLE)
def reliability_figure(reliabilities: Mapping[str, Reliability]) -> Figure:
    """The mean label against the score, in bins of equal size."""
    figure = Figure(figsize=(4.2, 3.8), layout="constrained")
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=":")
    for (name, curve), colour in zip(reliabilities.items(), (BLUE, ORANGE, GREEN), strict=False):
        score, outcome = curve.score, curve.outcome
        axes.plot(score, outcome, color=colour, marker="o", markersize=4, label=name)
    axes.set(xlabel="mean score", ylabel="mean label")
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal")
    axes.legend(loc="upper left")
    return figure


@mpl.rc_context(_STYLE)
def front_figure(
    front: Front, chosen: Outcome, fixed: Mapping[str, Outcome], measure: str = "quality"
) -> Figure:
    """The Pareto front, with the chosen thresholds and each of the fixed routes."""
    figure = Figure(figsize=(5.6, 3.6), layout="constrained")
    axes = figure.add_subplot()
    axes.plot(front.mean_ms, front.quality, color=BLUE, label="best pairs of thresholds")
    # A route that no thresholds take is far off, and would squeeze the front.
    routes = {name: outcome for name, outcome in fixed.items() if any(outcome.shares)}
    for (name, outcome), marker in zip(routes.items(), "s^D", strict=False):
        axes.plot(outcome.mean_ms, outcome.quality, marker, color=GREY, label=f"always {name}")
    point = chosen.mean_ms, chosen.quality
    axes.plot(*point, "o", color=ORANGE, markersize=8, label="these thresholds")
    axes.set(xlabel="mean latency, ms", ylabel=measure)
    axes.legend(loc="lower right")
    return figure


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
