"""Structured logs: one event a line, with a request id and without secrets.

Of what a client sends, only the method and the path are logged. Questions go only to the request
log, if there is one.
"""

import json
import logging
import sys
import time
from textwrap import indent
from typing import Any, Literal

from wye.backends.files import VISIBLE

LOG = logging.getLogger("wye")
LOG.addHandler(logging.NullHandler())  # until `configure`, nothing is printed

_JSON = json.JSONEncoder(default=str)
# Attributes that every record has; all others were passed as `extra`.
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class _Lines(logging.Formatter):
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"
    converter = staticmethod(time.gmtime)


class JsonLines(_Lines):
    """Each event as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        event: dict[str, Any] = {"time": self.formatTime(record), "level": record.levelname.lower()}
        event |= {"event": record.getMessage(), **_extra(record)}
        if record.exc_info:
            event["traceback"] = self.formatException(record.exc_info)
        return _JSON.encode(event)


class TextLines(_Lines):
    """Each event as one readable line, with any traceback indented below it."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        extra = " ".join(f"{name}={value}" for name, value in _extra(record).items())
        level, message = record.levelname.lower(), record.getMessage()
        line = f"{self.formatTime(record)} {level:<7} {message} {extra}"
        line = line.rstrip().replace("\n", "\\n")
        if record.exc_info:
            # First made visible, since `indent` passes over lines of blanks, such as "\\r".
            line += "\n" + indent(self.formatException(record.exc_info).translate(VISIBLE), "  ")
        return line.translate(VISIBLE)


def configure(form: Literal["json", "text"]) -> None:
    """Send the events of Wye and of its libraries to standard error.

    What the reader of forms says of a client's mistake is in the reply.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if form == "json" else TextLines())
    levels = {
        "wye": logging.INFO,
        "uvicorn": logging.INFO,
        "mcp": logging.WARNING,
        "python_multipart": logging.ERROR,
    }
    for name, level in levels.items():
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False


def _extra(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}
