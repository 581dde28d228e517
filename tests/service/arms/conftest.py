"""Servers of others."""

from collections.abc import Iterator

import pytest

from tests.service.arms.fakes import Remote


@pytest.fixture
def remote() -> Iterator[Remote]:
    made = Remote()
    yield made
    made.close()
