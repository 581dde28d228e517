"""Which kinds of remote arms there are."""

from collections.abc import Mapping
from typing import Any

from service.arms.kinds.http import HttpKind
from service.arms.kinds.lightrag import LightRagKind
from service.arms.kinds.wye import WyeKind
from service.arms.types import Kind

KINDS: Mapping[str, type[Kind[Any]]] = {
    "http": HttpKind,
    "lightrag": LightRagKind,
    "wye": WyeKind,
}
"""By the word for it in the file."""
