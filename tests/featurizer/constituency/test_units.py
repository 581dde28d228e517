import json
from dataclasses import replace
from pathlib import Path

import pytest

from featurizer.constituency.tree import parse_brackets
from featurizer.constituency.units import Units, count_units

ORACLE = Path(__file__).parents[3].parent / "shared" / "data" / "l2sca_oracle.jsonl"
FIELDS = {
    "S": "sentences",
    "VP": "verb_phrases",
    "C": "clauses",
    "T": "t_units",
    "DC": "dependent_clauses",
    "CT": "complex_t_units",
    "CP": "coordinate_phrases",
    "CN": "complex_nominals",
}


@pytest.mark.skipif(not ORACLE.is_file(), reason="the oracle's trees are not on this machine")
def test_every_count_agrees_with_the_published_patterns() -> None:
    wrong = []
    lines = ORACLE.read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        expected = json.loads(line)
        units = count_units([parse_brackets(expected["tree"])])
        ours = {name: getattr(units, field) for name, field in FIELDS.items()}
        if ours != expected["counts"]:
            wrong.append((number, ours, expected["counts"]))
    assert len(lines) == 700
    assert wrong == []


NO_UNITS = Units(*[0] * 9)


def units(*brackets: str, **expected: int) -> tuple[Units, Units]:
    """Counts of the trees beside the expected ones; whatever is not named is expected to be 0."""
    return count_units([parse_brackets(b) for b in brackets]), replace(NO_UNITS, **expected)


def test_a_plain_clause() -> None:
    found, expected = units(
        "(ROOT (S (NP (NNS Rivers)) (VP (VBP flow)) (. .)))",
        words=2, sentences=1, clauses=1, t_units=1, verb_phrases=1,
    )  # fmt: skip
    assert found == expected


def test_an_imperative_is_a_clause_only_at_the_root() -> None:
    found, expected = units(
        "(ROOT (S (VP (VB Fold) (NP (DT the) (NN map)))))",
        words=3, sentences=1, clauses=1, t_units=1, verb_phrases=1,
    )  # fmt: skip
    assert found == expected
    found, expected = units(
        "(ROOT (NP (NN time) (S (VP (VB fold) (NP (DT the) (NN map))))))",
        words=4, sentences=1, verb_phrases=1, complex_nominals=1,
    )  # fmt: skip
    assert found == expected


def test_a_question_with_an_inverted_copula_has_a_clause_and_a_verb_phrase() -> None:
    found, expected = units(
        "(ROOT (SBARQ (WHADVP (WRB Where)) (SQ (VBZ is) (NP (DT the) (NN ferry))) (. ?)))",
        words=4, sentences=1, clauses=1, t_units=1, verb_phrases=1,
    )  # fmt: skip
    assert found == expected


def test_an_auxiliary_before_the_subject_adds_no_verb_phrase() -> None:
    found, expected = units(
        "(ROOT (SQ (VBD Did) (NP (NNP Ines)) (VP (VB row)) (. ?)))",
        words=3, sentences=1, clauses=1, t_units=1, verb_phrases=1,
    )  # fmt: skip
    assert found == expected


def test_a_relative_clause_makes_the_t_unit_complex_and_the_nominal_too() -> None:
    found, expected = units(
        "(ROOT (S (NP (NP (DT the) (NN baker)) (SBAR (WHNP (WP who)) (S (VP (VBD sang))))) "
        "(VP (VBD left))))",
        words=5, sentences=1, clauses=2, dependent_clauses=1, t_units=1, complex_t_units=1,
        complex_nominals=1, verb_phrases=2,
    )  # fmt: skip
    assert found == expected


def test_coordinated_main_clauses_are_two_t_units_beside_the_whole() -> None:
    found, expected = units(
        "(ROOT (S (S (NP (PRP she)) (VP (VBD rowed))) (CC and) (S (NP (PRP he)) (VP (VBD sang)))))",
        words=5, sentences=1, clauses=2, t_units=2, verb_phrases=2,
    )  # fmt: skip
    assert found == expected


