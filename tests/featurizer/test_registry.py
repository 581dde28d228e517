import re

from featurizer.registry import FEATURE_NAMES, FEATURES, GROUPS


def test_there_are_at_least_a_hundred_in_the_groups_of_the_design() -> None:
    assert len(FEATURES) >= 100
    assert GROUPS == (
        "constituency",
        "tree",
        "dependency",
        "lexical",
        "semantic",
        "relation",
        "interaction",
    )


def test_names_are_unique_and_in_snake_case() -> None:
    assert len(set(FEATURE_NAMES)) == len(FEATURE_NAMES)
    assert [name for name in FEATURE_NAMES if not re.fullmatch(r"[a-z]+(_[a-z]+)*", name)] == []


def test_every_feature_says_what_it_is_in_one_sentence() -> None:
    for feature in FEATURES:
        assert re.fullmatch(r"[A-Z].*[^.]\.", feature.doc), feature.name
        assert ". " not in feature.doc, feature.name
        assert feature.unit, feature.name
        assert feature.source, feature.name


def test_every_ratio_says_what_it_is_without_a_divisor() -> None:
    ratios = [f for f in FEATURES if f.unit == "share" or re.search(r" an? ", f.unit)]
    assert len(ratios) > 30
    assert [f.name for f in ratios if "; 0 without" not in f.doc] == []
