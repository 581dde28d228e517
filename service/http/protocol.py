"""HTTP connections whose heads are bounded in size, time and number; the rest is a proxy's task."""

import asyncio
from collections import Counter
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_INTERIM = b"HTTP/1.1 102 Processing\r\n\r\n"
_PROBE_SECONDS = 0.25


class BoundedHttp(HttpToolsProtocol):
    """A connection that ends when a head, or what frames the pieces of a body, is too long.

    Connections that are idle between two requests are closed by uvicorn.
    """

    head_bytes: ClassVar = 65_536  # most of a head or of framing, beyond what one read brings
    head_seconds: ClassVar = 10.0  # for a head to arrive, from the connection or its first byte
    heads: ClassVar = 450  # most connections from one address that may wait for one
    _waiting: ClassVar = Counter[str]()  # connections that wait for a head, by address

    _address = ""
    _timer: asyncio.TimerHandle | None = None  # of a head
    _probe_timer: asyncio.TimerHandle | None = None
    _length = 0  # of the bytes since the last head, piece of a body or end of one

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start waiting for a head."""
        super().connection_made(transport)
        self._address = self.client[0] if self.client else ""
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._start_anew()
        if self._probe_timer is not None:
            self._probe_timer.cancel()
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Keep the connection for the reply if a client ends its side after a whole request."""
        if self.cycle is None or self.cycle.more_body or self.cycle.response_complete:
            return False
        self.cycle.keep_alive = False
        self._probe()
        return True

    def _probe(self) -> None:
        """Write interim replies until the reply begins: they fail if the client is gone."""
        if not (self.cycle.response_started or self.pipeline or self.transport.is_closing()):
            if self.cycle.scope["http_version"] == "1.1":
                self.transport.write(_INTERIM)
            self._probe_timer = self.loop.call_later(_PROBE_SECONDS, self._probe)

    def data_received(self, data: bytes) -> None:
        """Parse the bytes; refuse if too many are neither a whole head nor a body."""
        self._length += len(data)
        super().data_received(data)
        if self._length > self.head_bytes:
            self._refuse()
        elif self._length and self._timer is None and not (self.cycle and self.cycle.more_body):
            self._await_head()

    def on_headers_complete(self) -> None:
        """A head is whole."""
        self._start_anew()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of a body has come."""
        self._start_anew()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request is whole."""
        self._start_anew()
        super().on_message_complete()

    def _await_head(self) -> None:
        self._timer = self.loop.call_later(self.head_seconds, self._refuse)
        self._waiting[self._address] += 1
        if self._waiting[self._address] > self.heads:
            self._refuse()

    def _start_anew(self) -> None:
        self._length = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._waiting[self._address] -= 1
            if not self._waiting[self._address]:
                del self._waiting[self._address]

    def _refuse(self) -> None:
        """Close the connection, with a reply if a head has begun and no other is being answered."""
        is_head = self._length and not (self.cycle and not self.cycle.response_complete)
        if is_head and not self.transport.is_closing():
            self.send_400_response("The head of the request is too long or takes too long.")
        self.transport.close()
