"""Servers as replicas of a Ray Serve deployment: `serve run wye.service.ray_serve:app index=PATH`.

Each replica is what `wye serve` is, and answers whole questions. Ray Serve starts them, checks
them, adds and removes them with the load, and lets one that goes finish its requests. Settings are
read from the replica's environment (WYE_…), and may be given as arguments.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel, ConfigDict
from ray import serve

from wye.service.app import build
from wye.service.arms.file import settings_with_arms

_ONGOING = 32  # requests that a replica works on; more wait in front of it, or in another one
_TARGET = 8  # requests at a time for each replica, by which their number follows the load


class Arguments(BaseModel):
    """Arguments of the application."""

    model_config = ConfigDict(extra="forbid")

    index: str = ""  # folder or address; "" for the environment's settings
    host: str = "0.0.0.0"  # where Ray Serve's proxies listen; other machines need API keys
    replicas: int = 1  # fewest servers
    most_replicas: int = 8  # most servers; they follow the load
    processors: float = 1  # of each server


class Server:
    """A replica."""

    def __init__(self, index: str, host: str) -> None:
        self._index, self._host = index, host

    def __serve_build_asgi_app__(self) -> FastAPI:
        """The app, which Ray Serve starts and stops; see `wye.service.app.build`."""
        self._app = web_app(self._index, self._host)
        return self._app

    async def check_health(self) -> None:
        """Called by Ray Serve: waits for the models at first; later an error ends the replica.

        A lost object store is no such error, since another replica would not have it either.
        """
        service = self._app.state.service
        while not service.is_ready and not service.fault:
            await asyncio.sleep(0.1)
        if service.fault:
            raise RuntimeError(service.fault)


def web_app(index: str, host: str) -> FastAPI:
    """The app of a replica; a `ServiceError` for one open to others, or without an index."""
    settings = settings_with_arms(None, None)
    indexes = (index,) if index else settings.serve.indexes
    served = replace(settings.serve, host=host, indexes=indexes)
    return build(settings.model_copy(update={"serve": served}))


def app(arguments: Mapping[str, str]) -> Any:  # noqa: ANN401 - an `Application` of Ray's
    """The application, for `serve run` and `serve deploy`; raises before anything is started."""
    chosen = Arguments.model_validate(arguments)
    web_app(chosen.index, chosen.host)
    deployment: Any = serve.deployment(
        name="wye",
        ray_actor_options={"num_cpus": chosen.processors},
        autoscaling_config={
            "min_replicas": chosen.replicas,
            "max_replicas": max(chosen.replicas, chosen.most_replicas),
            "target_ongoing_requests": _TARGET,
        },
        max_ongoing_requests=_ONGOING,
        health_check_period_s=5,
        health_check_timeout_s=30,
        # More than WYE_SERVE__SHUTDOWN_SECONDS, so that accepted requests are finished.
        graceful_shutdown_timeout_s=40,
    )
    return deployment(serve.ingress()(Server)).bind(chosen.index, chosen.host)
