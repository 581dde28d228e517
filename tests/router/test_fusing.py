from dataclasses import replace

import numpy as np
import pytest

from backends.trigraph.seeds import SeedStats
from backends.types import Hit, Query, Ranking
from router.blend import blend
from router.errors import SettingsError
from router.fusing import blend_text, fuse_all
from router.fusion import fuse
from router.fusion_settings import FusionSettings, Method
from router.trust import GraphWeightModel, trust
from router.types import ArmResults, Route

SETTINGS = FusionSettings()


def ranking(arm: Route, *pairs: tuple[str, float]) -> Ranking:
    hits = tuple(Hit(id_, score, rank) for rank, (id_, score) in enumerate(pairs, start=1))
    return Ranking(arm, hits, 100)


LISTS = {
    Route.DENSE: ranking(Route.DENSE, ("a", 0.9), ("b", 0.7), ("c", 0.4)),
    Route.LEXICAL: ranking(Route.LEXICAL, ("b", 9.0), ("c", 6.0), ("a", 1.0)),
    Route.GRAPH: ranking(Route.GRAPH, ("c", 0.5), ("d", 0.1), ("a", 0.01)),
}
ONE = ArmResults(
    Query("Who?", np.ones(2, np.float32)), (SeedStats("Ada", 1.0, "name", 4, 2),), LISTS
)


def ids(found: Ranking) -> list[str]:
    return [hit.id for hit in found.hits]


def test_rrf_is_fusion_by_rank_of_the_lists_that_are_named() -> None:
    settings = replace(SETTINGS, method="rrf")
    named = {arm: LISTS[arm] for arm in settings.arms()}
    assert list(named) == [Route.DENSE, Route.GRAPH]
    found = fuse_all([replace(ONE, rankings=named)], settings, [0.3], 4)
    assert found == [fuse(list(named.values()), [0.7, 0.3], rrf_k=60, k=4)]
    # A replay also has the lists that are not named.
    assert fuse_all([ONE], settings, [0.3], 4) == found


def test_blend_goes_from_text_to_graph_with_s() -> None:
    settings = replace(SETTINGS, method="blend")
    text, graph, given = fuse_all([ONE] * 3, settings, [0.0, 1.0, None], 3)
    assert text == blend_text([ONE], settings, 3)[0]
    assert ids(text) == ids(blend(list(LISTS.values())[:2], [1.0, 0.2], k=3))
    assert ids(graph) == ids(LISTS[Route.GRAPH])
    assert given == fuse_all([ONE], settings, [settings.s], 3)[0]


def test_trust_is_blend_with_t_for_s() -> None:
    (trusted,) = trust([ONE], SETTINGS.trust, [None])
    found = fuse_all([ONE], SETTINGS, [None], 4)
    assert found == fuse_all([ONE], replace(SETTINGS, method="blend"), [float(trusted)], 4)


@pytest.mark.parametrize("method", ["trust", "blend"])
def test_fusion_of_scores_needs_every_arm(method: Method) -> None:
    assert replace(SETTINGS, method=method).arms() == [Route.DENSE, Route.LEXICAL, Route.GRAPH]


def test_seeded_needs_the_list_to_walk_from() -> None:
    assert replace(SETTINGS, method="seeded").arms() == [Route.DENSE]


def test_the_batch_changes_nothing() -> None:
    other = replace(ONE, seeds=())
    together = fuse_all([ONE, other], SETTINGS, [None, None], 4)
    assert together == [fuse_all([one], SETTINGS, [None], 4)[0] for one in (ONE, other)]


def test_settings_that_make_no_sense() -> None:
    with pytest.raises(SettingsError, match="WYE_FUSION__METHOD is borda"):
        FusionSettings("borda")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="LISTS begins with graph"):
        FusionSettings("seeded", lists=("graph",))
    with pytest.raises(SettingsError, match="WYE_FUSION__GRAPH_SCALE is -1"):
        FusionSettings(graph_scale=-1)
    assert FusionSettings(trust=GraphWeightModel(bias=1)).trust.bias == 1
