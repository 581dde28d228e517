"""The request log: each answered question with its decision, and feedback that comes later.

Each line is a JSON object. Its kind is "retrieval" or "feedback". Lines about one question share a
`request_id` and a `key`, the name of the API key. Each line is written by one call, so several
processes can share a file.
"""

import errno
import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wye.router.errors import RequestLogError

RETRIEVAL = "retrieval"
FEEDBACK = "feedback"
SEARCHED, PIECE = 1 << 28, 1 << 20  # bytes of a log that are searched, and at a time


class RequestLog:
    """Writes lines without buffering, so nothing is lost when the process is killed."""

    def __init__(self, path: Path) -> None:
        """Open a file to append, a new one for its owner only, or a `RequestLogError`."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise RequestLogError(
                f"The request log {path} cannot be written ({error.strerror}); give another file."
            ) from None

    def write(self, kind: str, request_id: str, values: Mapping[str, Any]) -> None:
        """Append a line; after an `OSError` half of one may stay, and the next starts anew."""
        time = datetime.now(UTC).isoformat(timespec="milliseconds")
        line = {"kind": kind, "request_id": request_id, "time": time, **values}
        data = (json.dumps(line) + "\n").encode()
        if self._is_torn():
            data = b"\n" + data
        if os.write(self._descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def has_question(self, request_id: str) -> bool:
        """Whether a question with this id is in the file, of which the last 256 MB are read."""
        wanted = json.dumps({"kind": RETRIEVAL, "request_id": request_id})[:-1].encode()
        end = os.fstat(self._descriptor).st_size
        for start in range(end, max(end - SEARCHED, 0), -PIECE):  # what is rated is mostly new
            piece = os.pread(self._descriptor, PIECE + len(wanted), max(start - PIECE, 0))
            if wanted in piece:
                return True
        return False

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _is_torn(self) -> bool:
        """Whether the last line is incomplete, because the disk was full when it was written."""
        size = os.fstat(self._descriptor).st_size
        return size > 0 and os.pread(self._descriptor, 1, size - 1) != b"\n"
