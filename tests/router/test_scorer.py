from dataclasses import replace

import numpy as np
import pytest

from backends.types import Float64
from router.errors import FeatureError
from router.scorer import Scorer, columns_of


def test_a_question_scores_the_same_bits_alone_and_in_any_batch(
    scorer: Scorer, features: Float64
) -> None:
    together = scorer.scores(features)
    for layout in (features, np.asfortranarray(features)):
        alone = [scorer.scores(layout[row : row + 1])[0] for row in range(len(features))]
        assert alone == together.tolist()
        assert (scorer.scores(layout[::-1])[::-1] == together).all()
        assert (scorer.scores(layout[3:7]) == together[3:7]).all()


def test_members_are_averaged_then_calibrated(scorer: Scorer, features: Float64) -> None:
    rows = features[:, scorer.columns]
    inputs = np.clip((rows - scorer.standard.mean) / scorer.standard.scale, -5, 5)
    raw = np.mean([[member.logit(row) for row in inputs] for member in scorer.members], axis=0)
    expected = 1 / (1 + np.exp(-(raw / 1.3 - 0.2)))
    np.testing.assert_allclose(scorer.scores(features), expected, rtol=1e-12)
    again = scorer.with_calibration(2.0, 0.5)
    np.testing.assert_allclose(again.logits(features), raw / 2 + 0.5, rtol=1e-12)


def test_one_odd_value_is_pulled_back(scorer: Scorer, features: Float64) -> None:
    features[0, 1] = 1e12
    inputs = scorer.inputs(features)
    assert inputs.max() == 5
    assert np.isfinite(scorer.logits(features)).all()


def test_no_question_has_no_score(scorer: Scorer) -> None:
    assert scorer.scores(np.zeros((0, 10))).shape == (0,)


def test_gradients_are_those_of_the_calibrated_logit(scorer: Scorer, features: Float64) -> None:
    inputs = scorer.inputs(features)
    found = scorer.gradients(inputs)
    step = 1e-5
    for column in range(inputs.shape[1]):
        moved = np.zeros(inputs.shape[1])
        moved[column] = step
        up, down = (scorer.calibrated(scorer.raw(inputs + sign * moved)) for sign in (1, -1))
        np.testing.assert_allclose(found[:, column], (up - down) / (2 * step), atol=1e-8)
    assert scorer.gradients(inputs.astype(np.float32)).dtype == np.float32


def test_features_that_do_not_fit_are_refused(scorer: Scorer, features: Float64) -> None:
    with pytest.raises(FeatureError, match=r"\(23, 9\).*\(questions, 10\)"):
        scorer.scores(features[:, 1:])
    features[4, 9] = np.nan
    with pytest.raises(FeatureError, match="'f9' of question 5 is nan"):
        scorer.scores(features)


def test_a_feature_that_nobody_looks_at_may_be_anything(scorer: Scorer, features: Float64) -> None:
    before = scorer.scores(features)
    features[:, 0] = np.nan
    assert (scorer.scores(features) == before).all()


def test_features_are_found_by_name() -> None:
    assert columns_of(["c", "a"], ["a", "b", "c"]).tolist() == [2, 0]
    with pytest.raises(FeatureError, match="does not compute d, e"):
        columns_of(["d", "a", "e"], ["a"])


def test_the_order_and_shape_of_members_is_free(scorer: Scorer, features: Float64) -> None:
    turned = replace(scorer, members=scorer.members[::-1])
    assert (turned.scores(features) == scorer.scores(features)).all()
