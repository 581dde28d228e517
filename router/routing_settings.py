"""Which router decides, and by which thresholds."""

from dataclasses import dataclass
from pathlib import Path

from router.errors import ArtefactError

# The repository's folder of models: Wye runs from a checkout.
MODELS = Path(__file__).resolve().parents[1] / "models"
DEFAULT_ROUTER = "router-en/v1"


@dataclass(frozen=True, slots=True)
class RoutingSettings:
    """Which router decides, and by which thresholds.

    Attributes:
        model: "name/version" of one in this repository's folder `models`, or the path of such a
            folder, as `wye train` writes it.
        thresholds: A reviewed thresholds file, as `wye tune` writes it, instead of the router's
            own; empty for the router's own.
    """

    model: str = DEFAULT_ROUTER
    thresholds: str = ""

    def folder(self) -> Path:
        """Of the router's version.

        Raises:
            ArtefactError: There is none.
        """
        given = Path(self.model)
        for place in (given, MODELS / given):
            if place.is_dir():
                return place
        raise ArtefactError(
            f"There is no router '{self.model}', neither as a folder nor in {MODELS}. Point "
            "WYE_ROUTER__MODEL at a version that `wye train` wrote, or name the route "
            "(--route dense, lexical, graph or fusion)."
        )
