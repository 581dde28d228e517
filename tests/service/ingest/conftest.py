import pytest
from starlette.testclient import TestClient

from tests.service.fakes import Serve


@pytest.fixture
def client(start: Serve) -> TestClient:
    return start(direct_passages=8, group_passages=8)
