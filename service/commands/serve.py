"""`wye serve`, `wye mcp` and `wye keys`: run a server, offer it to agents, make its keys."""

import gc
import os
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from threadpoolctl import threadpool_limits

from wye.service.errors import ServiceError
from wye.service.terminal import KEY, IndexesOption, PortOption, PresetOption, ServedArmsOption, say

if TYPE_CHECKING:
    from fastapi import FastAPI

    from wye.service.http.edge import Scope
    from wye.service.settings import ServeSettings

MOST_CONNECTIONS = 900  # a process may often have 1,024 open files, and indexes and jobs need some
# Seconds that the models' thread may keep the interpreter while the event loop wants it. With
# Python's default of 5 ms, even a refusal would wait many times 5 ms.
_SWITCH_SECONDS = 0.0005
_POLL_SECONDS = 0.05
_REPLY_SECONDS = 120.0


def serve(
    *,
    index: IndexesOption = None,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on. Default: 127.0.0.1.")
    ] = None,
    port: PortOption = None,
    arms: ServedArmsOption = None,
    preset: PresetOption = None,
) -> None:
    """Answer questions over HTTP, by Wye's own API and by OpenAI's."""
    _multiply_on_one_thread()
    from wye.router.model_files import read_policy, read_title
    from wye.router.session import ModelCache
    from wye.router.settings import RoutingSettings
    from wye.service.app import build, indexes
    from wye.service.arms.file import settings_with_arms
    from wye.service.logs import configure

    settings = settings_with_arms(arms, preset)
    options = {"indexes": tuple(index or ()) or None, "host": host, "port": port}
    values: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    settings = settings.model_copy(update={"serve": replace(settings.serve, **values)})
    refuse_taken_address(settings.serve.host, settings.serve.port)
    app = build(settings, loaded=lambda: _settle(settings.serve))
    for opener in indexes(settings, ModelCache()).values():
        # Report a missing or foreign index or relevance model now, rather than in a log.
        _ = opener().models.relevance
    # A router that is named must be there; without the default one, `auto` says what is missing.
    if settings.router != RoutingSettings():
        router = read_title(settings.router.folder())
        if settings.router.thresholds:
            read_policy(Path(settings.router.thresholds), router)
    service = app.state.service
    configure(settings.serve.logs)
    for name, group in service.arms.items():
        say(f"Remote arms of {name}: {', '.join(arm.name for arm in group)} ({settings.arms}).")
    say(f"Loading {', '.join(service.collections)}.")
    _run(app, settings.serve)


def refuse_taken_address(host: str, port: int) -> None:
    """Refuse (`ServiceError`) an address at which a server cannot listen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise ServiceError(
                f"{host} port {port} cannot be used ({error.strerror or error}). If no server of "
                "yours runs there, choose another --port."
            ) from None


def _settle(settings: "ServeSettings") -> None:
    """Say that all collections are loaded, and exempt their objects from garbage collection.

    To traverse them took a quarter of a second every few thousand requests.
    """
    gc.collect()
    gc.freeze()
    say(f"Ready: {_address(settings)}")


def _multiply_on_one_thread() -> None:
    """Limit the matrix libraries to one thread, as a second would only slow the encoder down."""
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        threadpool_limits(1, "blas")  # numpy is loaded already and has read the variables
    for pool in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(pool, "1")


def _run(app: "FastAPI", settings: "ServeSettings") -> None:
    import uvicorn

    from wye.service.http.protocol import BoundedHttp

    sys.setswitchinterval(_SWITCH_SECONDS)
    # The web server raises the signal again when it has finished; with this handler the process
    # exits normally, and temporary files are deleted.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    uvicorn.run(
        app,
        host=settings.host,
        port=settings.port,
        workers=1,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="on",
        http=BoundedHttp,
        ws="none",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=settings.shutdown_seconds,
    )


def _address(settings: "ServeSettings") -> str:
    """Where to find the console, as an imperative."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    name = f"[{host}]" if ":" in host else host
    port = settings.port
    return f"open http://{name}:{port}/" if port else f"the log names the free port of {name}."


