"""What a router has to beat: those that read words or vectors, or its own columns otherwise."""

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
"""Questions that a strength is chosen on."""
STRENGTHS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
"""Inverse regularisation to choose among, by cross-validation on the training questions."""


@dataclass(frozen=True, slots=True)
class BaselineQuestions:
    """n questions as a baseline sees them.

    Attributes:
        vectors: (n, d) float32 unit vectors.
        columns: (n, c) what the router looks at.
    """

    texts: Sequence[str]
    vectors: Float32
    columns: Float64

    def __len__(self) -> int:
        """How many questions there are."""
        return len(self.texts)


Scores = Callable[[BaselineQuestions], Float64]
"""Scores (n,) from 0 to 1; 0.5 and more is the graph's."""
Baseline = Callable[[BaselineQuestions, Int64], Scores]
"""Training questions and their labels (1: the graph succeeds) to what scores others.

Raises:
    FitError: One of the labels is missing, or has fewer questions than there are folds.
"""


def _baseline(seen: str, model: Any, strength: str = "") -> Baseline:  # noqa: ANN401
    """One of scikit-learn's models on what it sees of questions.

    Args:
        seen: Field of `BaselineQuestions`.
        strength: Its parameter that is chosen among `STRENGTHS`; "" for none.
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

    It is that of `SAMPLED` questions where there are more, since it hardly depends on which they
    are, and nearly all of the time goes into it.
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
"""By name: they read the words, the question's vector, or what the router looks at."""
EDGE = 1e-6
"""Scores stay so far from 0 and 1, as those of the router do."""


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
    """Fit every baseline on the questions that the router learned from, and let it score others.

    Args:
        known: Questions of train and dev.
        labels: (n,) of these, -1 where either arm will do.
        policy: The router's, whose simple route they share.
        columns: (c,) places of the features that the router looks at.

    Raises:
        FitError: Too few questions of one label.
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
    """(n,) scores of each question by a baseline that has not seen it."""
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
