import math
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from wye.training.errors import EvaluationError
from wye.training.markdown import (
    by_measure,
    escape,
    gain,
    gain_spread,
    percent,
    share,
    spread,
    table,
)
from wye.training.measures import MEASURES, Interval, compare, mean_interval, resampled_means, score

PASSAGES = [f"p{number}" for number in range(14)]
judged = st.dictionaries(st.sampled_from(PASSAGES), st.just(1), min_size=1, max_size=5)
ranked = st.lists(st.sampled_from(PASSAGES), unique=True)


def reference(judgements: dict[str, int], ids: list[str]) -> dict[str, float]:
    """The measures by their definitions, for binary relevance."""
    gold = {id_ for id_, relevance in judgements.items() if relevance > 0}

    def found(cutoff: int) -> int:
        return len([id_ for id_ in ids[:cutoff] if id_ in gold])

    gain = sum(1 / math.log2(rank + 1) for rank, id_ in enumerate(ids[:10], 1) if id_ in gold)
    ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(len(gold), 10) + 1))
    return {
        **{f"R@{cutoff}": found(cutoff) / len(gold) for cutoff in (1, 3, 5, 10)},
        "nDCG@10": gain / ideal,
        "Success@1": float(found(1) > 0),
        "Success@5": float(found(5) > 0),
        "all-evidence@5": float(found(5) == len(gold)),
    }


@given(st.lists(st.tuples(judged, ranked), min_size=1, max_size=5))
def test_agrees_with_the_definitions(questions: list[tuple[dict[str, int], list[str]]]) -> None:
    judgements = {f"q{place}": gold for place, (gold, _) in enumerate(questions)}
    run = {f"q{place}": ids for place, (_, ids) in enumerate(questions)}
    values = score(judgements, run)
    for row, (gold, ids) in zip(values, questions, strict=True):
        expected = reference(gold, ids)
        assert dict(zip(MEASURES, row, strict=True)) == pytest.approx(expected)


def test_an_unanswered_question_scores_nothing() -> None:
    values = score({"asked": {"p1": 1}, "unasked": {"p1": 1}}, {"asked": ["p1"]})
    assert np.array_equal(values, np.vstack([np.ones(len(MEASURES)), np.zeros(len(MEASURES))]))
    assert not score({"q": {"p1": 1}}, {}).any()


def test_passages_judged_irrelevant_are_no_evidence() -> None:
    values = score({"q": {"p1": 1, "p2": 0}}, {"q": ["p2", "p1"]})[0]
    assert (values[MEASURES.index("R@1")], values[MEASURES.index("all-evidence@5")]) == (0, 1)


def test_judgements_may_name_documents_and_files() -> None:
    run = {"q": ["notes/a.md#0001", "notes/a.md#0000", "x.csv:Staff:7", "y.csv:1", "b#1"]}
    judgements = {"q": {"notes/a.md": 1, "x.csv": 1, "y.csv:1": 1, "z": 1}}
    values = dict(zip(MEASURES, score(judgements, run)[0].tolist(), strict=True))
    assert (values["R@1"], values["R@3"], values["Success@1"]) == (0.25, 0.75, 1)
    same = score({"q": {"a": 1, "b": 1, "c": 1, "z": 1}}, {"q": ["a", "b", "c"]})
    assert values["nDCG@10"] == same[0, MEASURES.index("nDCG@10")]


def test_resampling_agrees_with_drawing_one_by_one() -> None:
    values = np.random.default_rng(1).random((7, 3))
    generator = np.random.default_rng(5)
    drawn = generator.integers(7, size=(40, 7))
    slow = np.array([values[rows].mean(axis=0) for rows in drawn])
    assert np.allclose(resampled_means(values, resamples=40, seed=5), slow)


def test_blocks_change_nothing_but_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(2).random((9, 2))
    whole = resampled_means(values, resamples=50, seed=3)
    monkeypatch.setattr("wye.training.measures._CELLS", 20)
    assert np.array_equal(resampled_means(values, resamples=50, seed=3), whole)


def test_no_question_has_no_mean() -> None:
    with pytest.raises(EvaluationError, match="no question"):
        resampled_means(np.zeros((0, 2)))


NAMES = ("one", "other")


def values(seed: int, n: int = 30) -> np.ndarray:
    return np.random.default_rng(seed).random((n, 2))


def test_each_interval_is_that_of_its_column_mean_interval() -> None:
    systems = {name: values(at) for at, name in enumerate("abc")}
    means, differences = compare(systems, [("b", "a"), ("a", "c")], NAMES)
    assert list(means) == ["a", "b", "c"]
    assert list(differences) == [("b", "a"), ("a", "c")]
    for at, measure in enumerate(NAMES):
        for name, own in systems.items():
            expected = mean_interval(own[:, at])
            assert astuple(means[name][measure]) == pytest.approx(astuple(expected), abs=1e-12)
        for (one, other), cells in differences.items():
            expected = mean_interval(systems[one][:, at] - systems[other][:, at])
            assert astuple(cells[measure]) == pytest.approx(astuple(expected), abs=1e-12)


def test_equal_systems_are_no_different_to_the_last_bit() -> None:
    found = compare({"a": values(1), "twin": values(1)}, [("a", "twin")], NAMES)[1]
    assert [*found["a", "twin"].values()] == [Interval(0.0, 0.0, 0.0)] * 2


def test_numbers_are_short_and_what_is_surely_different_has_a_star() -> None:
    shares = [share(value) for value in (0.8874, 1.0, 0.0, -0.25, math.nan)]
    assert shares == [".887", "1.00", ".000", "-.250", "-"]
    assert spread(Interval(0.5, 0.25, 1.0)) == ".500 [.250 1.00]"
    assert gain(Interval(0.5, 0.25, 1.0)) == "+.500*"
    assert gain(Interval(-0.5, -1.0, 0.0)) == "-.500"
    assert gain_spread(Interval(-0.5, -1.25, -0.25)) == "-.500 [-1.250 -.250]*"
    assert (percent(0.375), percent(math.nan)) == ("38 %", "-")


def test_a_table_escapes_words_and_no_numbers() -> None:
    assert table(("name", "what", "n"), [("a|b", "<i>", "1 [0 2]*")], words=2) == (
        "| name | what | n |\n| --- | --- | ---: |\n| a\\|b | \\<i\\> | 1 [0 2]* |"
    )


def test_measures_are_columns_and_wide_tables_are_split() -> None:
    cells = {"auto": {name: Interval(0.5, 0.5, 0.5) for name in "xyz"}}
    one, other = by_measure("system", cells, gain, width=2).split("\n\n")
    assert one.startswith("| system | x | y |\n")
    assert other == "| system | z |\n| --- | ---: |\n| auto | +.500* |"


@given(st.text(max_size=40))
def test_any_text_is_itself_in_a_heading_and_in_a_cell(text: str) -> None:
    shown = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for source in (f"## {escape(text)}", table(("x",), [(text,)])):
        tokens = [one for one in parser.parse(source) if one.type == "inline"]
        children = (tokens[-1].children or []) if len(tokens) > (source[0] == "|") else []
        assert {one.type for one in children} <= {"text", "text_special"}
        assert " ".join("".join(one.content for one in children).split()) == shown


def test_a_name_of_a_feature_stays_readable() -> None:
    assert escape("entity_reach_max") == "entity_reach_max"
    assert escape("_private_") == r"\_private\_"
