"""Routes by returned passages, by the router that ships for them."""

import pytest

from wye.router.errors import ModelFileError, QuestionError
from wye.router.passage_evidence import Returned
from wye.router.passage_routing import decide_by_passages, load_passage_router
from wye.router.settings import MODELS, PASSAGE_ROUTER
from wye.router.types import Route

ASKED = Returned(
    "Who directed the film Old Bridge?", [("Old Bridge", "A film directed by Ivo."), ("Ivo", "He.")]
)
NESTED = Returned(
    "Where was the director of the film Old Bridge born?", [("Mostar", "A town."), ("Ivo", "He.")]
)


def test_what_was_found_scores_lower_than_what_was_not() -> None:
    model = load_passage_router(MODELS / PASSAGE_ROUTER)
    found, missing = (decide_by_passages(model, one, explain=True) for one in (ASKED, NESTED))
    assert found.score is not None
    assert missing.score is not None
    assert found.score < missing.score
    assert missing.route == Route.FUSION
    assert not missing.planned
    assert sum(part.logit for part in found.contributions) == pytest.approx(found.logit)
    assert "speak" in found.summary
    assert decide_by_passages(model, ASKED, point="fast").score == found.score
    with pytest.raises(QuestionError):
        decide_by_passages(model, ASKED, point="slow")


def test_a_router_of_an_index_is_refused() -> None:
    with pytest.raises(ModelFileError, match="feature schema"):
        load_passage_router(MODELS / "router-en/v1")
