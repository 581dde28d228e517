"""How long other routes would have taken, out of the stages of the one that was taken.

Fusion runs every arm, so what it logs says how long each arm alone would have taken. Where a router
looks at the corpus, the dense list and the seeds are there before it decides, whichever route it
then takes.
"""

import math
from collections.abc import Mapping

from router.types import Route

ROUTES: tuple[Route, ...] = tuple(Route)
"""Routes by their codes in a column."""
_NEEDS: Mapping[Route, frozenset[str]] = {
    Route.DENSE: frozenset({"dense"}),
    Route.LEXICAL: frozenset({"lexical"}),
    Route.HYBRID: frozenset({"dense", "lexical"}),
    Route.GRAPH: frozenset({"graph"}),
}
_FORECAST = frozenset({"dense", "seeds"})
_CHOSEN = frozenset({"dense", "lexical", "graph", "seeds", "fusing"})
"""Stages that are run for some routes only."""


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
    whole = sum(stages.values())
    spared = {name: time for name, time in stages.items() if name in _CHOSEN}
    if asks_corpus:
        spared = {name: time for name, time in spared.items() if name not in _FORECAST}
    return [
        1000 * whole
        if route == taken
        else 1000 * (whole - sum(time for at, time in spared.items() if at not in needs))
        if (needs := _NEEDS.get(route)) and needs <= stages.keys()
        else math.nan
        for route in ROUTES
    ]
