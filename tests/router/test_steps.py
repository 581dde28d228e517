"""Questions asked from the inside out, over a search that is made up."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wye.backends.trigraph.hops import Hop
from wye.backends.types import Float32, RankedHit, Ranking, Source
from wye.featurizer.plan import Plan, Step
from wye.router.snapshot import Snapshot
from wye.router.step_search import InnerResult, StepSettings, SubQuestion, Whole
from wye.router.steps import (
    OUT_OF_TIME,
    StepsResult,
    fits,
    is_date,
    is_quantity,
    plain_words,
    step_through,
)

NESTED = "Who leads the country where the composer of Finlandia was born?"
COMPARED = "Which film is older, Alpha or Omega?"
PLAIN = "What is the capital of France?"
DEPTH = 6


def _step(
    question: str, phrase: str, *inside: Step, kind: str = "bridge", wanted: str = ""
) -> Step:
    start = question.index(phrase)
    named = kind == "comparison"
    return Step((start, start + len(phrase)), kind, wanted or "place", named, inside)


COMPOSER_PHRASE = "the composer of Finlandia"
COMPOSER = _step(NESTED, COMPOSER_PHRASE, wanted="person")
COUNTRY = _step(NESTED, "the country where the composer of Finlandia was born", COMPOSER)
PLANS = {
    NESTED: Plan((COUNTRY,)),
    COMPARED: Plan(
        tuple(
            _step(COMPARED, name, kind="comparison", wanted="work") for name in ("Alpha", "Omega")
        )
    ),
    PLAIN: Plan(),
}


class MadeUp:
    """Finds six of forty passages for a text, by its checksum; says what it was asked.

    Attributes:
        known: Texts with the passages that they find instead, best first.
        asked: Batches of texts.
        kinds: Of each.
    """

    def __init__(
        self, known: Mapping[str, Sequence[str]] | None = None, allowed: Iterable[int] = range(40)
    ) -> None:
        self.known = known or {}
        self.asked: list[list[str]] = []
        self.kinds: list[list[str]] = []
        self._allowed = sorted(allowed)

    def __call__(self, asked: Sequence[SubQuestion]) -> list[InnerResult]:
        texts = [one.text for one in asked]
        self.asked.append(texts)
        self.kinds.append([one.kind for one in asked])
        return [self.find(text) for text in texts]

    def find(self, text: str) -> InnerResult:
        draw = np.random.default_rng(crc32(text.encode()))
        drawn = [f"p{self._allowed[n]}" for n in draw.permutation(len(self._allowed))]
        ids = list(dict.fromkeys([*self.known.get(text, ()), *drawn]))[:DEPTH]
        scores = np.sort(draw.uniform(0.1, 1, len(ids)))[::-1].tolist()
        hits = [
            RankedHit(id_, score, rank, (Source("dense", rank, score, score),))
            for rank, (id_, score) in enumerate(zip(ids, scores, strict=True), start=1)
        ]
        return InnerResult(
            Ranking("fusion", tuple(hits), len(self._allowed)), np.ones(2, np.float32)
        )

    def whole(self, questions: Iterable[str]) -> Whole:
        return lambda: {text: self.find(text) for text in questions}


class Names(Snapshot):
    """Passages with the names that they are said to hold, and else one of their own."""

    def __init__(self, names: Mapping[str, Sequence[str]] | None = None) -> None:
        self._names = names or {}
        self.read: set[str] = set()

    def names(self, id_: str, vector: Float32, sentences: int) -> list[tuple[str, int]]:
        assert len(vector) == 2
        self.read.add(id_)
        own = self._names.get(id_, [f"Title of {id_[1:]}", "Somebody", "Sunday"])
        return [(name, place - 1) for place, name in enumerate(own[: 1 + sentences])]


def _answer(
    questions: Sequence[str],
    search: MadeUp,
    names: Names | None = None,
    k: int = DEPTH,
    settings: StepSettings | None = None,
) -> list[StepsResult]:
    plans = {text: PLANS[text] for text in questions}
    settings = settings or StepSettings()
    finds = Names() if names is None else names
    found = step_through(plans, search, search.whole(plans), finds, k, settings=settings)
    return [found[text] for text in questions]


def _asked(search: MadeUp) -> list[tuple[str, str]]:
    rounds = zip(search.asked, search.kinds, strict=True)
    return [pair for texts, kinds in rounds for pair in zip(texts, kinds, strict=True)]


def test_names_take_the_place_of_phrases_from_the_inside_out() -> None:
    phrase = "the country where {} was born"
    names = ["Sibelius", "Sibelius (composer)"]
    search = MadeUp({COMPOSER_PHRASE: ["p1"], phrase.format(", ".join(names)): ["p2"]})
    held = Names({"p1": [names[1], names[0], "Sunday", "12 km"], "p2": ["Finland", "Sibelius"]})
    (found,) = _answer([NESTED], search, held, settings=StepSettings(passages=1, sentences=3))
    question = f"Who leads {phrase}?"
    assert search.asked == [
        [COMPOSER_PHRASE],
        [phrase.format(", ".join(names))],
        [
            question.format(", ".join(names)),
            "Who leads Finland?",
            question.format(names[0]),
            question.format(names[1]),
            "Who leads Finland?",
        ],
    ]
    assert search.kinds == [["phrase"], ["phrase"], ["joint", "joint", *["single"] * 3]]
    assert found.searches == 7
    inner, outer = found.chain
    assert (inner.phrase, inner.asked, inner.wanted) == (COMPOSER_PHRASE, COMPOSER_PHRASE, "person")
    assert (outer.asked, outer.level) == (phrase.format(", ".join(names)), 2)
    name, title = inner.candidates
    assert (name.name, name.passage, name.row, name.confidence) == (names[0], "p1", 0, 1)
    assert (title.name, title.row) == (names[1], -1)
    assert title.confidence == pytest.approx(StepSettings().title)
    assert [one.name for one in outer.candidates] == ["Finland"]
    assert all(one.put_in for step in found.chain for one in step.candidates)


def test_what_is_compared_is_asked_about_alone() -> None:
    search = MadeUp({"Which film is older, Alpha?": ["p1"], "Which film is older, Omega?": ["p2"]})
    names = Names({"p1": ["Alpha", "Ann Lee"], "p2": ["Omega", "Bo Li", "May 1990"]})
    (found,) = _answer([COMPARED], search, names)
    assert search.asked[0] == ["Which film is older, Alpha?", "Which film is older, Omega?"]
    assert search.asked[1] == ["Which film is older, Ann Lee?", "Which film is older, Bo Li?"]
    assert [step.candidates[0].name for step in found.chain] == ["Ann Lee", "Bo Li"]


def test_scores_add_up_as_in_the_obvious_sum() -> None:
    search, settings = MadeUp(), StepSettings()
    (found,) = _answer([NESTED], search, k=40)
    expected = {hit.id: hit.score for hit in search.find(NESTED).ranking.hits}
    for kind, weight in (
        ("joint", settings.joint_weight),
        ("single", settings.weight),
        ("phrase", settings.phrase_weight),
    ):
        texts = [text for text, own in _asked(search) if own == kind]
        best: dict[str, float] = {}
        for text in texts:
            for hit in search.find(text).ranking.hits:
                best[hit.id] = max(best.get(hit.id, 0.0), hit.score)
        for id_, score in best.items():
            expected[id_] = expected.get(id_, 0.0) + weight * score
    first = search.find(NESTED).ranking.hits[0].id
    expected[first] = max(expected.values())
    assert found.ranking.hits[0].id == first
    assert {hit.id: hit.score for hit in found.ranking.hits} == pytest.approx(expected)
    assert [hit.rank for hit in found.ranking.hits] == [*range(1, len(expected) + 1)]
    for hit in found.ranking.hits:
        assert hit.sources
        assert sum(source.share for source in hit.sources) == pytest.approx(hit.score)


@given(st.integers(1, DEPTH + 2))
def test_without_a_plan_it_is_the_inner_route_bit_for_bit(k: int) -> None:
    search = MadeUp()
    (found,) = _answer([PLAIN], search, k=k)
    inner = search.find(PLAIN).ranking
    assert found == StepsResult(replace(inner, hits=inner.hits[:k]))
    assert search.asked == []


@given(st.permutations([NESTED, COMPARED, PLAIN, NESTED]), st.integers(1, 4))
def test_neither_order_nor_batch_changes_anything(questions: list[str], size: int) -> None:
    alone = {text: _answer([text], MadeUp())[0] for text in PLANS}
    together = [
        found
        for start in range(0, len(questions), size)
        for found in _answer(questions[start : start + size], MadeUp())
    ]
    assert together == [alone[text] for text in questions]


def test_searches_of_a_level_go_together_and_none_twice() -> None:
    search = MadeUp()
    _answer([NESTED, COMPARED, NESTED, PLAIN], search)
    assert len(search.asked) == 3
    asked = _asked(search)
    assert len(asked) == len(set(asked))


@given(st.sets(st.integers(0, 39), min_size=1))
def test_what_a_filter_keeps_out_takes_no_part(allowed: set[int]) -> None:
    names = Names()
    for found in _answer(list(PLANS), MadeUp(allowed=allowed), names):
        assert {int(hit.id[1:]) for hit in found.ranking.hits} <= allowed
        for step in found.chain:
            assert {int(one.passage[1:]) for one in step.candidates} <= allowed
    assert {int(id_[1:]) for id_ in names.read} <= allowed


@given(
    st.integers(1, 30), st.integers(1, 4), st.integers(1, 12), st.integers(1, 3), st.floats(0, 1)
)
def test_bounds_hold(searches: int, passages: int, most: int, levels: int, least: float) -> None:
    settings = StepSettings(levels, passages, candidates=most, searches=searches, least=least)
    for question in (NESTED, COMPARED):
        search = MadeUp()
        (found,) = _answer([question], search, settings=settings)
        assert sum(map(len, search.asked)) == found.searches <= searches
        assert len(search.asked) <= levels + 1
        assert all(len(step.candidates) <= max(most, 4) for step in found.chain)


@given(st.integers(1, 30), st.sampled_from([NESTED, COMPARED]))
def test_names_are_put_in_where_a_search_has_them(searches: int, question: str) -> None:
    names = Names({f"p{n}": [f"Name {n:02}", f"Other {n:02}"] for n in range(40)})
    search = MadeUp()
    (found,) = _answer([question], search, names, settings=StepSettings(searches=searches))
    asked = [text for texts in search.asked for text in texts]
    used = {one.name for step in found.chain for one in step.candidates if one.put_in}
    for step in found.chain:
        for one in step.candidates:
            # A name may be put in for another phrase, and not for this one.
            is_asked = any(one.name in text for text in asked)
            assert one.put_in == is_asked or (is_asked and one.name in used)


HOSTILE = st.one_of(
    st.text(max_size=100),
    st.sampled_from(
        [
            *("<script>alert('x')</script>", '"quotes" and “more”', "x" * 10_000, "\x00\n\t "),
            *("{0} %s \\1", "...", "the composer of Finlandia", "'s"),
        ]
    ),
)


@given(st.lists(HOSTILE, max_size=3), st.lists(HOSTILE, max_size=3))
def test_hostile_names_are_words_to_search_for_or_nothing(one: list[str], two: list[str]) -> None:
    names = Names({f"p{n}": (one, two)[n % 2] for n in range(40)})
    for question in (NESTED, COMPARED):
        search = MadeUp()
        (found,) = _answer([question], search, names)
        assert all(text.strip() for texts in search.asked for text in texts)
        for text, kind in _asked(search):
            assert len(text) <= len(question) + (1 if kind == "single" else 8) * 82
        kept = [candidate.name for step in found.chain for candidate in step.candidates]
        assert all(name == " ".join(name.split()) for name in kept)
        assert all(plain_words(name) and len(name) <= 80 for name in kept)


def test_a_chain_that_goes_round_in_circles_ends() -> None:
    question = "Who is the friend of the friend of the friend of Ann?"
    step = _step(question, "the friend of Ann")
    for phrase in ("the friend of " * 2 + "Ann", "the friend of " * 3 + "Ann"):
        step = _step(question, phrase, step)
    names = Names({f"p{n}": ["Ann", "Bo", "the friend of Ann", "the Bo"] for n in range(40)})
    search = MadeUp()
    settings, whole = StepSettings(levels=3, sentences=3), search.whole([question])
    plans = {question: Plan((step,))}
    (found,) = step_through(plans, search, whole, names, DEPTH, settings=settings).values()
    around = "Who is the friend of the friend of Bo?"
    # Nobody stands for two persons of one chain.
    assert search.asked == [["the friend of Ann"], ["the friend of Bo"], [around] * 2]
    assert [[one.name for one in step.candidates] for step in found.chain] == [["Bo"], []]


@pytest.mark.parametrize("looks", range(5))
def test_what_was_found_in_time_counts(looks: int) -> None:
    search, seen = MadeUp(), 0

    def is_late() -> bool:
        nonlocal seen
        seen += 1
        return seen > looks

    plans = {text: PLANS[text] for text in (NESTED, PLAIN)}
    whole = search.whole(plans)
    found = step_through(plans, search, whole, Names(), DEPTH, is_late=is_late)
    nested, plain = found.values()
    assert len(search.asked) == min(looks, 3)
    assert nested.ranking.degraded == ("" if looks >= 3 else OUT_OF_TIME)
    assert len(nested.ranking.hits) == DEPTH
    assert plain == StepsResult(search.find(PLAIN).ranking)
    if not looks:
        hits = [(hit.id, hit.score) for hit in nested.ranking.hits]
        assert hits == [(hit.id, hit.score) for hit in search.find(NESTED).ranking.hits]


def test_a_long_question_without_a_plan_is_asked_with_names_behind_it() -> None:
    search = MadeUp({PLAIN: ["p1", "p2"]})
    names = Names({"p1": ["Paris", "Seine", "12 km"], "p2": ["Lyon"]})
    plans, whole = {PLAIN: Plan(open=True)}, search.whole([PLAIN])
    settings = StepSettings(open_weight=1.0)
    (found,) = step_through(plans, search, whole, names, DEPTH, settings=settings).values()
    (asked,) = search.asked
    assert sorted(asked[0].removeprefix(PLAIN + " ").split(", ")) == ["Lyon", "Paris", "Seine"]
    assert found.searches == 1
    (told,) = found.chain
    assert (told.phrase, [one.put_in for one in told.candidates]) == (PLAIN, [True] * 3)
    expected = {hit.id: hit.score for hit in search.find(PLAIN).ranking.hits}
    for hit in search.find(asked[0]).ranking.hits:
        expected[hit.id] = expected.get(hit.id, 0.0) + hit.score
    first = search.find(PLAIN).ranking.hits[0].id
    best = sorted(expected, key=lambda id_: (id_ != first, -expected[id_]))[:DEPTH]
    assert [hit.id for hit in found.ranking.hits] == best
    nothing = Names({f"p{n}": [] for n in range(40)})
    (same,) = step_through(plans, search, whole, nothing, DEPTH, settings=settings).values()
    assert same == StepsResult(search.find(PLAIN).ranking)


def _over(ranking: Ranking) -> StepsResult:
    """The result where every search finds the same."""
    base = InnerResult(ranking, np.ones(2, np.float32))
    plans = {NESTED: PLANS[NESTED]}
    found = step_through(
        plans, lambda texts: [base] * len(texts), lambda: {NESTED: base}, Names(), 3
    )
    return found[NESTED]


def test_an_inner_route_that_finds_nothing() -> None:
    found = _over(Ranking("fusion", (), 0, "nothing to search"))
    assert (found.ranking.hits, found.ranking.degraded) == ((), "nothing to search")


def test_dates_stand_for_dates_alone() -> None:
    names = Names({f"p{n}": ["May 1865", "Jean Sibelius"] for n in range(40)})
    for wanted, expected in (("person", "Jean Sibelius"), ("date", "May 1865")):
        plan = Plan((replace(COMPOSER, wanted=wanted),))
        search = MadeUp()
        plans, whole = {NESTED: plan}, search.whole([NESTED])
        (found,) = step_through(plans, search, whole, names, 3).values()
        assert [one.name for one in found.chain[0].candidates] == [expected]
        assert search.asked[-1] == [NESTED.replace(COMPOSER_PHRASE, expected)] * 2


def test_hits_of_an_unfused_route_have_no_other_source() -> None:
    (hit,) = _over(Ranking("dense", (RankedHit("p1", 1.0, 1),), 1)).ranking.hits
    assert [source.retriever for source in hit.sources] == ["steps"]


@pytest.mark.parametrize(
    "name", ["May 1865", "1990s", "the 12th century", "Sunday", "early 2001", "three years"]
)
def test_dates(name: str) -> None:
    assert is_date(name)
    kinds = ("date", "person", "place", "free")
    assert [kind for kind in kinds if fits(name, kind)] == ["date", "free"]


@pytest.mark.parametrize("name", ["less than seven metres", "42 km", "two", "about 1,200"])
def test_quantities(name: str) -> None:
    assert is_quantity(name)
    assert not fits(name, "work")
    assert fits(name, "number")


@pytest.mark.parametrize(
    "name", ["Alpha 7", "Euro 2008", "May", "Jean Sibelius", "1984 Summer Olympics", "", "東京"]
)
def test_names_with_numbers_are_names(name: str) -> None:
    assert not is_date(name)
    assert not is_quantity(name)
    assert fits(name, "work")
    assert not fits(name, "date")


def test_articles_and_marks_tell_no_names_apart() -> None:
    assert plain_words("The Café's") == plain_words("café") == "café"
    assert plain_words("the") == ""


@pytest.mark.parametrize(("scores", "place"), [([9, 8, 7, 6, 5, 4], 5), ([1] * 6, 2)])
def test_a_hop_with_a_place_is_among_the_first_passages(scores: list[float], place: int) -> None:
    search = MadeUp()
    hits = tuple(RankedHit(f"p{n}", score, n + 1) for n, score in enumerate(scores))
    base = InnerResult(Ranking("fusion", hits, 40), np.ones(2, np.float32))
    hop = Hop("p9", 0.0, "Ann", "p0", 0, among_first=True)
    plans = {PLAIN: Plan()}
    for hops, expected in (([hop], [place]), ([hop._replace(among_first=False)], [])):
        (found,) = step_through(
            plans, search, lambda: {PLAIN: base}, Names(), 5, hops=lambda *_, hops=hops: hops
        ).values()
        assert [hit.rank for hit in found.ranking.hits if hit.id == "p9"] == expected
