"""Attacks on connections, keys and logs."""

import signal
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx2 as httpx

from benchmarks.attacks.target import QUICK, START, AttackOutcome, Target, longest, wait_until

_START = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


def endless_header(target: Target) -> AttackOutcome:
    """A request's head is cut off at about 64 kB, in one header or many; nobody waits for it."""
    server, sent = target.ready(), 0
    before = server.memory_mb()
    pieces = (b"X-A: " + b"a" * 65_536, b"X-B: b\r\n" * 8_192)
    with target.probing() as seen:
        most = []
        for piece in pieces:
            sent = 0
            with suppress(OSError), server.connect() as connection:
                connection.sendall(_START)
                while sent < 16 << 20:
                    connection.sendall(piece)
                    sent += len(piece)
            most.append(sent / 2**20)
    wait, _ = longest(seen)
    grown = server.memory_mb() - before
    said = f"took {most[0]:.1f} and {most[1]:.1f} MB, grew by {grown:.0f} MB, wait {wait:.1f} s"
    # The operating system's buffers count as sent too.
    return AttackOutcome(max(most) < 8, said)


def slow_header(target: Target) -> AttackOutcome:
    """A connection that does not finish its head is closed within 15 s."""
    started = time.monotonic()
    with target.ready().connect(20) as connection:
        connection.sendall(_START[:20])
        try:
            connection.recv(4_096)
            closed = True
        except TimeoutError:
            closed = False
    taken = time.monotonic() - started
    return AttackOutcome(
        closed and taken < 15, f"{'closed' if closed else 'open'} after {taken:.0f} s"
    )


def sigterm_two_workers(target: Target) -> AttackOutcome:
    """SIGTERM under load resets no open connection."""
    with target.serve(SERVE__WORKERS="2") as server:
        server.wait()
        time.sleep(3)
        statuses: dict[str, int] = {}
        done = threading.Event()

        def ask() -> None:
            while not done.is_set():
                try:
                    reply = httpx.post(f"{server.url}/v1/retrieve", json=QUICK, timeout=20)
                    kind = str(reply.status_code)
                except httpx.ConnectError:
                    kind = "refused"
                    done.wait(0.05)
                except httpx.HTTPError as error:
                    kind = type(error).__name__
                statuses[kind] = statuses.get(kind, 0) + 1

        threads = [threading.Thread(target=ask) for _ in range(16)]
        for thread in threads:
            thread.start()
        time.sleep(2)
        server.process.send_signal(signal.SIGTERM)
        with suppress(Exception):
            server.process.wait(30)
        done.set()
        for thread in threads:
            thread.join()
    broken = {kind: n for kind, n in statuses.items() if kind not in ("200", "503", "refused")}
    return AttackOutcome(not broken and statuses.get("200", 0) > 0, f"{statuses}")


def withdrawn_key(target: Target) -> AttackOutcome:
    """A key that is removed from the file stops working, even if another line is garbage."""
    target.ready()  # has read the file
    whole = target.keys_file.read_text(encoding="utf-8")
    before, _ = target.send("POST", "/v1/retrieve", key="boss", json=QUICK)
    kept = [line for line in whole.splitlines() if not line.startswith("boss")]
    replaced = target.folder / "keys-with-garbage"
    replaced.write_text("\n".join([*kept, "garbage"]) + "\n", encoding="utf-8")
    replaced.replace(target.keys_file)
    started, status = time.monotonic(), before
    while status == 200 and time.monotonic() - started < 6:
        time.sleep(0.2)
        status, _ = target.send("POST", "/v1/retrieve", key="boss", json=QUICK)
    taken = time.monotonic() - started
    target.keys_file.write_text(whole, encoding="utf-8")
    time.sleep(0.5)
    return AttackOutcome(
        (before, status) == (200, 401), f"{before}, then {status} after {taken:.1f} s"
    )


def writable_keys_file(target: Target) -> AttackOutcome:
    """A key is not written to a file that others can write to, without a warning or a fix."""
    path = target.folder / "open-keys"
    path.touch()
    path.chmod(0o666)
    done = target.run("keys", "new", "--name", "x", "--file", str(path))
    mode = path.stat().st_mode & 0o777
    told = "666" in done.stderr or "chmod" in done.stderr
    return AttackOutcome(
        bool(done.returncode) or not mode & 0o022 or told,
        f"exit code {done.returncode}, mode {mode:o}",
    )


def paths_without_key(target: Target) -> AttackOutcome:
    """While the index is missing, clients without a key learn no path, and /ready says so."""
    server = target.ready()
    away = server.index.with_name("away")
    server.index.rename(away)
    try:
        time.sleep(1.5)
        paths = ("/ready", "/health")
        replies = [target.send("GET", path, key=None, server=server) for path in paths]
        body = {**QUICK, "route": "dense"}
        dense, _ = target.send("POST", "/v1/retrieve", server=server, json=body)
    finally:
        away.rename(server.index)
    time.sleep(1.5)
    told = [
        word
        for word in (server.index.name, ".lance", "/lance")
        for _, text in replies
        if word in text
    ]
    # Questions may still be answered from memory.
    held = not told and (dense == 200 or (dense, replies[0][0]) == (503, 503))
    said = f"/ready {replies[0][0]}, dense {dense}, told {', '.join({*told}) or 'no path'}"
    return AttackOutcome(held, said)


