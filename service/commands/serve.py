"""`wye serve`: answer over HTTP."""

import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from typing import Annotated

import typer

from service.commands.options import IndexesOption, PortOption, RoutersOption, ThresholdsOption
from service.terminal import say

APP = "service.app:from_environment"


def serve(
    *,
    index: IndexesOption = None,
    router: RoutersOption = None,
    thresholds: ThresholdsOption = None,
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on. Default: this machine.", show_default=False),
    ] = None,
    port: PortOption = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes that answer. Default: 1.", show_default=False),
    ] = None,
) -> None:
    """Answer questions over HTTP: Wye's own API, and OpenAI's."""
    for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        # Matrices of one question are small: a second thread only takes a processor from the
        # encoder. To be said before numpy is loaded, here and in worker processes.
        os.environ.setdefault(pool, "1")
    from router.session import ModelCache
    from service.app import indexes
    from service.collections import check_router, router_settings
    from service.doctor import refuse_taken_address
    from service.http.auth import refuse_open_server
    from service.http.keys import KeyRing
    from service.logs import configure
    from service.settings import load_settings

    # Workers are processes of their own, so what is said here reaches them by the environment.
    given = {
        "HOST": host,
        "PORT": port,
        "WORKERS": workers,
        "INDEXES": ",".join(index or ()),
        "ROUTERS": ",".join(router or ()),
        "THRESHOLDS": ",".join(thresholds or ()),
    }
    os.environ.update(_variables(given))
    settings = load_settings()
    wanted = settings.serve
    refuse_open_server(wanted)
    refuse_taken_address(wanted.host, wanted.port)
    KeyRing(wanted.keys, wanted.keys_file)
    collections = indexes(settings, ModelCache())
    for opener in collections.values():
        opener()  # a missing or foreign index is a mistake to be told now, not in a log
    for name, routing in router_settings(settings, list(collections)).items():
        check_router(name, routing)
    configure(wanted.logs)
    say(
        f"Serving {', '.join(collections)} at {_address(wanted.host, wanted.port)}. "
        "It answers when /ready says so."
    )
    with tempfile.TemporaryDirectory(prefix="wye-metrics-") as shared:
        if wanted.workers > 1:
            from service.http.metrics import SHARED

            os.environ[SHARED] = shared
        _run(wanted.host, wanted.port, wanted.workers, wanted.shutdown_seconds)


def _run(host: str, port: int, workers: int, shutdown_seconds: int) -> None:
    import uvicorn

    from service.http.protocol import BoundedHttp

    # The web server sends itself the signal again when it has finished; this makes it an end like
    # any other, with what is temporary cleared away.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    uvicorn.run(
        APP,
        factory=True,
        host=host,
        port=port,
        workers=workers,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        http=BoundedHttp,
        ws="none",
        timeout_graceful_shutdown=shutdown_seconds,
    )


def _variables(given: Mapping[str, object]) -> dict[str, str]:
    said = {name: str(value) for name, value in given.items() if value is not None}
    return {f"WYE_SERVE__{name}": text for name, text in said.items() if text}


def _address(host: str, port: int) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}" if port else f"a free port of {shown}, which the log names"
