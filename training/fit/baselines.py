"""Rivals of the router: other classifiers, on words, on vectors, or on its own columns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from wye.backends.types import Float64, Int64
from wye.router.policy import Policy
from wye.router.scorer import sigmoid
from wye.training.data.evaluation_set import EvaluationSet
from wye.training.errors import FitError
from wye.training.evaluation.held_out import RouterScores
from wye.training.fit.router import Choices, TrainingSet
from wye.training.fit.trainer import FOLDS, Pool, divide
from wye.training.thresholds.solve import CUTS, solve

SAMPLED = 800
"""How many questions a strength is chosen on: the choice takes nearly all of the time, and hardly
depends on which they are."""
STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Inverse regularisation to choose among, by cross-validation on the training questions."""
EDGE = 1e-6
"""Scores keep this distance from 0 and 1, as the router's do."""

Inputs = NDArray[Any]
"""(n, …) what a baseline reads of each question."""
Scores = Callable[[Inputs], Float64]
"""Gives (n,) scores from 0 to 1; from 0.5 the graph is chosen."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """A scikit-learn model on one kind of input.

    Attributes:
        kind: "texts"; "vectors", which are unit vectors; or "columns", the router's inputs.
        strength: The model's parameter to choose among `STRENGTHS`; "" for none.
    """

    kind: str
    model: Any
    strength: str = ""

    def fit(self, inputs: Inputs, labels: Int64) -> Scores:
        """Fit training questions and their labels (1: the graph succeeds).

        Raises:
            FitError: A label has fewer questions than there are folds.
        """
        counts = np.bincount(labels, minlength=2)
        if counts.min() < FOLDS:
            raise FitError(
                f"A baseline needs {FOLDS} questions of each kind; the graph alone succeeds on "
                f"{counts[1]}, the simple arm alone on {counts[0]}. Add questions."
            )
        model = clone(self.model)
        if self.strength:
            folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
            grid = {self.strength: STRENGTHS}
            search = GridSearchCV(self.model, grid, scoring="roc_auc", cv=folds, refit=False)
            rows = np.arange(len(labels))
            if len(rows) > SAMPLED:
                rows, _ = train_test_split(
                    rows, train_size=SAMPLED, stratify=labels, random_state=0
                )
            search.fit(inputs[rows], labels[rows])
            model.set_params(**search.best_params_)
        model.fit(inputs, labels)
        if hasattr(model, "predict_proba"):
            return lambda rows: np.asarray(model.predict_proba(rows)[:, 1], np.float64)
        return lambda rows: sigmoid(np.asarray(model.decision_function(rows), np.float64))


_LOGISTIC = LogisticRegression(class_weight="balanced", max_iter=2000)
BASELINES: Mapping[str, Baseline] = {
    "tfidf-svm": Baseline(
        "texts",
        make_pipeline(
            TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
            LinearSVC(class_weight="balanced", random_state=0, max_iter=20_000),
        ),
        "linearsvc__C",
    ),
    "embedding-lr": Baseline("vectors", _LOGISTIC, "C"),
    "logistic": Baseline(
        "columns", make_pipeline(StandardScaler(), _LOGISTIC), "logisticregression__C"
    ),
    "boosting": Baseline(
        "columns",
        HistGradientBoostingClassifier(
            max_iter=60, max_leaf_nodes=4, class_weight="balanced", random_state=0
        ),
    ),
}
"""The baselines by name."""


def fit_baselines(
    training: TrainingSet,
    questions: EvaluationSet,
    policy: Policy,
    columns: Int64,
    choices: Choices,
) -> Mapping[str, RouterScores]:
    """Fit every baseline on a router's training questions, and score other questions with it.

    Thresholds are solved on cross-fitted scores.

    Args:
        policy: The router's policy; baselines share its simple route.
        columns: (c,) positions of the router's input features.

    Raises:
        FitError: A label has too few questions.
    """
    learning, labels = training.questions, training.labels
    keys = np.array(learning.texts, dtype=np.str_)
    fold = divide(Pool(learning.features, labels, learning.groups, keys), FOLDS, seed=0)
    learned = labels >= 0
    scores_by_name = {}
    for name, baseline in BASELINES.items():
        rows, new = (_inputs(baseline.kind, data, columns) for data in (learning, questions))
        held_out = np.empty(len(labels))
        for number in range(FOLDS):
            learn, test = (fold != number) & learned, fold == number
            held_out[test] = baseline.fit(rows[learn], labels[learn])(rows[test])
        outcomes = learning.outcomes(
            _inside(held_out), policy.simple, choices.fusion, choices.quality
        )
        solution = solve(outcomes, choices.goal, most=CUTS)
        scores = _inside(baseline.fit(rows[learned], labels[learned])(new))
        scores_by_name[name] = RouterScores(
            scores, Policy(solution.thresholds, policy.simple, policy.latency_ms)
        )
    return scores_by_name


def _inputs(kind: str, questions: EvaluationSet, columns: Int64) -> Inputs:
    if kind == "texts":
        return np.array(questions.texts, object)
    return questions.vectors if kind == "vectors" else questions.features[:, columns]


def _inside(scores: Float64) -> Float64:
    return np.clip(scores, EDGE, 1 - EDGE)
