"""Chooses a route by the passages that another search returned, for a corpus not indexed here."""

from dataclasses import replace
from pathlib import Path

from wye.router.explain import summary
from wye.router.model import RoutingModel
from wye.router.model_files import load_router
from wye.router.passage_evidence import PASSAGE_NAMES, Returned, passage_columns, passage_schema
from wye.router.types import Decision


def load_passage_router(folder: Path) -> RoutingModel:
    """Read a router that decides by returned passages.

    Raises:
        ModelFileError: The router is missing or damaged, or was trained on signals of an index.
    """
    return load_router(folder, schema_id=passage_schema(), names=PASSAGE_NAMES)


def decide_by_passages(
    model: RoutingModel,
    asked: Returned,
    *,
    explain: bool = False,
    point: str = "",
) -> Decision:
    """Decide whether the simple arm's passages suffice or other arms are asked too.

    Args:
        model: A router from `load_passage_router`.

    Raises:
        QuestionError: There is no such operating point.
    """
    columns = passage_columns([asked])
    own = model.at(point)
    (decision,) = own.decide(columns, explain=explain)
    return replace(decision, summary=summary(decision)) if explain else decision
