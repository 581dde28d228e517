"""`wye serve`: answer over HTTP."""

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from threadpoolctl import threadpool_limits

from wye.service.commands.options import (
    IndexesOption,
    PortOption,
    PresetOption,
    RoutersOption,
    ServedArmsOption,
    ThresholdsOption,
)
from wye.service.terminal import say

if TYPE_CHECKING:
    from wye.service.settings import ServeSettings

MOST_CONNECTIONS = 900
"""A process may often have 1,024 open files, and indexes and jobs need some."""


def serve(
    *,
    index: IndexesOption = None,
    router: RoutersOption = None,
    thresholds: ThresholdsOption = None,
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on. Default: 127.0.0.1."),
    ] = None,
    port: PortOption = None,
    arms: ServedArmsOption = None,
    preset: PresetOption = None,
) -> None:
    """Answer questions over HTTP, by Wye's own API and by OpenAI's."""
    _multiply_on_one_thread()
    from wye.router.session import ModelCache
    from wye.service.app import indexes
    from wye.service.arms.file import read_arms, settings_with_arms
    from wye.service.collections import check_router
    from wye.service.doctor import refuse_taken_address
    from wye.service.http.keys import KeyRing, refuse_open_server
    from wye.service.logs import configure
    from wye.service.settings import router_settings

    # The app is built from the environment.
    flags = {
        "HOST": host,
        "PORT": port,
        "INDEXES": ",".join(index or ()),
        "ROUTERS": ",".join(router or ()),
        "THRESHOLDS": ",".join(thresholds or ()),
    }
    env = {f"WYE_SERVE__{name}": str(v) for name, v in flags.items() if v not in (None, "")}
    os.environ.update(env | ({} if preset is None else {"WYE_PRESET": preset}))
    settings = settings_with_arms(arms)
    if settings.arms is not None:
        os.environ["WYE_ARMS"] = str(settings.arms)
    serve_settings = settings.serve
    refuse_open_server(serve_settings)
    refuse_taken_address(serve_settings.host, serve_settings.port)
    KeyRing(serve_settings.keys, serve_settings.keys_file)
    collections = indexes(settings, ModelCache())
    for opener in collections.values():
        # Report a missing or foreign index or relevance model now, rather than in a log.
        _ = opener().relevance
    remote = read_arms(settings.arms, list(collections), serve_settings.deadline_ms / 1000)
    names = dict.fromkeys([*collections, *remote])
    for name, routing in router_settings(settings, list(names)).items():
        check_router(name, routing)
    configure(serve_settings.logs)
    clear_away(Path(tempfile.gettempdir()))
    for name, group in remote.items():
        say(f"Remote arms of {name}: {', '.join(arm.name for arm in group)} ({settings.arms}).")
    say(f"Loading {', '.join(names)}.")
    _run(serve_settings)


def _multiply_on_one_thread() -> None:
    """Limit the matrix libraries to one thread unless variables say more.

    A question's matrices are small, and a second thread would only take a processor from the
    encoder.
    """
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        threadpool_limits(1, "blas")  # numpy is loaded already and has read the variables
    for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(pool, "1")


def clear_away(folder: Path) -> None:
    """Delete the uploads that killed servers left in a folder."""
    from wye.service.ingest.bodies import UPLOAD

    for path in folder.glob(f"{UPLOAD}*-*"):
        process = path.name.removeprefix(UPLOAD).partition("-")[0]
        if process.isdecimal() and not _is_alive(int(process)):
            shutil.rmtree(path, ignore_errors=True)


def _is_alive(process: int) -> bool:
    """Whether another process has this id."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's process
        return True
    return process != os.getpid()  # in a container, each server has the same id


def _run(serve_settings: "ServeSettings") -> None:
    import uvicorn

    from wye.service.app import from_environment
    from wye.service.http.protocol import BoundedHttp

    # The web server raises the signal again when it has finished; with this handler the process
    # exits normally, and temporary files are deleted.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    uvicorn.run(
        from_environment(lambda: say(f"Ready: {_address(serve_settings)}")),
        host=serve_settings.host,
        port=serve_settings.port,
        workers=1,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        http=BoundedHttp,
        ws="none",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=serve_settings.shutdown_seconds,
    )


def _address(settings: "ServeSettings") -> str:
    """Where to find the console, as an imperative."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    name = f"[{host}]" if ":" in host else host
    port = settings.port
    return f"open http://{name}:{port}/" if port else f"the log names the free port of {name}."
