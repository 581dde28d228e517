"""Attacks on files: full disks, damage, clocks."""

import json
import time
from pathlib import Path

from filelock import FileLock

from benchmarks.attacks.target import QUICK, AttackOutcome, Target

_NDJSON = {"content-type": "application/x-ndjson"}


def full_request_log(target: Target) -> AttackOutcome:
    """A request log that cannot be written costs lines of it, never an answer."""
    server, log = target.ready(), target.request_log
    target.send("POST", "/v1/retrieve", key="reader", json=QUICK)
    with server.files_up_to(log.stat().st_size + 20):
        full = [target.send("POST", "/v1/retrieve", key="reader", json=QUICK) for _ in range(3)]
    target.send("POST", "/v1/retrieve", key="reader", json={**QUICK, "question": "After it?"})
    time.sleep(0.5)
    last = log.read_text(encoding="utf-8").splitlines()[-1]
    try:
        whole = "After it?" in json.dumps(json.loads(last))
    except ValueError:
        whole = False
    told = any(log.name in text for _, text in full)
    statuses = [status for status, _ in full]
    said = f"{statuses} while it is full; the next line is {'whole' if whole else 'torn'}"
    return AttackOutcome(statuses == [200] * 3 and whole and not told, said)


def damaged_data_file(target: Target) -> AttackOutcome:
    """Commands say in a sentence that a data file is damaged."""
    index = target.index()
    for path in (index / "passages.lance" / "data").glob("*.lance"):
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2])
    seen, held = [], True
    for words in (("doctor",), ("info",), ("search", "bridge", "--route", "lexical")):
        done = target.run(*words, "--index", str(index))
        said = done.stdout + done.stderr
        told = "damaged" in said or done.returncode == 2
        fault = "Traceback" in said or not told
        held &= not fault
        seen.append(f"{words[0]} {done.returncode}{' without a word of it' if fault else ''}")
    return AttackOutcome(held, ", ".join(seen))


def half_written_job(target: Target) -> AttackOutcome:
    """A job that cannot be read stops no other."""
    server = target.ready()
    job = server.index / "jobs" / "job-00000000000000000001"
    job.mkdir(parents=True)
    (job / "job.json").write_text('{"id":"job-000')
    time.sleep(1)
    seen = {
        "PUT": target.put("beside", "A bridge."),
        "DELETE": target.send("DELETE", "/v1/documents/beside")[0],
        "jobs": target.send("GET", "/v1/jobs")[0],
        "metrics": target.send("GET", "/metrics")[0],
    }
    lines = len([line for line in server.lines if job.name in line])
    time.sleep(2)
    more = len([line for line in server.lines if job.name in line]) - lines
    if job.exists():
        (job / "job.json").unlink()
        job.rmdir()
    held = all(200 <= status < 300 for status in seen.values()) and more <= 1
    said = ", ".join(f"{name} {status}" for name, status in seen.items())
    return AttackOutcome(held, f"{said}; {more} lines in the log in 2 s more")


def full_temporary_disk(target: Target) -> AttackOutcome:
    """Without room for an upload, its sender is told to come back."""
    rows = "".join(f'{{"_id": "t{n}", "text": "{"A bridge. " * 90}"}}\n' for n in range(4_000))
    with target.ready().files_up_to(2 << 20):
        form = target.send("POST", "/v1/documents", files={"file": ("a.txt", rows.encode())})[0]
        content = {"content": rows.encode(), "headers": _NDJSON}
        lines = target.send("POST", "/v1/documents", **content)[0]  # type: ignore[arg-type]
    return AttackOutcome((form, lines) == (503, 503), f"form {form}, lines {lines}")


def clock_stepped_back(target: Target) -> AttackOutcome:
    """Jobs run in the order in which they were accepted, whatever the clock says."""
    server = target.ready()

    def send(name: str, text: str) -> str:
        rows = "".join(
            json.dumps({"_id": f"{name}{n}" if n else "stepped", "text": text}) + "\n"
            for n in range(0 if name == "x" else 1, 40)
        )
        status, said = target.send("POST", "/v1/documents", content=rows, headers=_NDJSON)
        return str(json.loads(said)["id"]) if status == 202 else ""

    try:
        with FileLock(server.index / "writer.lock"):
            first = send("y", "A bridge that is first.")
            older = send("x", "The older text.")
            target.shift_clock(-60)
            newer = send("x", "The newer text.")
        ended = [target.has_ended(job) for job in (first, older, newer) if job]
    finally:
        target.shift_clock(0)
    _, text = target.send("GET", "/v1/documents/stepped")
    wanted = "newer" if newer else "older"
    said = (
        f"jobs {'end' if all(ended) else 'hang'}; last is {'newer' if 'newer' in text else 'older'}"
    )
    return AttackOutcome(
        all(ended) and wanted in text, said + ("" if newer else " (later one refused)")
    )


def newest_manifest_gone(target: Target) -> AttackOutcome:
    """If the newest version is missing or truncated, the former one is not used silently."""
    seen, held = [], True
    for damage in ("missing", "cut"):
        index = target.index()
        target.run("delete", "town-00", "--index", str(index))
        newest = _newest(index)
        if damage == "missing":
            newest.unlink()
        else:
            newest.write_bytes(newest.read_bytes()[:40])
        found = target.run("info", "--index", str(index))
        changed = target.run("delete", "town-01", "--index", str(index))
        said = found.stdout + found.stderr
        told = "damaged" in said and "Traceback" not in said
        held &= told and changed.returncode == 2
        seen.append(f"{damage}: {'told' if told else 'not told'}, delete {changed.returncode}")
    return AttackOutcome(held, "; ".join(seen))


def _newest(index: Path) -> Path:
    return min(
        (index / "passages.lance" / "_versions").glob("*.manifest"), key=lambda path: int(path.stem)
    )


ATTACKS = (
    full_request_log,
    damaged_data_file,
    half_written_job,
    full_temporary_disk,
    clock_stepped_back,
    newest_manifest_gone,
)
