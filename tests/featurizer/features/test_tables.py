"""Each group of features against questions that were annotated, and counted, by hand."""

import pytest

from wye.featurizer.constituency.parser import SyntaxParser
from wye.featurizer.constituency.units import UNITS
from wye.featurizer.features import trees
from wye.featurizer.question import View
from wye.featurizer.registry import FEATURE_NAMES, syntax_matrix
from wye.featurizer.types import Syntax

NOTHING = Syntax((), ())


def features(syntax: Syntax) -> dict[str, float]:
    return dict(zip(FEATURE_NAMES, syntax_matrix([syntax])[0].tolist(), strict=True))


def check(syntax: Syntax, **expected: float) -> None:
    result = features(syntax)
    assert {name: result[name] for name in expected} == pytest.approx(expected)


# fmt: off
def test_constituency(chain: Syntax, choice: Syntax) -> None:
    check(
        chain,
        words=10, sentences=1, clauses=1, dependent_clauses=0, t_units=1, coordinate_phrases=0,
        complex_nominals=2,  # the father of …, the director of …
        verb_phrases=1, words_per_clause=10, complex_nominals_per_clause=2, noun_phrases=5,
        prepositional_phrases=2, nominal_prepositions=2,
    )
    check(
        choice,
        words=11, clauses=2, dependent_clauses=1, complex_t_units=1,
        dependent_clauses_per_clause=0.5, coordinate_phrases=1, modifier_phrases=1,
    )


def test_tree_of_a_chain(chain: Syntax) -> None:
    # ROOT 0, SBARQ 1, WHNP SQ . 2, WP VP 3, VBZ NP 4, NP PP 5, DT NN IN NP 6, NP PP 7,
    # DT NN IN NP 8, NNP NNP 9.
    depths = [3, 4, 6, 6, 6, 8, 8, 8, 9, 9, 2]
    phrases = 11
    check(
        chain,
        tree_depth=9, tree_depth_mean=sum(depths) / 11, tree_width=4, tree_depth_to_width=9 / 4,
        tree_phrases=phrases, tree_phrases_per_tag=1, tree_leaf_ratio=11 / (11 + phrases + 1),
        # Each node but ROOT is the child of one phrase.
        tree_branching_mean=(11 + phrases) / (phrases + 1), tree_branching_max=3,
        tree_yngve_max=3,  # at "the": the question mark, the phrase with "of", and "father"
        noun_phrase_nesting=3, prepositional_nesting=2,
    )


def test_dependencies(chain: Syntax, choice: Syntax) -> None:
    # Who-is 1, the-father 1, father-is 2, of-father 1, the-director 1, director-of 2,
    # of-director 1, Winter-Lantern 1, Lantern-of 2; the question mark does not count.
    check(
        chain,
        dependency_distance_mean=12 / 9, dependency_distance_max=2, long_dependencies=0,
        dependency_depth=6, dependency_branching_max=3, dependency_left_share=4 / 9,
        dependency_prepositional_objects=2, dependency_compounds=1, dependency_attributes=1,
    )
    check(
        choice,
        dependency_distance_max=5, dependency_objects=1,
    )


def test_words_of_a_chain(chain: Syntax) -> None:
    check(
        chain,
        tokens=11, punctuation=1, content_words=4, function_words=6,
        content_to_function=4 / 6, lexical_density=0.4, information_density=4 / 11,
        type_token_ratio=8 / 10, capitalised_share=2 / 9, word_length_max=8, nouns=2, names=2,
        prepositions=2, stop_word_share=0.5,
    )


def test_meaning(chain: Syntax, choice: Syntax) -> None:
    check(
        chain,
        entities=1, entities_work=1, entities_person=0, entity_density=0.1,
        entity_token_share=2 / 11, entity_length_mean=2,
    )
    check(
        choice,
        entities=2, entity_kinds=1, role_patient=1,
    )


def test_relations(chain: Syntax, choice: Syntax) -> None:
    check(
        chain,
        relation_links=2, relation_chain_max=2, of_chain_max=2,
        entity_chain_max=2, entity_reach_min=6, entity_offset_min=9,
        descriptions_relational=2,
    )
    check(
        choice,
        relation_links=1, relation_chain_max=1, of_chain_max=0, entity_chain_max=0,
        entity_reach_min=3, entity_reach_max=4,  # which-bridge-is-Avon, and on to Tay
        entity_pair_distance=1,
    )


def test_interactions(chain: Syntax, choice: Syntax) -> None:
    check(
        chain,
        tokens_per_clause=11, entities_per_clause=1, links_per_entity=2, entities_times_links=2,
        descriptions_times_links=4, tree_depth_per_token=9 / 11,
    )
    check(choice, noun_phrases_per_entity=3 / 2)
# fmt: on


@pytest.mark.parametrize(
    ("question", "is_place"),
    [
        ("Where is the bridge?", True),
        ("Which river flows through Oslo?", True),
        ("What is the capital of Norway?", True),
        ("Who lives in the city?", False),
        ("Which engineer built the bridge?", False),
        ("Is Oslo a city?", False),
    ],
)
def test_a_place_is_asked_for(questions: SyntaxParser, question: str, is_place: bool) -> None:
    (syntax,) = questions.parse([question])
    assert features(syntax)["target_place"] == is_place


def test_nothing_divided_by_nothing_is_nothing() -> None:
    result = features(NOTHING)
    assert not any(result.values())


def test_lus_indices_are_ratios_of_units(choice: Syntax) -> None:
    view = View(choice)
    some = {"words": 12, "sentences": 2, "clauses": 3, "t_units": 2, "dependent_clauses": 1}
    view.units = {**dict.fromkeys(UNITS, 0), **some}
    indices = [
        feature
        for feature in trees.FEATURES
        if "/" in feature.doc.split(":")[0] or feature.doc[:2] == "ML"
    ]
    values = {feature.doc.split(":")[0]: feature.value(view) for feature in indices}
    assert len(values) == 14
    known = {name: values[name] for name in ("MLS", "MLC", "DC/C", "C/T")}
    assert known == pytest.approx({"MLS": 6, "MLC": 4, "DC/C": 1 / 3, "C/T": 1.5})
