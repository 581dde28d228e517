"""What `service.edge` notes about a request, for those who handle it."""

from collections.abc import MutableMapping
from typing import Any

from service.keys import Key

Scope = MutableMapping[str, Any]

_REQUEST_ID = "wye.request_id"
_KEY = "wye.key"
_PROBLEM = "wye.problem"


def note(scope: Scope, request_id: str) -> None:
    """Give a request its id."""
    scope[_REQUEST_ID] = request_id


def note_key(scope: Scope, key: Key) -> None:
    """Say who sent it."""
    scope[_KEY] = key


def note_problem(scope: Scope, slug: str) -> None:
    """Say which kind of problem it ended with."""
    scope[_PROBLEM] = slug


def request_id_of(scope: Scope) -> str:
    """Its id; "" where nobody gave it one."""
    return str(scope.get(_REQUEST_ID, ""))


def key_of(scope: Scope) -> Key | None:
    """Who sent it; None where nobody asked."""
    key: Key | None = scope.get(_KEY)
    return key


def problem_of(scope: Scope) -> str:
    """Which kind of problem it ended with; "" for none."""
    return str(scope.get(_PROBLEM, ""))
