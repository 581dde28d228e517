"""HTTP connections with limits that uvicorn lacks: on heads, waiting times and connections.

Whatever exceeds them is refused before any key is checked, so that it costs the server little.
"""

import asyncio
import resource
import select
import socket
from time import monotonic
from typing import ClassVar, cast

import uvicorn
from httptools import HttpParserError
from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.supervisors.multiprocess import Multiprocess, Process

MOST_CONNECTIONS = 1_000
# File descriptors for an index, its jobs and the reading of files, besides connections.
_RESERVED = 96
# This many connections beyond the limit get a reply with the reason before they are closed.
_TOLD = 32

# Seconds: the most for accepting pending connections at shutdown, and to set up the last of them.
_ACCEPTING = 1.0
_MEETING = 0.01

_SAYS = {
    408: "The request did not come in time; send it faster.",
    431: "The head of the request is too long; send fewer or shorter headers.",
    503: "Too many connections; try again.",
}


def most_connections() -> int:
    """Most connections that may be open without taking the last file descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(1, min(MOST_CONNECTIONS, soft - _RESERVED))


class DrainingServer(uvicorn.Server):
    """Accepts pending connections before it stops listening; the system would reset them."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop the server, but answer all requests that have arrived."""
        waiting = select.poll()
        for listening in (listening for server in self.servers for listening in server.sockets):
            waiting.register(listening, select.POLLIN)
        until = monotonic() + _ACCEPTING
        while waiting.poll(0) and monotonic() < until:
            await asyncio.sleep(0)
        for server in self.servers:
            server.close()
        await asyncio.sleep(_MEETING)
        await super().shutdown(sockets)


class Worker(Process):
    """One of several server processes."""

    @property
    def server(self) -> uvicorn.Server:
        """The server that the process runs."""
        if self._server is None:
            self._server = DrainingServer(self.config)
        return self._server


class Workers(Multiprocess):
    """The supervisor that starts and ends the server processes."""

    def terminate_all(self) -> None:
        """Tell the processes to end."""
        # A socket held open here would accept connections that no worker answers any more.
        for listening in self.sockets:
            listening.close()
        super().terminate_all()


class BoundedHttp(HttpToolsProtocol):
    """A connection with limits on the size of heads, and on how slowly heads and bodies arrive.

    Connections that are idle between two requests are closed by uvicorn.

    Attributes:
        head_bytes: Most bytes of a request's head, or of the framing between two pieces of a body.
        head_lines: Most headers of a request, or of its trailer.
        head_seconds: Time for a head to arrive, from the connection or from its first byte.
        body_seconds: Time in which `body_bytes` of a body, or its end, must arrive.
        last_seconds: Time for a head to arrive once the server stops.
        most: Most connections that may be open; None for `most_connections()`.
    """

    head_bytes: ClassVar = 65_536
    head_lines: ClassVar = 100
    head_seconds: ClassVar = 10.0
    body_seconds: ClassVar = 10.0
    body_bytes: ClassVar = 4_096
    last_seconds: ClassVar = 0.5
    most: ClassVar[int | None] = None

    _timer: asyncio.TimerHandle | None = None
    _is_refused = False
    _is_stopping = False
    # Whether a body is arriving, its bytes since the timer was set, others since its last piece.
    _in_body = False
    _body = 0
    _frame = 0
    # Headers and bytes of the head parsed so far.
    _lines = 0
    _length = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start waiting for a head, or refuse if there are too many connections."""
        super().connection_made(transport)
        most = most_connections() if self.most is None else self.most
        if len(self.connections) > most + _TOLD:
            transport.abort()
        elif len(self.connections) > most:
            # The reply is sent once the request arrives: closing before that would lose it.
            self._is_refused = True
            self._timer = self.loop.call_later(1.0, transport.abort)
        else:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse the bytes; refuse if there are too many outside of a body."""
        if self._is_refused:
            self._refuse(503)
            return
        self._frame += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            self._stop_waiting()
        elif self._frame > self.head_bytes:
            self._refuse(431)
        elif self._timer is None and not self._in_body and self._frame:
            self._wait_for_head()

    def on_url(self, url: bytes) -> None:
        """Add a piece of the URL, within the limits of a head."""
        self._length += len(url)
        self._check_head()
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header, within the limits of a head."""
        self._length += len(name) + len(value) + 4
        self._lines += 1
        self._check_head()
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Start waiting for the body."""
        self._stop_waiting()
        self._in_body = True
        self._body = self._frame = self._lines = self._length = 0
        super().on_headers_complete()
        self.cycle.keep_alive &= not self._is_stopping
        self._timer = self.loop.call_later(self.body_seconds, self._look_at_body)

    def on_body(self, body: bytes) -> None:
        """Add a piece of the body."""
        self._frame = 0
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Stop the timer until the reply is sent or another head begins."""
        self._stop_waiting()
        self._in_body = False
        self._frame = self._lines = self._length = 0
        super().on_message_complete()

    def shutdown(self) -> None:
        """Answer requests that have begun or arrive at once, and close the connection afterwards.

        A client that has just sent a request cannot know of the shutdown, and closing before the
        request is read would reset the connection.
        """
        if self._is_refused:
            return
        self._is_stopping = True
        if self.cycle is not None and not self.cycle.response_complete:
            super().shutdown()
            return
        self._stop_waiting()
        self._timer = self.loop.call_later(self.last_seconds, self._end_waiting)

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP; a head that exceeds a limit has its reply already."""
        if not self._is_refused:
            super().send_400_response(msg)

    def _check_head(self) -> None:
        if self._length > self.head_bytes or self._lines > self.head_lines:
            self._refuse(431)
            raise HttpParserError  # ends the parsing

    def _wait_for_head(self) -> None:
        self._timer = self.loop.call_later(self.head_seconds, self._end_waiting)

    def _end_waiting(self) -> None:
        if self._frame:
            self._refuse(408)
        else:  # a browser that connected early, and would take a reply for that to its next request
            self.transport.close()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_at_body(self) -> None:
        """Refuse a body that is too slow, unless we paused reading, or one no longer needed."""
        is_slow = self._body < self.body_bytes and not self.flow.read_paused
        if is_slow or self.cycle.response_complete:
            self._refuse(408)
            return
        self._body = 0
        self._timer = self.loop.call_later(self.body_seconds, self._look_at_body)

    def _refuse(self, status: int) -> None:
        """Close the connection, with a reply unless one has begun."""
        self._stop_waiting()
        self._is_refused = True
        if self.transport.is_closing():
            return
        if not self._is_replying():
            said = _SAYS[status].encode()
            self.transport.write(
                STATUS_LINE[status]
                + b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
                + (b"retry-after: 1\r\n" if status == 503 else b"")
                + b"content-length: %d\r\n\r\n" % len(said)
                + said
            )
        self.transport.close()

    def _is_replying(self) -> bool:
        """Whether a reply has begun to the request being received, or is due to a whole one."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is None:
            return False
        if self._in_body:
            return cycle.response_started or bool(self.pipeline)
        return not cycle.response_complete
