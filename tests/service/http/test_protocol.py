"""What a socket sends within bounds is answered, and what is beyond them ends, at little cost."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Self

import pytest
import uvicorn
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.types import Receive, Scope, Send

from tests.live import until
from wye.service.http.protocol import BoundedHttp

ASK = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
LAST_ASK = ASK + b"connection: close\r\ncontent-length: 0\r\n\r\n"


async def echo(_: Scope, receive: Receive, send: Send) -> None:
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message["body"]), message["more_body"]
    length = b"%d" % size
    head = [(b"content-length", b"%d" % len(length))]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": length})


class Hasty(BoundedHttp):
    head_seconds = 0.3


class Server(uvicorn.Server):
    @property
    def port(self) -> int:
        return int(self.servers[0].sockets[0].getsockname()[1])

    @contextmanager
    def running(self) -> Iterator[Self]:
        thread = threading.Thread(target=self.run)
        thread.start()
        until(lambda: self.started)
        yield self
        self.should_exit = True
        thread.join()

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), 10)

    def reply(self, sent: bytes) -> bytes:
        """All that comes back until the connection ends, whether or not everything was taken."""
        with self.connect() as client:
            try:
                client.sendall(sent)
                return everything(client)
            except ConnectionError:
                return b""


def everything(client: socket.socket) -> bytes:
    received = b""
    try:
        while block := client.recv(65_536):
            received += block
    except ConnectionError:
        pass
    return received


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    config = uvicorn.Config(
        echo, port=0, http=Hasty, lifespan="off", log_level="critical", timeout_keep_alive=1
    )
    with Server(config).running() as running:
        yield running


def test_what_is_within_bounds_is_answered(server: Server) -> None:
    lines = b"".join(b"x-%d: y\r\n" % n for n in range(90))
    sent = ASK + lines + b"x-long: " + b"a" * 60_000 + b"\r\ncontent-length: 5\r\n\r\nhello"
    for part in (1, 1_000, len(sent)):
        with server.connect() as client:
            for start in range(0, len(sent), part * 1_000 if part == 1 else part):
                client.sendall(sent[start : start + (part * 1_000 if part == 1 else part)])
            assert client.recv(1_000).endswith(b"\r\n\r\n5")
            # And the next on the same connection has bounds of its own.
            client.sendall(sent)
            assert client.recv(1_000).endswith(b"\r\n\r\n5")


@pytest.mark.parametrize(
    "head",
    [
        ASK + b"x-a: " + b"a" * 300_000,
        ASK + b"a" * 300_000,
        b"GET /" + b"a" * 300_000,
        ASK + b"x: y\r\n" * 300_000,
        b"\r\n" * 150_000,
    ],
    ids=["value", "name", "url", "lines", "blank lines"],
)
def test_a_head_that_is_too_long_is_refused(server: Server, head: bytes) -> None:
    with server.connect() as client:
        try:
            client.sendall(head)
        except ConnectionError:
            return  # cut while more came
        assert everything(client)[:13] in (b"HTTP/1.1 400 ", b"")


@pytest.mark.parametrize(
    "framing",
    [
        b"0\r\nx-a: " + b"a" * 300_000,
        b"0\r\n" + b"x: y\r\n" * 300_000,
        b"2;" + b"a" * 300_000,
        b"0" * 300_000,
    ],
    ids=["trailer", "trailers", "extension", "size"],
)
def test_what_frames_a_body_is_bounded_too(server: Server, framing: bytes) -> None:
    sent = ASK + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n" + framing
    before = time.monotonic()
    assert b"200 OK" not in server.reply(sent)
    assert time.monotonic() - before < 5


@pytest.mark.parametrize(
    ("start", "step"),
    [(b"G", b""), (ASK + b"x-a: ", b"a"), (b"\r\n", b"\r\n"), (b"GET /", b"a")],
    ids=["stalls", "dribbles", "blank lines", "url"],
)
def test_a_head_that_does_not_arrive_ends(server: Server, start: bytes, step: bytes) -> None:
    with ExitStack() as stack:
        clients = [stack.enter_context(server.connect()) for _ in range(10)]
        for client in clients:
            client.sendall(start)
        before = time.monotonic()
        for client in clients:
            client.settimeout(0.05)
            assert ended(client, step).startswith(b"HTTP/1.1 400 ")
        assert time.monotonic() - before < 10


def ended(client: socket.socket, step: bytes) -> bytes:
    """What a client is told, that goes on sending a little."""
    received = b""
    give_up = time.monotonic() + 10
    while time.monotonic() < give_up:
        try:
            block = client.recv(1_000)
            received += block
            if not block:
                return received
        except TimeoutError:
            client.sendall(step)
        except ConnectionError:
            return received
    raise AssertionError(f"still open after {received!r}")


def test_a_connection_that_says_nothing_ends_without_a_word(server: Server) -> None:
    with server.connect() as client:
        assert everything(client) == b""


def test_a_second_head_that_dribbles_ends_too(server: Server) -> None:
    with server.connect() as client:
        client.sendall(ASK + b"content-length: 0\r\n\r\n")
        assert client.recv(1_000).endswith(b"\r\n\r\n0")
        client.settimeout(0.05)
        client.sendall(b"G")
        assert ended(client, b"").startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("framing", [b"content-length: 10", b"transfer-encoding: chunked"])
def test_a_body_may_take_its_time(server: Server, framing: bytes) -> None:
    pieces = [b"a"] if b"length" in framing else [b"1\r\n", b"a", b"\r\n"]
    with server.connect() as client:
        client.sendall(ASK + framing + b"\r\n\r\n")
        for piece in pieces * 10:
            time.sleep(0.4 / len(pieces))
            client.sendall(piece)
        client.sendall(b"" if b"length" in framing else b"0\r\n\r\n")
        assert client.recv(1_000).endswith(b"\r\n\r\n10")


PIECES = st.sampled_from(
    [
        *(b"GET / HTTP/1.1\r\n", b"POST / HTTP/1.1\r\n", b"Host: localhost\r\n"),
        *(b"content-length: 3\r\n", b"content-length: -1\r\n", b"transfer-encoding: chunked\r\n"),
        *(b"connection: close\r\n", b"connection: upgrade\r\nupgrade: websocket\r\n"),
        *(b"expect: 100-continue\r\n", b"\r\n", b"3\r\nabc\r\n", b"0\r\n\r\n", b"abc"),
        *(b"x: " + b"y" * 40_000 + b"\r\n", b"x: y\r\n" * 60),
    ]
)


@settings(max_examples=60, suppress_health_check=list(HealthCheck), database=None)
@given(pieces=st.lists(PIECES | st.binary(max_size=30), max_size=8))
def test_whatever_is_sent_the_connection_ends_and_nothing_is_a_fault(
    server: Server, pieces: list[bytes]
) -> None:
    with server.connect() as client:
        try:
            client.sendall(b"".join(pieces))
            client.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        assert b"HTTP/1.1 500" not in everything(client)
    assert server.reply(LAST_ASK).endswith(b"\r\n\r\n0")


@pytest.mark.parametrize("is_gone", [False, True])
def test_who_ends_its_side_gets_its_reply_and_who_is_gone_is_noticed(is_gone: bool) -> None:
    messages: list[str] = []

    async def slow(_: Scope, receive: Receive, send: Send) -> None:
        await receive()
        with suppress(TimeoutError):
            async with asyncio.timeout(30 if is_gone else 0.6):
                messages.append((await receive())["type"])
        messages.append("end")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"reply"})

    config = uvicorn.Config(slow, port=0, http=Hasty, lifespan="off", log_level="critical")
    with Server(config).running() as server, server.connect() as client:
        client.sendall(ASK + b"content-length: 0\r\n\r\n")
        client.shutdown(socket.SHUT_WR)
        if is_gone:
            client.close()
            until(lambda: messages == ["http.disconnect", "end"])
        else:
            received = everything(client)
            assert b"HTTP/1.1 200 OK" in received
            assert b"reply" in received
            assert messages == ["end"]


def test_one_address_cannot_hold_all_connections() -> None:
    class Few(Hasty):
        heads = 3
        head_seconds = 30.0

    config = uvicorn.Config(echo, port=0, http=Few, lifespan="off", log_level="critical")
    with Server(config).running() as server, ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(server.connect()).sendall(b"GET /")
        until(lambda: Few._waiting["127.0.0.1"] == 3)
        assert server.reply(LAST_ASK) == b""
        stack.close()
        until(lambda: server.reply(LAST_ASK).endswith(b"\r\n\r\n0"))
