from itertools import combinations

from wye.featurizer.plan_nouns import APPOSED, EMPTY, PREPOSITIONS, TYPES, wanted


def test_a_noun_has_one_type() -> None:
    assert [one & other for one, other in combinations(TYPES.values(), 2) if one & other] == []
    assert wanted("composer") == "person"
    assert wanted("birthplace") == "place"
    assert wanted("lantern") == "free"
    assert set(PREPOSITIONS) < set(TYPES)


def test_nouns_that_give_a_name_have_a_type_or_are_no_description_anyway() -> None:
    assert not APPOSED & EMPTY
