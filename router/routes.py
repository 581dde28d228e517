"""The routes by name. Help texts list them, so this module imports nothing that takes time."""

from enum import StrEnum

from wye.backends.errors import suggestion
from wye.router.errors import QuestionError


class Route(StrEnum):
    """The arm or mix of arms that answers a question; with `auto`, the router chooses.

    Hybrid fuses the dense and the lexical arm; fusion fuses the arms named in the settings; steps
    runs fusion for a question and for its parts, one after another. Clue and zoom are further
    arms, which no other route uses unless the settings name them.
    """

    AUTO = "auto"
    DENSE = "dense"
    LEXICAL = "lexical"
    HYBRID = "hybrid"
    GRAPH = "graph"
    FUSION = "fusion"
    STEPS = "steps"
    CLUE = "clue"
    ZOOM = "zoom"


TEXT_ARMS = (Route.DENSE, Route.LEXICAL)
ARMS = (*TEXT_ARMS, Route.GRAPH)  # the single arms that fusion uses

FURTHER = (Route.CLUE, Route.ZOOM)
"""Single arms that are searched only where they are named. Nothing is built or imported for them
before that, nothing was fitted to them, and the relevance of their hits is not known. To add one,
add a name here and a line in `wye.router.snapshot.FURTHER_ARMS`."""

USUAL = tuple(route for route in Route if route not in FURTHER)  # prepared, evaluated and fitted


def route_named(name: str) -> Route:
    """The route of that name, or a `QuestionError` with those that may be meant."""
    try:
        return Route(name)
    except ValueError:
        meant = suggestion(str(name), Route)
    raise QuestionError(f"There is no route '{name}'.{meant} Use one of {', '.join(Route)}.")
