"""`wye serve`: answer over HTTP."""

import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Thread, Timer
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer
from threadpoolctl import threadpool_limits

from service.commands.options import (
    IndexesOption,
    PortOption,
    RoutersOption,
    ServedArmsOption,
    ThresholdsOption,
)
from service.logs import LOG
from service.terminal import say

if TYPE_CHECKING:
    from fastapi import FastAPI

    from service.settings import ServeSettings

APP = "service.commands.serve:app"

# Seconds to end threads and close files, after the time to finish what was accepted.
_LAST_SECONDS = 5
_COUNTS = "wye-metrics-"


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
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Number of worker processes. Default: 1."),
    ] = None,
    arms: ServedArmsOption = None,
) -> None:
    """Answer questions over HTTP, by Wye's own API and by OpenAI's."""
    _multiply_on_one_thread()
    from router.session import ModelCache
    from service.app import indexes
    from service.arms.file import read_arms, settings_with_arms
    from service.collections import check_router, router_settings
    from service.doctor import refuse_taken_address
    from service.http.auth import refuse_open_server
    from service.http.keys import KeyRing
    from service.logs import configure

    # Workers are processes of their own, so options reach them through the environment.
    given = {
        "HOST": host,
        "PORT": port,
        "WORKERS": workers,
        "INDEXES": ",".join(index or ()),
        "ROUTERS": ",".join(router or ()),
        "THRESHOLDS": ",".join(thresholds or ()),
    }
    said = {f"WYE_SERVE__{name}": str(one) for name, one in given.items() if one not in (None, "")}
    os.environ.update(said)
    settings = settings_with_arms(arms)
    if settings.arms is not None:
        os.environ["WYE_ARMS"] = str(settings.arms)
    wanted = settings.serve
    refuse_open_server(wanted)
    refuse_taken_address(wanted.host, wanted.port)
    KeyRing(wanted.keys, wanted.keys_file)
    collections = indexes(settings, ModelCache())
    for opener in collections.values():
        # Report a missing or foreign index or relevance model now, rather than in a log.
        _ = opener().relevance
    remote = read_arms(settings.arms, list(collections), wanted.deadline_ms / 1000)
    names = dict.fromkeys([*collections, *remote])
    for name, routing in router_settings(settings, list(names)).items():
        check_router(name, routing)
    configure(wanted.logs)
    clear_away(Path(tempfile.gettempdir()))
    for name, own in remote.items():
        say(f"Remote arms of {name}: {', '.join(arm.name for arm in own)} ({settings.arms}).")
    say(
        f"Serving {', '.join(names)} at {_address(wanted.host, wanted.port)}. "
        "It answers when /ready says so."
    )
    if wanted.workers == 1:
        _run(wanted)
        return
    from service.http.metrics import SHARED

    with tempfile.TemporaryDirectory(prefix=f"{_COUNTS}{os.getpid()}-") as shared:
        os.environ[SHARED] = shared
        _run(wanted)


def _multiply_on_one_thread() -> None:
    """Limit the matrix libraries to one thread, here and in workers, unless variables say more.

    A question's matrices are small, and a second thread would only take a processor from the
    encoder.
    """
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        threadpool_limits(1, "blas")  # numpy is loaded already and has read the variables
    for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(pool, "1")


def app() -> "FastAPI":
    """The app that the web server runs, once in each worker process."""
    from service.app import from_environment
    from service.settings import load_settings

    _end_in_time(load_settings().serve.shutdown_seconds + _LAST_SECONDS)
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_end_with, args=(parent,), daemon=True).start()
    return from_environment()


def clear_away(folder: Path) -> None:
    """Delete the temporary files that killed servers left in a folder."""
    from service.ingest.bodies import UPLOAD

    for kind in (_COUNTS, UPLOAD):
        for path in folder.glob(f"{kind}*-*"):
            process = path.name.removeprefix(kind).partition("-")[0]
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


def _end_in_time(seconds: float) -> None:
    """Make this process end so many seconds after it was told to, whatever its threads do.

    A thread cannot be killed, and Python waits for those of its pools. The web server's own
    handlers, which are installed before it asks for the app, do the rest.
    """

    def end() -> None:
        # In another thread, since a hanging one may hold the lock of the log.
        log = Thread(target=LOG.error, args=("ended by force: its threads did not stop",))
        log.daemon = True
        log.start()
        log.join(1)
        os._exit(1)

    def stopping(number: int, frame: FrameType | None) -> None:
        last = Timer(seconds, end)
        last.daemon = True
        last.start()
        then = handlers[signal.Signals(number)]
        if callable(then):
            then(number, frame)

    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in handlers:
        signal.signal(number, stopping)


def _end_with(parent: BaseProcess) -> None:
    """When the parent has ended, end this worker as the parent would have."""
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _run(wanted: "ServeSettings") -> None:
    import uvicorn
    from uvicorn.config import STARTUP_FAILURE
    from uvicorn.supervisors import multiprocess

    from service.http.protocol import BoundedHttp, DrainingServer, Worker, Workers

    # The web server raises the signal again when it has finished; with this handler the process
    # exits normally, and temporary files are deleted.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    options: dict[str, Any] = {
        "factory": True,
        "host": wanted.host,
        "port": wanted.port,
        "workers": wanted.workers,
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": False,
        "lifespan": "on",
        "http": BoundedHttp,
        "ws": "none",
        "timeout_graceful_shutdown": wanted.shutdown_seconds,
    }
    config = uvicorn.Config(APP, **options)
    if wanted.workers > 1:
        multiprocess.Process = Worker  # type: ignore[misc]
        Workers(config, [config.bind_socket()]).run()
        return
    server = DrainingServer(config)
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        sys.exit(STARTUP_FAILURE)


def _address(host: str, port: int) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}" if port else f"a free port of {shown}, which the log names"
