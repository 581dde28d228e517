"""Searches in the protocol of Dify."""

from fastapi import APIRouter, Request, Response

from wye.backends.documents import is_blank
from wye.service.http.auth import READ
from wye.service.http.replies import headers, retrieve_reply
from wye.service.schemas.common import DEFAULT_ROUTE
from wye.service.schemas.connectors import DifyRecord, DifyReply, DifyRequest
from wye.service.search import SearchParams
from wye.service.service import Served

router = APIRouter(prefix="/v1", tags=["connectors"], dependencies=READ)


@router.post("/dify/retrieval", summary="Dify's external knowledge", operation_id="dify_retrieval")
async def dify(
    wanted: DifyRequest, request: Request, response: Response, service: Served
) -> DifyReply:
    """Returns passages as Dify's records. In Dify, enter the address of the server and `/v1/dify`.

    `score_threshold` is a lower bound on relevance, so it means the same for every question. A
    bound above 0 is refused if relevance is unknown.
    """
    filter_ = wanted.filter()
    name = service.collection(wanted.knowledge_id).name
    if is_blank(wanted.query):
        return DifyReply(records=[])
    setting = wanted.retrieval_setting
    params = SearchParams(
        name, DEFAULT_ROUTE, setting.top_k, filter_, min_relevance=setting.score_threshold
    )
    (result,) = await service.search(request, params, [wanted.query], None)
    reply = retrieve_reply(result)
    response.headers.update(headers(reply))
    best = max((passage.score for passage in reply.passages), default=0.0)
    return DifyReply(
        records=[
            DifyRecord(
                content=passage.text,
                score=(passage.score / best if best > 0 else 0.0)
                if passage.relevance is None
                else passage.relevance,
                title=passage.title,
                metadata={**passage.metadata, "document_id": passage.document},
            )
            for passage in reply.passages
        ]
    )
