"""The outermost layer: ids, keys, limits, headers, the access log, and what nobody foresaw."""

import re
import secrets
from time import perf_counter

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.auth import PROTECTED, identify
from service.keys import KeyRing
from service.limits import BodyLimit, RateLimit
from service.logs import LOG
from service.metrics import Metrics
from service.problems import answer
from service.scope import note, note_key, problem_of

REQUEST_ID = "x-request-id"

_GIVEN_ID = re.compile(r"[\w.-]{1,64}", re.ASCII)
_SAFETY = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
}
# Asked every few seconds by machines; not worth a line each.
_QUIET = ("/health", "/ready", "/metrics", "/v1/stats")


class Edge:
    """ASGI middleware around everything else."""

    def __init__(
        self, app: ASGIApp, *, ring: KeyRing, rate: RateLimit, bodies: BodyLimit, metrics: Metrics
    ) -> None:
        """Wrap an app.

        Args:
            app: What handles requests.
            ring: The keys that open it.
            rate: How often a key may ask.
            bodies: How much it may send.
            metrics: That count requests.
        """
        self._app = app
        self._ring = ring
        self._rate = rate
        self._bodies = bodies
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        visit = _Visit(scope, send, self._metrics)
        try:
            await self._handle(scope, receive, visit)
        except Exception as error:  # noqa: BLE001 - the HTTP edge
            await visit.fail(error, receive)
        finally:
            visit.end()

    async def _handle(self, scope: Scope, receive: Receive, visit: "_Visit") -> None:
        path, headers = scope["path"], visit.headers
        key = identify(self._ring, headers, path)
        note_key(scope, key)
        visit.key = key.name
        if path.startswith(PROTECTED):
            self._rate.take(key.name)
        self._bodies.check(path, headers.get("content-length"))
        await self._app(scope, self._bodies.counting(path, receive), visit.send)


class _Visit:
    """One request and what became of it."""

    def __init__(self, scope: Scope, send: Send, metrics: Metrics) -> None:
        self.headers = Headers(scope=scope)
        self.key = ""
        given = self.headers.get(REQUEST_ID, "")
        self.request_id = given if _GIVEN_ID.fullmatch(given) else secrets.token_hex(12)
        note(scope, self.request_id)
        self._scope = scope
        self._send = send
        self._metrics = metrics
        self._started = perf_counter()
        self._status = 0
        self._seconds = 0.0

    async def send(self, message: Message) -> None:
        """Pass on a piece of the reply, the first with our headers."""
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._seconds = perf_counter() - self._started
            headers = MutableHeaders(scope=message)
            headers[REQUEST_ID] = self.request_id
            for name, value in _SAFETY.items():
                headers.setdefault(name, value)
            if self._scope["path"].startswith("/v1/"):
                headers.setdefault("cache-control", "no-store")
        await self._send(message)

    async def fail(self, error: Exception, receive: Receive) -> None:
        """Answer with a problem, or, once a reply has begun, end it there and log why."""
        if self._status:
            LOG.error("reply broke off", exc_info=error, extra={"request_id": self.request_id})
            raise error
        await answer(error, self._scope)(self._scope, receive, self.send)

    def end(self) -> None:
        """Count it, and write its line of the access log."""
        route = getattr(self._scope.get("route"), "path", "(none)")
        self._metrics.requests.labels(route, str(self._status)).inc()
        self._metrics.request_seconds.labels(route).observe(self._seconds)
        problem = problem_of(self._scope)
        if problem:
            self._metrics.refused.labels(problem).inc()
        if self._scope["path"] in _QUIET:
            return
        LOG.info(
            "request",
            extra={
                "request_id": self.request_id,
                "method": self._scope["method"],
                "path": self._scope["path"],
                "status": self._status,
                "ms": round(1000 * self._seconds, 1),
                "key": self.key,
                **({"problem": problem} if problem else {}),
            },
        )