def mcp(
    *,
    url: Annotated[
        str | None,
        typer.Option(
            help="URL of a running `wye serve` to ask, with the API key in WYE_KEY, if set. "
            "Default: open the index here."
        ),
    ] = None,
    index: Annotated[
        Path | None,
        typer.Option(help="Folder of the index. Default: WYE_SERVE__INDEXES or WYE_INDEX."),
    ] = None,
    preset: PresetOption = None,
) -> None:
    """Offer search tools to an agent by the Model Context Protocol, over standard input."""
    if url is not None and index is not None:
        raise ServiceError("Give --url or --index, not both.")
    import asyncio

    asyncio.run(_of_server(url) if url else _of_index(index, preset))


async def _of_server(url: str) -> None:
    import httpx2

    from wye.service.mcp_tools import run_stdio

    key = os.environ.get(KEY)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        async with httpx2.AsyncClient(
            base_url=url, headers=headers, timeout=_REPLY_SECONDS
        ) as client:
            (await client.get("/health")).raise_for_status()
            await run_stdio(client)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise ServiceError(
            f"No `wye serve` answers at {url} ({error or type(error).__name__}). Start it, or give "
            "--index DIR."
        ) from None


async def _of_index(index: Path | None, preset: str | None) -> None:
    import asyncio

    from wye.backends.store.index import PassageStore
    from wye.service.app import build
    from wye.service.mcp_tools import inside, run_stdio
    from wye.service.settings import index_folders, load_settings

    settings = load_settings(index=index, preset=preset)
    # Whoever starts this can read the folder, so no key is needed, and no port is opened.
    base = replace(settings.serve, host="127.0.0.1", keys=(), keys_file=None)
    if index is not None:
        base = replace(base, indexes=())
    settings = settings.model_copy(update={"serve": base})
    for folder in index_folders(base.indexes, settings.index).values():
        PassageStore.open(folder)  # reports a missing index without a traceback
    app = build(settings)
    async with app.router.lifespan_context(app), inside(app) as client:
        while (reply := await client.get("/ready")).is_error:
            for collection in reply.json()["collections"]:
                if collection.get("error"):
                    raise ServiceError(collection["error"])
            await asyncio.sleep(_POLL_SECONDS)
        await run_stdio(client)


keys = typer.Typer(help="Make API keys for `wye serve`.", no_args_is_help=True)


@keys.command(epilog="Example: wye keys new --scopes read,write --file keys.txt")
def new(
    *,
    name: Annotated[
        str, typer.Option(help="Name of the key, for logs and rate limits.")
    ] = "default",
    scopes: Annotated[str, typer.Option(help="Scopes, separated by commas: read, write.")] = "read",
    collections: Annotated[
        list[str] | None,
        typer.Option(
            "--collection", help="Collection that the key is limited to. May be repeated."
        ),
    ] = None,
    filter: Annotated[  # noqa: A002 - the option's name
        str | None,
        typer.Option(
            help="Metadata filter, as in acl=public: the key sees only what it lets through, and "
            "cannot write."
        ),
    ] = None,
    max_cost_per_day: Annotated[
        float | None,
        typer.Option(help="Daily limit (UTC) on what its questions may cost in remote arms."),
    ] = None,
    file: Annotated[Path | None, typer.Option(help="File to add the key's hash to.")] = None,
) -> None:
    """Make a key. It is printed once; only its hash is stored.

    To revoke a key, remove its line from the file; a running server follows.
    """
    from wye.backends.filters import as_json
    from wye.service.http.keys import append_key, new_key

    bound = collections or (), as_json(filter), max_cost_per_day
    secret, key = new_key(name, _scopes(scopes), *bound)
    if file is not None:
        append_key(file, key)
        say(f"Added '{key.name}' to {file}. Serve with WYE_SERVE__KEYS_FILE={file}.")
    else:
        say(f"Put this line into the file of WYE_SERVE__KEYS_FILE, or into WYE_SERVE__KEYS:\n{key}")
    typer.echo(secret)


def _scopes(text: str) -> list["Scope"]:
    from wye.service.http.edge import Scope

    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in {*map(str, Scope)}]
    if unknown:
        raise ServiceError(f"There is no scope '{unknown[0]}'; use some of {', '.join(Scope)}.")
    return [Scope(name) for name in names]
