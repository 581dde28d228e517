"""Reads files that come from anybody in processes of their own, few at a time."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

from service.http.problems import Problem
from service.ingest.extract import Limits

# Files that are read at once, and that may wait for it.
_AT_ONCE = 2
_WAITING = 16
# To start and to stop; processor time is limited beside it.
_GRACE = 10.0
# Of one character in JSON: at worst two escapes of six letters.
_BYTES_PER_CHARACTER = 12
# What a process needs of the environment; nothing that is secret.
_PASSED = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "SYSTEMROOT")


class Sandbox:
    """Runs `service.ingest.extract`; a file that stalls or blows up takes nothing with it."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._inside = 0

    async def read(self, path: Path, kind: str, name: str) -> tuple[str, str]:
        """Title and text of a file of kind "pdf" or "docx".

        Raises:
            Problem: 422 with what is wrong with it, 503 when many files wait.
        """
        if self._inside >= _AT_ONCE + _WAITING:
            raise Problem(
                503, "overloaded", "Many files are waiting to be read. Try again.", retry_after=5
            )
        self._inside += 1
        try:
            async with self._slots:
                printed = await self._run(path, kind, name)
        finally:
            self._inside -= 1
        found: dict[str, str] = json.loads(printed)
        if "error" in found:
            raise bad_file(name, found["error"])
        return found["title"], found["text"]

    async def _run(self, path: Path, kind: str, name: str) -> bytes:
        module = "service.ingest.extract"
        with path.open("rb") as file:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", module, kind, str(self._limits)),
                stdin=file,
                stdout=PIPE,
                stderr=DEVNULL,
                env={key: value for key, value in os.environ.items() if key in _PASSED},
            )
        try:
            async with asyncio.timeout(self._limits.seconds + _GRACE):
                printed = await self._printed(process)
        except TimeoutError:
            printed = b""
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if process.returncode:
            raise bad_file(
                name,
                f"could not be read within {self._limits.seconds} s and "
                f"{self._limits.memory_bytes >> 20:,} MB",
            )
        return printed

    async def _printed(self, process: asyncio.subprocess.Process) -> bytes:
        """What a process prints until it ends, which is no more than it may."""
        most = _BYTES_PER_CHARACTER * self._limits.characters + 4096
        blocks: list[bytes] = []
        while process.stdout and (block := await process.stdout.read(1 << 16)):
            blocks.append(block)
            most -= len(block)
            if most < 0:
                process.kill()
                blocks.clear()
                break
        await process.wait()
        return b"".join(blocks)


def bad_file(name: str, reason: str) -> Problem:
    """What to say of a file that gives no document."""
    return Problem(422, "bad-file", f"'{name:.80}' {reason}.")
