"""Any search over HTTP: a template makes the request, and JSON pointers read the reply.

Requests go to an address from the arms file, and to no other.
"""

import os
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

import httpx2
from pydantic import AfterValidator, Field, model_validator

from wye.backends.errors import FilterError
from wye.service.arms.kind import (
    MISSING,
    ArmError,
    Encode,
    Garbled,
    HitConfig,
    Kind,
    RemoteHit,
    fill,
    names_in,
    parse_json,
)
from wye.service.errors import ServiceError

LONGEST_REPLY = 8 << 20
"""Most bytes of a reply; no list of passages is longer."""
_BUSY = (429, 503)
_DENIED = (401, 403)
_ARM_FAULTS = (*_DENIED, 404, 405, 408)


def _an_address(url: str) -> str:
    pieces = urlsplit(url)
    if pieces.scheme not in ("http", "https") or not pieces.hostname:
        raise ValueError("begin it with http:// or https:// and a host")
    if pieces.username is not None or pieces.password is not None:
        raise ValueError("put no credentials into it; name their variable with key_env")
    if pieces.fragment:
        raise ValueError("remove # and what follows")
    _ = pieces.port  # raises a ValueError if it is not a number
    return url.rstrip("/")


Address = Annotated[str, AfterValidator(_an_address)]
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9-]*$")]


def secret_of(variable: str) -> str:
    """The value of the environment variable that `key_env` names; "" if it names none.

    Raises:
        ServiceError: It is not set, or cannot be sent in a header.
    """
    if not variable:
        return ""
    value = os.environ.get(variable, "")
    if not value:
        raise ServiceError(f"key_env names the variable {variable}, which is not set")
    if not value.isascii() or not value.isprintable():
        raise ServiceError(
            f"key_env names the variable {variable}, which contains what a header cannot have"
        )
    return value


def _refuse(reply: httpx2.Response) -> None:
    """Raise an error for a status that is no success."""
    status = reply.status_code
    if 200 <= status < 300:
        return
    if 300 <= status < 400:
        raise ArmError(f"redirects ({status}), which is not followed", charged=False)
    if status in _BUSY:
        retry_after = reply.headers.get("retry-after", "")
        wait = float(retry_after) if retry_after.isdecimal() else None
        raise ArmError(
            f"is busy ({status})", outcome="refused", retry=True, charged=False, wait=wait
        )
    if status in _DENIED:
        raise ArmError(f"rejects our key ({status})", outcome="refused", charged=False)
    if status < 500:
        fault = status in _ARM_FAULTS
        raise ArmError(
            f"rejects the request ({status})", outcome="refused", charged=False, fault=fault
        )
    raise ArmError(f"answered {status}")


async def _body(reply: httpx2.Response) -> bytes:
    """Read the body."""
    pieces, length = [], 0
    async for piece in reply.aiter_bytes():
        length += len(piece)
        if length > LONGEST_REPLY:
            raise Garbled(f"it is longer than {LONGEST_REPLY >> 20} MiB")
        pieces.append(piece)
    return b"".join(pieces)


QUESTION, VECTOR, K, FILTER = "{question}", "{vector}", "{k}", "{filter}"


class HttpConfig(HitConfig):
    """A search over HTTP.

    Attributes:
        url: Its address; redirects are not followed.
        key_env: Name of the environment variable that holds its API key.
        key_header: Header that carries the key; in Authorization, "Bearer" precedes it.
        method: "POST" sends the template as JSON, "GET" as parameters.
        request: Template, with "{question}", "{vector}" (the question's, by the collection's
            encoder), "{k}" and "{filter}" as placeholders.
    """

    url: Address
    key_env: str = ""
    key_header: HeaderName = "Authorization"
    method: Literal["POST", "GET"] = "POST"
    request: dict[str, Any]

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        names = names_in(self.request)
        if names.isdisjoint((QUESTION, VECTOR)):
            raise ValueError('request: put "{question}" or "{vector}" where the question goes')
        if self.method == "GET" and not all(
            isinstance(value, str | int | float) for value in self.request.values()
        ):
            raise ValueError("request: parameters are single values; use method = POST for more")
        if self.method == "GET" and not names.isdisjoint((FILTER, VECTOR)):
            raise ValueError(
                'request: "{filter}" and "{vector}" are no single values; use method = POST'
            )
        if FILTER in names and not self.metadata:
            raise ValueError(
                'metadata: say where it is, since request has "{filter}" and what comes back is '
                "held against it"
            )
        return self


class HttpKind(Kind[HttpConfig]):
    """Fills in the template, and reads the reply by pointers."""

    Config = HttpConfig

    def __init__(self, config: HttpConfig) -> None:
        super().__init__(config)
        headers = {"accept": "application/json"}
        if secret := secret_of(config.key_env):
            is_bearer = config.key_header.lower() == "authorization"
            headers[config.key_header] = f"Bearer {secret}" if is_bearer else secret
        self._client = httpx2.AsyncClient(
            headers=headers,
            timeout=config.timeout_ms / 1000,
            limits=httpx2.Limits(
                max_connections=config.max_concurrency,
                max_keepalive_connections=config.max_concurrency,
            ),
            follow_redirects=False,
            trust_env=False,
        )
        self._names = names_in(config.request)
        self._encode: Encode | None = None

    def check_filter(self, filter_: object) -> None:
        """Take any filter, if the template has `{filter}`."""
        del filter_
        if FILTER not in self._names:
            raise FilterError('its request has no place for a filter ("{filter}")')

    def use(self, encode: Encode) -> None:
        """Set the collection's encoder."""
        self._encode = encode

    async def search(self, question: str, k: int, filter_: object | None) -> Sequence[RemoteHit]:
        """Find at most k hits, in the reply's order."""
        values: dict[str, object] = {QUESTION: question, K: k}
        values[FILTER] = MISSING if filter_ is None else filter_
        if VECTOR in self._names:
            if self._encode is None:
                raise ArmError("has no encoder", charged=False)
            values[VECTOR] = [float(number) for number in await self._encode(question)]
        return self.config.read(await self._reply(fill(self.config.request, values)), k)

    async def _reply(self, request: Any) -> object:  # noqa: ANN401 - JSON
        """Send a request and return the reply, parsed as JSON.

        Raises:
            ArmError: It failed; the message does not repeat what the arm sent.
        """
        method = self.config.method
        content: dict[str, Any] = {"params" if method == "GET" else "json": request}
        try:
            async with self._client.stream(method, self.config.url, **content) as reply:
                _refuse(reply)
                return parse_json(await _body(reply))
        except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout):
            raise ArmError(
                "cannot be reached", outcome="unreachable", retry=True, charged=False
            ) from None
        except httpx2.TimeoutException:
            raise ArmError("gave no answer in time", outcome="timeout") from None
        except httpx2.RemoteProtocolError:
            # A pooled connection that the arm had closed ends like this; repeating is harmless.
            raise ArmError("broke off", outcome="broken", retry=True) from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise ArmError(f"failed ({type(error).__name__})", outcome="broken") from None

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()
