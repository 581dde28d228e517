import pytest
from starlette.exceptions import HTTPException

from service.http.middleware import BodyLimit, RateLimit
from service.http.problems import Problem


def test_a_burst_and_then_the_rate() -> None:
    now = [0.0]
    limit = RateLimit(2.0, 3, clock=lambda: now[0])
    for _ in range(3):
        limit.take("ada")
    with pytest.raises(Problem, match="may send 2 requests a second") as refused:
        limit.take("ada")
    assert (refused.value.status, refused.value.headers["retry-after"]) == (429, "1")
    limit.take("bob")
    now[0] = 0.5
    limit.take("ada")
    with pytest.raises(Problem):
        limit.take("ada")
    now[0] = 1000
    for _ in range(3):
        limit.take("ada")
    with pytest.raises(Problem):
        limit.take("ada")


def test_no_rate_no_limit() -> None:
    limit = RateLimit(0, 1)
    for _ in range(100):
        limit.take("ada")


def test_a_path_may_have_a_longer_body() -> None:
    limit = BodyLimit(10, {"/v1/documents": 100})
    limit.check("/v1/retrieve", "10")
    limit.check("/v1/documents/x", "100")
    limit.check("/v1/retrieve", None)
    limit.check("/v1/retrieve", "nonsense")
    with pytest.raises(HTTPException, match="10 bytes"):
        limit.check("/v1/retrieve", "11")
