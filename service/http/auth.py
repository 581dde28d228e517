"""Authentication by API key in the middleware, and authorisation by scope at each address."""

from collections.abc import Awaitable, Callable

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers

from wye.service.errors import ServiceError
from wye.service.http.keys import ANYBODY, ASKING, Key, KeyRing, Scope
from wye.service.http.problems import Problem
from wye.service.settings import ServeSettings, is_loopback

# Paths that need a key if the server has keys. Health, the schema and the console's files do not.
PROTECTED = ("/v1/", "/v2/", "/metrics", "/mcp")

_NOBODY = Key("", frozenset(), "")
_CHALLENGE = {"www-authenticate": "Bearer"}
_IN_SCHEMA = HTTPBearer(
    auto_error=False, description="A key of `wye keys new`; `x-api-key` is accepted as well."
)


def identify(ring: KeyRing, headers: Headers, path: str) -> Key:
    """The key that a request is sent with.

    A server without keys serves anybody on this machine. The request's host must then be this
    machine, so that no web page can reach the server under a host name of its own.

    Raises:
        Problem: 401 without a known key, 421 for a foreign host name.
    """
    if not ring:
        _check_host(headers.get("host", ""))
        return ANYBODY
    secret = _secret(headers)
    if not path.startswith(PROTECTED):
        return (ring.find(secret) if secret else None) or _NOBODY
    if secret is None:
        raise Problem(
            401,
            "no-key",
            "Send an API key, as in `Authorization: Bearer wye_…`.",
            headers=_CHALLENGE,
        )
    key = ring.find(secret)
    if key is None:
        raise Problem(
            401,
            "unknown-key",
            "This API key is unknown or was withdrawn; ask whoever runs the server for another.",
            headers=_CHALLENGE,
        )
    return key


def needs(scope: Scope) -> Callable[..., Awaitable[None]]:
    """A dependency that refuses (403) keys without a scope."""

    async def check(_schema: object = Security(_IN_SCHEMA)) -> None:
        if not ASKING.get().may(scope):
            raise Problem(
                403,
                "scope",
                f"This needs a key with the scope '{scope}'; make one with `wye keys new --scopes "
                f"{scope}`.",
            )

    return check


async def unbound() -> None:
    """A dependency that refuses (403) keys bound to collections or to a filter."""
    if ASKING.get().is_bound:
        raise Problem(403, "bound", "This covers all collections, but the key is limited to some.")


async def from_our_pages(request: Request) -> None:
    """A dependency that refuses requests from foreign web pages.

    A browser sends a page's forms to any server without asking, and a server without keys could not
    tell them from its user's requests.

    Raises:
        Problem: 403.
    """
    origin = request.headers.get("origin")
    if origin is None or origin.partition("://")[2] == request.headers.get("host"):
        return
    allowed = request.app.state.service.settings.serve.cors_origins
    if origin not in allowed and "*" not in allowed:
        raise Problem(
            403,
            "foreign-page",
            f"Pages of '{origin:.80}' may not change documents here. Allow them with "
            "WYE_SERVE__CORS_ORIGINS.",
        )


READ = [Depends(needs(Scope.READ))]
"""Dependencies of addresses that only read."""
WRITE = [Depends(needs(Scope.WRITE)), Depends(from_our_pages)]
"""Dependencies of addresses that change something."""


def refuse_open_server(serve: ServeSettings) -> None:
    """Refuse (`ServiceError`) to serve other machines, or any web page, without API keys."""
    if "*" in serve.cors_origins and not serve.has_keys:
        raise ServiceError(
            "WYE_SERVE__CORS_ORIGINS=* lets any web page that somebody here opens read and delete, "
            "and there is no API key. Name the origins of your pages, or make a key with "
            "`wye keys new --file keys.txt` and set WYE_SERVE__KEYS_FILE=keys.txt."
        )
    if not is_loopback(serve.host) and not serve.has_keys:
        raise ServiceError(
            f"{serve.host} can be reached from other machines, and there is no API key. Make one "
            "with `wye keys new --file keys.txt` and set WYE_SERVE__KEYS_FILE=keys.txt, or listen "
            "on 127.0.0.1."
        )


def _secret(headers: Headers) -> str | None:
    kind, _, secret = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer" and secret.strip():
        return secret.strip()
    return headers.get("x-api-key") or None


def _check_host(host: str) -> None:
    name = host.rsplit(":", 1)[0] if host.rpartition(":")[2].isdigit() else host
    if is_loopback(name.strip("[]")):
        return
    raise Problem(
        421,
        "host",
        "A server without API keys answers to localhost only. Ask http://localhost, or give the "
        "server keys.",
    )