def cors_star(target: Target) -> AttackOutcome:
    """Without keys, the server refuses to start with CORS for any origin."""
    with target.serve(SERVE__CORS_ORIGINS="*") as server:
        with suppress(Exception):
            server.wait(60)
        code = server.process.poll()
        if code is not None:
            return AttackOutcome(code == 2, f"exit code {code}")
        reply = httpx.delete(
            f"{server.url}/v1/documents/town-00", headers={"origin": "https://evil.example"}
        )
        allowed = reply.headers.get("access-control-allow-origin")
    return AttackOutcome(
        False, f"it serves; DELETE from evil.example {reply.status_code}, allows {allowed}"
    )


def forged_log_line(target: Target) -> AttackOutcome:
    """No address can forge or colour a line of the log."""
    server = target.ready()
    with server.connect() as connection:
        head = "GET /v1/x%0A2026-01-01T00:00:00Z%20info%20forged%1B[31m HTTP/1.1\r\nHost: localhost"
        connection.sendall(f"{head}\r\nConnection: close\r\n\r\n".encode())
        with suppress(OSError):
            connection.recv(4_096)
    time.sleep(1)
    mine = [line for line in server.lines if "forged" in line]
    forged = [line for line in mine if line.startswith("2026-01-01") or "\x1b" in line]
    return AttackOutcome(not forged, f"{len(forged)} of {len(mine)} lines with it are forged")


def reader_hogs(target: Target) -> AttackOutcome:
    """12 clients of one key with questions of 4,096 quotes delay no other key by 2 s."""
    body = {"question": '"' * 4_096, "route": "dense", "k": 3, "deadline_ms": 60_000}
    done = threading.Event()

    def hog() -> None:
        while not done.is_set():
            target.send("POST", "/v1/retrieve", key="hog", json=body, timeout=70)

    target.ready()  # ready
    threads = [threading.Thread(target=hog) for _ in range(12)]
    with target.probing({**QUICK, "route": "dense"}) as seen:
        for thread in threads:
            thread.start()
        time.sleep(8)
        done.set()
    for thread in threads:
        thread.join()
    wait, statuses = longest(seen)
    return AttackOutcome(
        wait < 2 and {*statuses} == {200}, f"longest wait {wait:.1f} s, {statuses}"
    )


def k_as_string(target: Target) -> AttackOutcome:
    """`"5"` and `true` are refused as numbers."""
    found = [target.send("POST", "/v1/retrieve", json={**QUICK, "k": k})[0] for k in ("5", True)]
    return AttackOutcome(found == [422, 422], f"{found}")


def too_many_connections(target: Target) -> AttackOutcome:
    """Idle connections do not use up the file descriptors that changes of documents need."""
    with target.serve(files=200) as server, ExitStack() as stack:
        server.wait()
        client = stack.enter_context(httpx.Client(base_url=server.url, timeout=30))
        client.get("/health")
        for _ in range(300):
            with suppress(OSError):
                stack.enter_context(server.connect())
        time.sleep(2)
        try:
            status = client.put("/v1/documents/x", json={"text": "A bridge."}).status_code
        except httpx.HTTPError:
            status = 0
        faults = sum("Too many open files" in line for line in server.lines)
    return AttackOutcome(status == 201 and not faults, f"PUT {status}, {faults} errors in the log")


def metrics_folder(target: Target) -> AttackOutcome:
    """The next server removes what a killed one of two workers left in the temporary folder."""
    before = {*target.temporary.iterdir()}

    def left() -> set[Path]:
        return {path for path in target.temporary.glob("wye-metrics-*") if path not in before}

    with target.serve(SERVE__WORKERS="2") as server:
        wait_until(left, START)
        server.kill()
    old = left()
    with target.serve(SERVE__WORKERS="2"):
        wait_until(lambda: left() - old, START)
        still = old & left()
    return AttackOutcome(
        bool(old) and not still, f"{len(old)} left, {len(still)} after the next start"
    )


def filtered_key(target: Target) -> AttackOutcome:
    """A key that is bound to a filter learns nothing of what the filter excludes."""
    target.ready()
    words = ["keys", "new", "--name", f"guest{len(target.keys)}", "--filter", "acl=public"]
    made = target.run(*words, "--file", str(target.keys_file))
    if made.returncode:
        return AttackOutcome(False, f"no key is bound: exit code {made.returncode}")
    target.keys["guest"] = next(word for word in made.stdout.split() if word.startswith("wye_"))
    target.put("hidden", "A wombatine of Quzzleworth.", metadata={"acl": "hidden"})
    ask = {"question": "wombatine of Quzzleworth", "route": "lexical", "k": 50, "explain": True}
    wait_until(lambda: target.send("POST", "/v1/retrieve", key="guest", json=ask)[0] == 200, 6)
    asked: dict[str, tuple[int, str]] = {
        "retrieve": target.send("POST", "/v1/retrieve", key="guest", json=ask),
        "GET": target.send("GET", "/v1/documents/hidden", key="guest"),
        "list": target.send("GET", "/v1/documents", key="guest"),
        "DELETE": target.send("DELETE", "/v1/documents/hidden", key="guest"),
    }
    told = [name for name, (_, text) in asked.items() if "Quzzleworth." in text]
    listed = '"hidden"' in asked["list"][1] or asked["GET"][0] == 200
    target.send("DELETE", "/v1/documents/hidden")
    held = asked["retrieve"][0] == 200 and not told and not listed and asked["DELETE"][0] >= 400
    seen = ", ".join(f"{name} {status}" for name, (status, _) in asked.items())
    return AttackOutcome(held, f"{seen}; told by {', '.join(told) or 'none'}")


ATTACKS = (
    endless_header,
    slow_header,
    too_many_connections,
    sigterm_two_workers,
    withdrawn_key,
    writable_keys_file,
    paths_without_key,
    cors_star,
    forged_log_line,
    reader_hogs,
    k_as_string,
    metrics_folder,
    filtered_key,
)
