"""A client for a Wye server.

>>> from wye_client import Client
>>> with Client("http://127.0.0.1:8000") as wye:  # doctest: +SKIP
...     hits = wye.search("Who designed the Iron Bridge?", k=3)
...     print(hits.route, [passage.title for passage in hits.passages])

The modules `wye_client.langchain`,
`wye_client.llama_index` and `wye_client.haystack` have retrievers for those frameworks.
"""

from collections.abc import Mapping

from wye_client.client import Client, Decision, Hit, Hits, SearchOptions, WyeError

__all__ = ["Client", "Decision", "Hit", "Hits", "SearchOptions", "WyeError"]

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
