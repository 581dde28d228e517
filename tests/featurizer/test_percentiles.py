import pytest

from featurizer.constituency.parser import SyntaxParser
from featurizer.registry import FEATURE_NAMES, Reference, read_reference, schema_id

SMALL = Reference("abc", {"a.txt": 3, "b.txt": 1}, {"depth": (1, 2.5, 2.5, 4), "flat": (0,) * 4})


@pytest.mark.parametrize(
    ("value", "percentile"),
    [(0, 0), (1, 12.5), (2, 25), (2.5, 50), (2.5000000001, 50), (3, 75), (4, 87.5), (5, 100)],
)
def test_equal_values_count_half(value: float, percentile: float) -> None:
    assert SMALL.percentile("depth", value) == percentile


def test_a_feature_that_never_varies_is_in_the_middle() -> None:
    assert SMALL.percentile("flat", 0) == 50
    assert SMALL.percentile("flat", 1) == 100


def test_what_is_written_is_read() -> None:
    again = read_reference(SMALL.to_json())
    assert again.schema_id == "abc"
    assert again.sources == {"a.txt": 3, "b.txt": 1}
    assert [list(again.values[name]) for name in again.values] == [[1, 2.5, 2.5, 4], [0] * 4]
    assert again.to_json() == SMALL.to_json()


def test_the_shipped_set_is_of_these_features_and_models(questions: SyntaxParser) -> None:
    """If not: `python -m training.feature_reference`."""
    shipped = read_reference()
    assert shipped.schema_id == schema_id(questions.fingerprint)
    assert tuple(shipped.values) == FEATURE_NAMES
    assert {len(values) for values in shipped.values.values()} == {sum(shipped.sources.values())}
