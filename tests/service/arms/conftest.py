"""Servers that ask those of others."""

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.service.arms.fakes import Remote, arms_file, table
from tests.service.fakes import Library, Serve


@pytest.fixture
def gateway(serve: Serve, library: Library, remote: Remote, tmp_path: Path) -> Serve:
    """A server with the arm far, which costs 0.02; keyword arguments are of its table."""

    def start(*more: str, options: Any = None, **changes: Any) -> TestClient:  # noqa: ANN401
        path = arms_file(tmp_path, table(remote.url, **changes), *more)
        return serve(library, arms=path, **(options or {}))

    return start
