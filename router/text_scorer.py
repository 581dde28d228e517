"""A reranker that scores texts for a question, behind an HTTP API."""

import json
from collections.abc import Sequence

import httpx2
import numpy as np

from wye.backends.types import Float32
from wye.router.errors import RerankerError

LONGEST_BODY = 1_000_000  # most bytes of a reply
_SECONDS = 10.0  # longest wait for a reranker: in a server other questions wait as well


class EndpointScorer:
    """A reranker behind an HTTP API, as vLLM, TEI, llama.cpp and Wye itself serve it."""

    def __init__(self, url: str, name: str) -> None:
        """Prepare a client of an address with /rerank; nothing is sent yet."""
        self._url, self._name = f"{url.rstrip('/')}/rerank", name
        self._client = httpx2.Client(timeout=_SECONDS, trust_env=False)

    def score(self, question: str, texts: Sequence[str]) -> Float32:
        """Scores (n,) of n texts; a `RerankerError` if the endpoint does not give all."""
        if not texts:
            return np.empty(0, np.float32)
        request = {"model": self._name, "query": question, "documents": list(texts)}
        body = bytearray()
        try:
            with self._client.stream("POST", self._url, json=request) as reply:
                reply.raise_for_status()
                for part in reply.iter_bytes():
                    body += part
                    if len(body) > LONGEST_BODY:
                        raise RerankerError(f"{self._url} sent more than {LONGEST_BODY:,} bytes.")
        except httpx2.HTTPError as error:
            raise RerankerError(
                f"{self._url} did not answer: {error}. Check the address."
            ) from error
        scores = np.full(len(texts), np.nan, np.float32)
        try:
            for result in json.loads(body)["results"]:
                if not 0 <= result["index"] < len(texts):
                    raise IndexError
                scores[result["index"]] = result["relevance_score"]
        except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
            raise RerankerError(f"{self._url} did not send a reranker's scores.") from error
        if not np.isfinite(scores).all():
            raise RerankerError(f"{self._url} did not score all {len(texts)} texts.")
        return scores