def test_clauses_coordinated_under_a_subordinator_are_no_t_units() -> None:
    found, expected = units(
        "(ROOT (S (NP (PRP he)) (VP (VBD said) (SBAR (IN that) (S (S (NP (PRP she)) "
        "(VP (VBD rowed))) (CC and) (S (NP (PRP it)) (VP (VBD rained))))))))",
        words=8, sentences=1, clauses=3, t_units=1, complex_nominals=1, verb_phrases=3,
    )  # fmt: skip
    assert found == expected


def test_coordination_under_a_verb_phrase_head() -> None:
    found, expected = units(
        "(ROOT (S (NP (PRP she)) (VP (VP (VBD rowed)) (CC and) (VP (VBD sang)))))",
        words=4, sentences=1, clauses=1, t_units=1, coordinate_phrases=1, verb_phrases=1,
    )  # fmt: skip
    assert found == expected


@pytest.mark.parametrize(
    "phrase",
    [
        "(NP (JJ red) (NN paint))",
        "(NP (NP (DT the) (NN lid)) (PP (IN of) (NP (NN tin))))",
        "(NP (NP (NNP Ines) (POS 's)) (NN boat))",
        "(NP (NP (NNP Ines)) (, ,) (NP (DT a) (NN baker)))",
        "(NP (NP (DT a) (NN boat)) (CC and) (NP (DT a) (NN map)))",
        "(NP (VBG running) (NN water))",
    ],
)
def test_modified_nouns_are_complex(phrase: str) -> None:
    assert count_units([parse_brackets(f"(ROOT {phrase})")]).complex_nominals == 1


@pytest.mark.parametrize("phrase", ["(NP (DT the) (NN lid))", "(NP (NN S))", "(NP (PRP it))"])
def test_bare_nouns_are_not(phrase: str) -> None:
    assert count_units([parse_brackets(f"(ROOT {phrase})")]).complex_nominals == 0


def test_clauses_as_subject_or_object_are_complex_nominals() -> None:
    asked = "(SBAR (WHNP (WP what)) (S (NP (PRP she)) (VP (VBD rowed))))"
    subject = f"(ROOT (S {asked} (VP (VBD sank))))"
    whole = f"(ROOT (S (NP (PRP he)) (VP (VBD saw) {asked})))"
    adverb = "(ROOT (S (NP (PRP he)) (VP (VBD sang) (SBAR (IN while) (S (NP (PRP she)) "
    adverb += "(VP (VBD rowed)))))))"
    gerund = "(ROOT (S (S (VP (VBG rowing))) (VP (VBZ tires) (NP (PRP her)))))"
    counts = [
        count_units([parse_brackets(t)]).complex_nominals for t in (subject, whole, adverb, gerund)
    ]
    assert counts == [1, 1, 0, 1]


def test_a_fragment_is_a_clause_and_a_t_unit_when_it_holds_none() -> None:
    found, expected = units(
        "(ROOT (FRAG (ADVP (RB Perhaps)) (. .)))", words=1, sentences=1, clauses=1, t_units=1
    )
    assert found == expected
    found, expected = units(
        "(ROOT (FRAG (INTJ (UH Well)) (S (NP (PRP it)) (VP (VBD sank)))))",
        words=3, sentences=1, clauses=1, t_units=1, verb_phrases=1,
    )  # fmt: skip
    assert found == expected


def test_sentences_add_up_and_nothing_counts_as_nothing() -> None:
    one = parse_brackets("(ROOT (S (NP (NNS Rivers)) (VP (VBP flow)) (. .)))")
    assert count_units([one, one]).clauses == 2
    assert count_units([]) == NO_UNITS


def test_hyphens_brackets_and_money_signs_are_no_words() -> None:
    found = count_units(
        [parse_brackets("(ROOT (NP (-LRB- -LRB-) (NN x) (HYPH -) (PRP$ my) ($ $)))")]
    )
    assert found.words == 2
