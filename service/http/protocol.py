"""HTTP on a socket, within bounds: uvicorn has none on heads, on patience, or on connections.

What is beyond them is refused before any key is asked for, so each costs the server little.
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
# Descriptors that an index, its jobs and reading files need beside connections.
_RESERVED = 96
# Connections beyond the most that are still told why before they are closed.
_TOLD = 32

# To accept what has connected to a server that stops, at most, and to have met the last of it.
_ACCEPTING = 1.0
_MEETING = 0.01

_SAYS = {
    408: "The request did not come in time; send it faster.",
    431: "The head of the request is too long; send fewer or shorter headers.",
    503: "Too many connections; try again.",
}


def most_connections() -> int:
    """How many connections may be open, so that none ever takes the last descriptor."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return MOST_CONNECTIONS
    return max(1, min(MOST_CONNECTIONS, soft - _RESERVED))


class DrainingServer(uvicorn.Server):
    """Accepts what has connected before it stops to listen: the system would reset that."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop, but answer what has arrived."""
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
    """One of several processes that answer."""

    @property
    def server(self) -> uvicorn.Server:
        """What it runs."""
        if self._server is None:
            self._server = DrainingServer(self.config)
        return self._server


class Workers(Multiprocess):
    """What starts the processes, and ends them."""

    def terminate_all(self) -> None:
        """Tell them to end."""
        # Held open here, it would take connections that no worker answers any more.
        for listening in self.sockets:
            listening.close()
        super().terminate_all()


class BoundedHttp(HttpToolsProtocol):
    """A connection whose client sends heads that end, in time, and bodies at some speed.

    Idle connections between two requests are uvicorn's to close.

    Attributes:
        head_bytes: Of a request's head; of what frames a body between two pieces of it, as well.
        head_lines: Headers of a request, or of its trailer.
        head_seconds: For a head to arrive, from the connection or from its first byte.
        body_seconds: In which `body_bytes` of a body have to arrive, or its end.
        last_seconds: For a head to arrive once the server stops.
        most: Connections that may be open; None asks `most_connections`.
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
    # Within a body; what came of it since the timer was set, and other bytes since the last of it.
    _in_body = False
    _body = 0
    _frame = 0
    # Of the head, as parsed.
    _lines = 0
    _length = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head, or say that there are too many."""
        super().connection_made(transport)
        most = most_connections() if self.most is None else self.most
        if len(self.connections) > most + _TOLD:
            transport.abort()
        elif len(self.connections) > most:
            # Told once the request is here: closing before that would take the reply back.
            self._is_refused = True
            self._timer = self.loop.call_later(1.0, transport.abort)
        else:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what came, unless it is too much."""
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
        """Take a piece of the address, within the bounds of a head."""
        self._length += len(url)
        self._check_head()
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, within the bounds of a head."""
        self._length += len(name) + len(value) + 4
        self._lines += 1
        self._check_head()
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Begin to wait for a body."""
        self._stop_waiting()
        self._in_body = True
        self._body = self._frame = self._lines = self._length = 0
        super().on_headers_complete()
        self.cycle.keep_alive &= not self._is_stopping
        self._timer = self.loop.call_later(self.body_seconds, self._look_at_body)

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        self._frame = 0
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for nothing until the reply is out, or another head begins."""
        self._stop_waiting()
        self._in_body = False
        self._frame = self._lines = self._length = 0
        super().on_message_complete()

    def shutdown(self) -> None:
        """Answer what is under way or comes at once, and say in the reply that it is the last.

        A client that has sent by now cannot know; closing before it is read would reset it.
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
        """Refuse what is no HTTP, or the head that a bound was found to be broken in."""
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
        else:  # a browser that connected ahead of need, and would take a reply for that to another
            self.transport.close()

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look_at_body(self) -> None:
        """Refuse a body that comes too slowly, unless it is us who do not read, or to no end."""
        is_slow = self._body < self.body_bytes and not self.flow.read_paused
        if is_slow or self.cycle.response_complete:
            self._refuse(408)
            return
        self._body = 0
        self._timer = self.loop.call_later(self.body_seconds, self._look_at_body)

    def _refuse(self, status: int) -> None:
        """End the connection, with a reply where none has begun."""
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
        """Whether a reply is under way, or done, to what the client is sending or has sent."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        if cycle is None:
            return False
        if self._in_body:
            return cycle.response_started or bool(self.pipeline)
        return not cycle.response_complete
