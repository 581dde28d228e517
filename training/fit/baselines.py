"""Baselines for the router: other classifiers, on words, on vectors, or on its own columns."""

from collections.abc import Callable, Mapping, Sequence
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

from backends.types import Float32, Float64, Int64, Mask
from router.fusion import FusionSettings
from router.policy import Policy
from router.scorer import sigmoid
from training.data.evaluation_set import EvaluationSet
from training.data.examples import Pool
from training.errors import FitError
from training.evaluation.held_out import RouterScores
from training.fit.crossfit import divide
from training.thresholds.outcomes import ThresholdObjective
from training.thresholds.solve import solve
from training.thresholds.sweep import CUTS

FOLDS = 5
SAMPLED = 800
"""How many questions a strength is chosen on."""
STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Inverse regularisation to choose among, by cross-validation on the training questions."""


@dataclass(frozen=True, slots=True)
class BaselineQuestions:
    """The inputs of a baseline for n questions.

    Attributes:
        vectors: (n, d) float32 unit vectors.
        columns: (n, c) the router's inputs.
    """

    texts: Sequence[str]
    vectors: Float32
    columns: Float64

    def __len__(self) -> int:
        """Number of questions."""
        return len(self.texts)


Scores = Callable[[BaselineQuestions], Float64]
"""Gives (n,) scores from 0 to 1; from 0.5 the graph is chosen."""
Baseline = Callable[[BaselineQuestions, Int64], Scores]
"""Fits training questions and their labels (1: the graph succeeds).

Raises:
    FitError: A label has fewer questions than there are folds.
"""


def _baseline(seen: str, model: Any, strength: str = "") -> Baseline:  # noqa: ANN401
    """A scikit-learn model on one kind of input.

    Args:
        seen: The field of `BaselineQuestions` to read.
        strength: The model's parameter to choose among `STRENGTHS`; "" for none.
    """

    def fitted(questions: BaselineQuestions, labels: Int64) -> Scores:
        counts = np.bincount(labels, minlength=2)
        if counts.min() < FOLDS:
            raise FitError(
                f"A baseline needs {FOLDS} questions of each kind; the graph alone succeeds on "
                f"{counts[1]}, the simple arm alone on {counts[0]}. Add questions."
            )
        inputs = getattr(questions, seen)
        found = clone(model)
        if strength:
            found.set_params(**{strength: _strength(model, strength, inputs, labels)})
        found.fit(inputs, labels)

        def scores(asked: BaselineQuestions) -> Float64:
            if hasattr(found, "predict_proba"):
                return np.asarray(found.predict_proba(getattr(asked, seen))[:, 1], np.float64)
            return sigmoid(np.asarray(found.decision_function(getattr(asked, seen)), np.float64))

        return scores

    return fitted


def _strength(
    model: Any,  # noqa: ANN401
    name: str,
    inputs: Sequence[str] | NDArray[Any],
    labels: Int64,
) -> float:
    """The strength that ranks best in cross-validation.

    At most `SAMPLED` questions are used: the choice takes nearly all of the time, and hardly
    depends on which questions they are.
    """
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    search = GridSearchCV(model, {name: STRENGTHS}, scoring="roc_auc", cv=folds, refit=False)
    rows = np.arange(len(labels))
    if len(rows) > SAMPLED:
        rows, _ = train_test_split(rows, train_size=SAMPLED, stratify=labels, random_state=0)
    search.fit([inputs[row] for row in rows.tolist()], labels[rows])
    return float(search.best_params_[name])


_LOGISTIC = LogisticRegression(class_weight="balanced", max_iter=2000)
BASELINES: Mapping[str, Baseline] = {
    "tfidf-svm": _baseline(
        "texts",
        make_pipeline(
            TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True),
            LinearSVC(class_weight="balanced", random_state=0, max_iter=20_000),
        ),
        "linearsvc__C",
    ),
    "embedding-lr": _baseline("vectors", _LOGISTIC, "C"),
    "logistic": _baseline(
        "columns", make_pipeline(StandardScaler(), _LOGISTIC), "logisticregression__C"
    ),
    "boosting": _baseline(
        "columns",
        HistGradientBoostingClassifier(
            max_iter=60, max_leaf_nodes=4, class_weight="balanced", random_state=0
        ),
    ),
}
"""The baselines by name."""
EDGE = 1e-6
"""Scores keep this distance from 0 and 1, as the router's do."""


def fit_baselines(
    known: EvaluationSet,
    labels: Int64,
    asked: EvaluationSet,
    policy: Policy,
    *,
    fusion: FusionSettings,
    quality: str,
    columns: Int64,
    goal: ThresholdObjective,
) -> Mapping[str, RouterScores]:
    """Fit every baseline on the router's training questions, and score other questions with it.

    Args:
        known: Questions of train and dev.
        labels: (n,) their labels; -1 where it does not matter.
        asked: The questions to score.
        policy: The router's policy; baselines share its simple route.
        columns: (c,) positions of the router's input features.

    Raises:
        FitError: A label has too few questions.
    """
    found = {}
    for name, baseline in BASELINES.items():
        held_out = _crossfitted(baseline, known, labels, columns)
        outcomes = known.outcomes(held_out, policy.simple, fusion, quality)
        solution = solve(outcomes, goal, most=CUTS)
        score = baseline(_questions(known, labels >= 0, columns), labels[labels >= 0])
        everyone = np.ones(len(asked), bool)
        scores = _inside(score(_questions(asked, everyone, columns)))
        found[name] = RouterScores(
            scores, Policy(solution.thresholds, policy.simple, policy.latency_ms)
        )
    return found


def _crossfitted(
    baseline: Baseline, known: EvaluationSet, labels: Int64, columns: Int64
) -> Float64:
    """(n,) each question's score by a baseline that was not trained on it."""
    keys = np.array(known.texts, dtype=np.str_)
    fold = divide(Pool(known.features, labels, known.groups, keys), FOLDS, seed=0)
    scores = np.empty(len(labels))
    for held in range(FOLDS):
        learn = (fold != held) & (labels >= 0)
        score = baseline(_questions(known, learn, columns), labels[learn])
        scores[fold == held] = score(_questions(known, fold == held, columns))
    return _inside(scores)


def _questions(evaluation_set: EvaluationSet, rows: Mask, columns: Int64) -> BaselineQuestions:
    chosen = np.flatnonzero(rows).tolist()
    texts, vectors = evaluation_set.texts, evaluation_set.vectors
    seen = evaluation_set.features[chosen][:, columns]
    return BaselineQuestions([texts[row] for row in chosen], vectors[chosen], seen)


def _inside(scores: Float64) -> Float64:
    return np.clip(scores, EDGE, 1 - EDGE)
