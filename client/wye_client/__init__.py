"""A client for a Wye server.

>>> from wye_client import Client
>>> with Client("http://127.0.0.1:8000") as wye:  # doctest: +SKIP
...     reply = wye.search("Who designed the Iron Bridge?", k=3)
...     print(reply.route, [passage.title for passage in reply.passages])

`wye_client.langchain`, `wye_client.llama_index` and `wye_client.haystack` have retrievers.
"""

from collections.abc import Mapping
from typing import Any

from wye_client.client import Client, RankedPassage, Routing, SearchOptions, SearchReply, WyeError

__all__ = ["Client", "RankedPassage", "Routing", "SearchOptions", "SearchReply", "WyeError"]

Hit, Hits, Decision = RankedPassage, SearchReply, Routing  # their former names

COMPARISONS: Mapping[str, str] = {
    "==": "eq",
    "!=": "ne",
    ">": "gt",
    ">=": "gte",
    "<": "lt",
    "<=": "lte",
    "in": "in",
    "nin": "nin",
    "not in": "nin",
}
"""Comparison operators of LlamaIndex and Haystack, with Wye's names for them."""


def comparison(operator: object, field: str, value: object) -> dict[str, Any]:
    """Wye's filter of one field; one that it lacks is refused, as leaving it out finds more."""
    if operator not in COMPARISONS:
        has = f"it has AND, OR, {', '.join(COMPARISONS)}"
        raise ValueError(f"Wye has no filter '{operator}' (of '{field}'); {has}.")
    return {"type": COMPARISONS[str(operator)], "key": field, "value": value}
