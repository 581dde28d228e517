"""`wye mcp`: tools for an agent, over standard input and output."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from wye.service.commands.options import KEY, PresetOption
from wye.service.errors import ServiceError

_PATIENCE = 0.05  # seconds
_TIMEOUT = 120.0


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
        async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=_TIMEOUT) as client:
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
    from wye.service.collections import served
    from wye.service.mcp_tools import inside, run_stdio
    from wye.service.settings import load_settings

    settings = load_settings(index=index, preset=preset)
    # Whoever starts this can read the folder, so no key is needed, and no port is opened.
    base = replace(settings.serve, host="127.0.0.1", keys=(), keys_file=None)
    if index is not None:
        base = replace(base, indexes=())
    settings = settings.model_copy(update={"serve": base})
    for folder in served(settings)[0].values():
        PassageStore.open(folder)  # reports a missing index without a traceback
    app = build(settings)
    async with app.router.lifespan_context(app), inside(app) as client:
        while (reply := await client.get("/ready")).is_error:
            for collection in reply.json()["collections"]:
                if collection.get("error"):
                    raise ServiceError(collection["error"])
            await asyncio.sleep(_PATIENCE)
        await run_stdio(client)
