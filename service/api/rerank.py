"""`/v1/rerank`: ranks texts that a client has found elsewhere, as Cohere, Jina and vLLM do."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field, JsonValue, StrictBool

from wye.backends.types import Passage
from wye.router.rerank import RankedText, Reranker
from wye.router.types import Route
from wye.service.api.retrieve import CollectionName, DeadlineMs, Exact, QuestionText, examples
from wye.service.batching import unless_gone
from wye.service.http.edge import READ
from wye.service.http.openapi import Described
from wye.service.http.problems import Problem
from wye.service.ingest.writer import InterleavedAnalyser
from wye.service.service import Served, Service, departure, request_id_of
from wye.service.settings import LONGEST_DEADLINE_MS

MOST_TEXTS = 256
LONGEST_TEXT = 16_384
Text = Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]
_BRIDGES: JsonValue = ["Tower Bridge crosses the Thames.", "The Old Bridge was finished in 1566."]
_BODY: dict[str, JsonValue] = {
    "query": "Who designed the Iron Bridge?",
    "documents": [{"text": "It was cast at Coalbrookdale."}, "Ada met Babbage."],
}


class RerankText(BaseModel):
    """A text with an optional title."""

    text: Text
    title: Annotated[str, Field(max_length=LONGEST_TEXT)] = ""


class RerankRequest(Described):
    """A request to a reranker; unknown fields are ignored."""

    model: Annotated[str, Field(max_length=256)] = ""
    """Any name; `wye-hybrid` is used in any case."""
    query: QuestionText
    documents: Annotated[list[Text | RerankText], Field(min_length=1, max_length=MOST_TEXTS)]
    """Texts to rank. The encoder reads the beginning of each, BM25 all of it."""
    top_n: Annotated[int, Field(ge=1), Exact] | None = None
    """How many results to return; default: all."""
    return_documents: StrictBool = False
    deadline_ms: DeadlineMs = None

    model_config = examples(
        {"model": "wye-hybrid", "query": "Which bridge was built first?", "documents": _BRIDGES},
        {**_BODY, "top_n": 1, "return_documents": True},
    )


MODEL = "wye-hybrid"

router = APIRouter(tags=["connectors"], dependencies=READ)


@router.post("/v1/rerank", summary="Rank given texts")
async def rerank(
    body: RerankRequest,
    request: Request,
    service: Served,
    collection: Annotated[CollectionName, Query()] = None,
) -> dict[str, Any]:
    r"""Ranks given texts as the route `hybrid` would, in the protocol of Cohere, Jina and vLLM.

    The texts need not be in the collection, which only tells how rare each word is. They are
    encoded between batches of questions. `deadline_ms` limits the time; after it the reply is 504.
    A `relevance_score` is the probability that the text is relevant, never higher than that of the
    result before it; if `calibrated` is false, it is the share of the best score.

    ```bash
    curl http://127.0.0.1:8000/v1/rerank -H 'content-type: application/json' \
      -d '{"query": "Who designed it?", "documents": ["Ada designed it.", "It rained."]}'
    ```
    """
    texts = [RerankText(text=text) if isinstance(text, str) else text for text in body.documents]
    passages = [Passage("-", text.title, text.text) for text in texts]
    target = service.collection(collection)
    session = target.session
    target.require_route(Route.HYBRID)
    reranker = session.reranker
    limit_ms = min(body.deadline_ms or service.settings.serve.deadline_ms, LONGEST_DEADLINE_MS)
    with service.reranks.reserve():
        try:
            async with asyncio.timeout(limit_ms / 1000):
                work = _rank(service, reranker, body.query, passages)
                texts_by_rank = await unless_gone(departure(request), work)
        except TimeoutError:
            late = f"{len(texts)} texts could not be read within {limit_ms} ms. Send fewer, or give"
            late = f"{late} more time with deadline_ms."
            raise Problem(504, "deadline", late, retry_after=1) from None
    words = sum(len(text.split()) for text in (body.query, *(text.text for text in texts)))
    results: list[dict[str, Any]] = []
    for ranked in texts_by_rank[: body.top_n]:
        results.append({"index": ranked.position, "relevance_score": ranked.relevance})
        if body.return_documents:
            results[-1]["document"] = texts[ranked.position].model_dump()
    return {
        "id": f"rerank-{request_id_of(request)}",
        "model": MODEL,
        "results": results,
        "usage": {"prompt_tokens": words, "total_tokens": words},
        "calibrated": reranker.relevance is not None,
    }


# Cohere's current client uses this address, with the same requests and replies.
router.add_api_route("/v2/rerank", rerank, methods=["POST"], include_in_schema=False)


async def _rank(
    service: Service, reranker: Reranker, question: str, passages: list[Passage]
) -> list[RankedText]:
    analyser = InterleavedAnalyser(reranker.analyser, service.batcher, is_stopped=lambda: False)
    steps = reranker.compare_in_steps(question, passages)
    cosines = await analyser.take(steps, seconds=0)  # so a question waits for one step at most
    return await asyncio.to_thread(reranker.rank, question, passages, cosines)
