"""Training examples: features, labels, and the dataset that each question comes from."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from wye.backends.types import Float64, Int64
from wye.training.errors import FitError


@dataclass(frozen=True, slots=True)
class Examples:
    """Labelled questions.

    Attributes:
        features: (n, width) float64, all features of the build, finite.
        labels: (n,) 1 where the graph is needed, 0 where the simple arm is enough.
        groups: (n,) name of each question's dataset.
        stakes: (n,) each question's weight; 1 if not given.
    """

    features: Float64
    labels: Int64
    groups: NDArray[np.str_]
    stakes: Float64 = field(default_factory=lambda: np.empty(0))

    def __post_init__(self) -> None:
        n = len(self.labels)
        if not len(self.stakes):
            object.__setattr__(self, "stakes", np.ones(n))
        sizes = {len(self.features), len(self.groups), len(self.stakes)}
        if self.features.ndim != 2 or sizes != {n}:
            raise FitError(
                f"{self.features.shape} features, {n} labels and {len(self.groups)} groups do not "
                "match; give one of each per question."
            )
        if not np.isin(self.labels, (0, 1)).all():
            raise FitError("A label is neither 0 nor 1; 1 means that the graph arm succeeds.")
        if not np.isfinite(self.features).all():
            row, column = np.argwhere(~np.isfinite(self.features))[0]
            raise FitError(
                f"Feature {column} of question {row} is {self.features[row, column]}; "
                "features must be finite numbers."
            )

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def one_sided(self) -> bool:
        """Whether all labels are the same, so nothing can be learned."""
        return len(np.unique(self.labels)) < 2


@dataclass(frozen=True, slots=True)
class Pool:
    """All questions of the training splits, including those on which both arms agree.

    Attributes:
        features: (n, width) float64.
        labels: (n,) 1 where only the graph arm succeeds, 0 where only the simple one does, and -1
            where both do or neither, of which nothing is learned.
        groups: (n,) name of each question's dataset.
        keys: (n,) equal for one question asked of two indexes; such rows are never split between
            training and validation. None if every row is a question of its own.
        stakes: (n,) each question's weight; None for equal weights.
    """

    features: Float64
    labels: Int64
    groups: NDArray[np.str_]
    keys: NDArray[np.str_] | None = None
    stakes: Float64 | None = None

    def examples(self, rows: NDArray[np.bool_]) -> Examples:
        """The labelled questions among some rows, (n,) bool."""
        mask = rows & (self.labels >= 0)
        stakes = np.ones(len(self.labels)) if self.stakes is None else self.stakes
        return Examples(self.features[mask], self.labels[mask], self.groups[mask], stakes[mask])
