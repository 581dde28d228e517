"""The address that a server of all shards calls on each shard; not part of the public API."""

import logging
from typing import Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse

from router.sharding.shard import CALLS
from service.http.auth import needs, unbound
from service.http.keys import Scope
from service.http.problems import Problem
from service.service import Served
from service.sharded import PATH

_log = logging.getLogger(__name__)
router = APIRouter(
    include_in_schema=False, dependencies=[Depends(needs(Scope.ADMIN)), Depends(unbound)]
)


class ShardRequest(BaseModel):
    """Calls to the first collection, each the name of one of `CALLS` and its arguments."""

    calls: list[tuple[str, dict[str, Any]]]


@router.post(PATH)
async def answer(asked: ShardRequest, service: Served) -> JSONResponse:
    """Answers calls about the passages of this server, in order."""
    collection = service.collection(None)
    collection.require_ready()
    if {name for name, _ in asked.calls} - CALLS.keys() or not collection.is_stored_here:
        raise Problem(404, "no-such-call", "There is no such call here.")
    session = collection.session

    def answers() -> list[Any]:
        return [service.shard_calls.call(session, *one) for one in asked.calls]

    try:
        found = await run_in_threadpool(answers)
    except (KeyError, TypeError, ValueError) as error:
        said = "The call's arguments are not valid, or its walk has expired."
        _log.warning("%s %r", said, error, exc_info=error)
        raise Problem(422, "bad-call", said) from error
    return JSONResponse(found)
