"""The address that a server of all shards calls on each shard; not part of the public API."""

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

router = APIRouter(
    include_in_schema=False, dependencies=[Depends(needs(Scope.ADMIN)), Depends(unbound)]
)


class ShardCall(BaseModel):
    """A call to the first collection, one of `router.sharding.shard.CALLS`."""

    name: str
    arguments: dict[str, Any]


@router.post(PATH)
async def answer(call: ShardCall, service: Served) -> JSONResponse:
    """Answers a call about the passages of this server."""
    collection = service.collection(None)
    collection.require_ready()
    if call.name not in CALLS or not collection.is_stored_here:
        raise Problem(404, "no-such-call", "There is nothing like that to be asked here.")
    session = collection.session
    try:
        found = await run_in_threadpool(
            service.shard_calls.call, session, call.name, call.arguments
        )
    except (KeyError, TypeError, ValueError) as error:
        said = "The call does not fit, or its walk is no longer known."
        raise Problem(422, "bad-call", said) from error
    return JSONResponse(found)
