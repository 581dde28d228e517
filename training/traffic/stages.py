"""How long other routes would have taken, out of the stages of the one that was taken.

Fusion runs every arm, so what it logs says how long each arm alone would have taken. Where a router
looks at the corpus, the dense list and the seeds are there before it decides, whichever route it
then takes.
"""

import math
from collections.abc import Mapping

from router.fusion import FusionSettings, lists_of, stages_of
from router.types import Route

ROUTES: tuple[Route, ...] = tuple(Route)
"""Routes by their codes in a column."""
_FORECAST = frozenset({"dense", "seeds"})
_FUSION = FusionSettings()  # what others than fusion take does not depend on it


def times_of_routes(stages: Mapping[str, float], taken: Route, *, asks_corpus: bool) -> list[float]:
    """Milliseconds of work that a request takes by each route, in the order of `ROUTES`.

    Args:
        stages: Stage -> seconds, by the route that was taken.
        taken: That route.
        asks_corpus: Whether the router looks at the corpus, so that the dense arm and the graph's
            seeds are asked whatever it decides.

    Returns:
        NaN for a route whose arms were not all run.
    """
    spared = {at: time for at, time in stages.items() if at in stages_of(Route.FUSION, _FUSION)}
    if asks_corpus:
        spared = {at: time for at, time in spared.items() if at not in _FORECAST}

    def milliseconds(route: Route) -> float:
        if route == taken:
            return 1000 * sum(stages.values())
        if route in (Route.AUTO, Route.FUSION) or not {*lists_of(route, _FUSION)} <= {*stages}:
            return math.nan
        own = stages_of(route, _FUSION)
        left_out = sum(time for at, time in spared.items() if at not in own)
        return 1000 * (sum(stages.values()) - left_out)

    return [milliseconds(route) for route in ROUTES]
