"""Ranks texts that a client has found elsewhere."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request

from wye.backends.types import Passage
from wye.router.rerank import RankedText, Reranker
from wye.router.types import Route
from wye.service.batching import unless_gone
from wye.service.http.auth import READ
from wye.service.http.problems import Problem, request_id_of
from wye.service.ingest.writer import InterleavedAnalyser
from wye.service.schemas.common import CollectionName
from wye.service.schemas.rerank import (
    RerankReply,
    RerankRequest,
    RerankResult,
    RerankText,
    RerankUsage,
)
from wye.service.service import Served, Service, gone
from wye.service.settings import LONGEST_DEADLINE_MS

MODEL = "wye-hybrid"

router = APIRouter(tags=["connectors"], dependencies=READ)


@router.post(
    "/v1/rerank",
    summary="Rank given texts",
    operation_id="rerank",
    response_model_exclude_none=True,
)
async def rerank(
    wanted: RerankRequest,
    request: Request,
    service: Served,
    collection: Annotated[CollectionName, Query()] = None,
) -> RerankReply:
    r"""Ranks given texts as the route `hybrid` would, in the protocol of Cohere, Jina and vLLM.

    The texts need not be in the collection, which only tells how rare each word is. They are
    encoded between batches of questions. `deadline_ms` limits the time; after it the reply is 504.

    ```bash
    curl http://127.0.0.1:8000/v1/rerank -H 'content-type: application/json' \
      -d '{"query": "Who designed it?", "documents": ["Ada designed it.", "It rained."]}'
    ```
    """
    texts = [RerankText(text=own) if isinstance(own, str) else own for own in wanted.documents]
    passages = [Passage("-", own.title, own.text) for own in texts]
    target = service.collection(collection)
    session = target.session
    target.require_route(Route.HYBRID)
    reranker = session.reranker
    most = min(wanted.deadline_ms or service.settings.serve.deadline_ms, LONGEST_DEADLINE_MS)
    with service.reranks.taken():
        try:
            async with asyncio.timeout(most / 1000):
                work = _ranked(service, reranker, wanted.query, passages)
                ranked = await unless_gone(gone(request), work)
        except TimeoutError:
            raise Problem(
                504,
                "deadline",
                f"{len(texts)} texts could not be read within {most} ms. Send fewer, or give more "
                "time with deadline_ms.",
                retry_after=1,
            ) from None
    words = sum(len(text.split()) for text in (wanted.query, *(own.text for own in texts)))
    return RerankReply(
        id=f"rerank-{request_id_of(request.scope)}",
        model=MODEL,
        results=[
            RerankResult(
                index=one.place,
                relevance_score=one.relevance,
                document=texts[one.place] if wanted.return_documents else None,
            )
            for one in ranked[: wanted.top_n]
        ],
        usage=RerankUsage(prompt_tokens=words, total_tokens=words),
        calibrated=reranker.relevance is not None,
    )


# Cohere's current client uses this address, with the same requests and replies.
router.add_api_route(
    "/v2/rerank",
    rerank,
    methods=["POST"],
    include_in_schema=False,
    response_model_exclude_none=True,
)


async def _ranked(
    service: Service, reranker: Reranker, question: str, passages: list[Passage]
) -> list[RankedText]:
    analyser = InterleavedAnalyser(reranker.analyser, service.batcher, is_stopped=lambda: False)
    steps = reranker.compare_in_steps(question, passages)
    cosines = await analyser.take(steps, seconds=0)  # so a question waits for one step at most
    return await asyncio.to_thread(reranker.rank, question, passages, cosines)
