from pathlib import Path

import pytest

from service.collections import Place, places
from service.errors import ServiceError


def test_places_are_named_or_the_default() -> None:
    assert places(["a=/x", "b=/y=z"], None) == [Place("a", Path("/x")), Place("b", Path("/y=z"))]
    assert places(["/x"], Path("/other")) == [Place("default", Path("/x"))]
    assert places([], Path("/other")) == [Place("default", Path("/other"))]


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ([], "Serve what"),
        (["a b=/x"], "cannot be called 'a b'"),
        (["../a=/x"], "cannot be called"),
        (["=/x"], "cannot be called ''"),
        (["a="], "has no folder"),
        (["/x", "/y"], "Two collections are called 'default'"),
    ],
)
def test_places_that_make_no_sense(named: list[str], says: str) -> None:
    with pytest.raises(ServiceError, match=says):
        places(named, None)
