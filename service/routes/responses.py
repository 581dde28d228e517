"""OpenAI's responses, with file search over collections."""

from dataclasses import replace

from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse

from service.answers.chat import broken_off
from service.answers.generate import AnswerParams
from service.answers.responses import ResponseWriter
from service.http.auth import READ
from service.http.problems import Problem, request_id_of
from service.http.replies import event_stream, headers, retrieve_reply
from service.routes.chat import SYSTEM, route_of, turns_of
from service.routes.retrieve import params_of
from service.schemas.common import LONGEST_QUESTION
from service.schemas.responses import SEARCH, InputItem, ResponseRequest, Tool
from service.service import Served

router = APIRouter(prefix="/v1/responses", tags=["openai"], dependencies=READ)


@router.post(
    "",
    summary="Answer with citations",
    operation_id="create_response",
    responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def create(asked: ResponseRequest, request: Request, service: Served) -> Response:
    """Searches a collection and answers from its passages, in OpenAI's protocol of responses.

    The last user message is the query. If it refers to earlier ones it is rewritten, as in a chat;
    `queries` has the result. The tool `file_search` names the collection, the number of passages
    and the filter; without it, the collection of `model` is searched. `score_threshold` is a lower
    bound on relevance. Numbers in square brackets are the citations in `annotations`, each at its
    `index` in the text. Other tools are refused, and so is `previous_response_id`, since no
    conversation is stored.

    ```python
    from openai import OpenAI

    client = OpenAI(base_url="http://127.0.0.1:8000/v1", api_key="none")
    reply = client.responses.create(
        model="wye-auto",
        input="Which river does the Old Bridge cross?",
        tools=[{"type": "file_search", "vector_store_ids": ["default"]}],
    )
    print(reply.output_text)
    ```
    """
    route, collection = route_of(service, asked.model)
    tool = _search_of(asked)
    if tool is not None and tool.vector_store_ids:
        collection = service.collection(tool.vector_store_ids[0]).name
    text = asked.input
    items = [InputItem(role="user", content=text)] if isinstance(text, str) else text
    turns = turns_of([(item.role or "", item.text) for item in items], "body.input")
    said = turns[-1].content.strip()[-LONGEST_QUESTION:]
    question = await service.generator.standalone(said, turns[:-1])
    own = asked.wye
    params = params_of(collection, route, own)
    if tool is not None:
        threshold = tool.ranking_options.score_threshold if tool.ranking_options else None
        params = replace(
            params,
            k=tool.max_num_results or own.k,
            filter=tool.filters if own.filter is None else own.filter,
            min_relevance=max(own.min_relevance, threshold or 0.0),
        )
    (result,) = await service.search(request, params, [question], own.deadline_ms)
    retrieval = retrieve_reply(result)
    system = [asked.instructions] if asked.instructions else []
    answering = AnswerParams(
        question,
        retrieval.passages,
        collection,
        system=[*system, *(item.text for item in items if item.role in SYSTEM and item.text)],
        history=turns[:-1],
        options=asked.sampling(),
        answerability=retrieval.answerability,
        abstain_below=own.abstain_below,
    )
    writer = ResponseWriter(request_id_of(request.scope), asked, answering, retrieval)
    if asked.stream:
        return event_stream(writer.events(service.generator), headers(retrieval))
    generated = await service.generator.complete(answering)
    if generated.error:
        raise broken_off(generated)
    return JSONResponse(writer.whole(generated), headers=headers(retrieval))


def _search_of(asked: ResponseRequest) -> Tool | None:
    """The requested file search, if any, or a `Problem` 422 for what is not offered."""
    if asked.previous_response_id is not None:
        raise _refused(
            "previous_response_id", "replies are not stored here; send the turns as `input`."
        )
    found = None
    for tool in asked.tools:
        if tool.type != SEARCH:
            raise _refused("tools", f"the tool '{tool.type:.40}' is not offered; {SEARCH} is.")
        if found is not None or len(tool.vector_store_ids) > 1:
            raise _refused("tools", "one collection is searched at a time.")
        found = tool
    return found


def _refused(at: str, says: str) -> Problem:
    return Problem(
        422,
        "not-offered",
        f"body.{at}: {says[0].upper()}{says[1:]}",
        errors=[{"at": f"body.{at}", "says": says}],
    )
