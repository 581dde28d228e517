"""A graph laid over another against one assembled of all passages at once."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.backends.conftest import ENTITY, PHRASE, unmarked
from wye.backends.layers import Layers
from wye.backends.store.corpus import Corpus, Mentions, TwoCorpora
from wye.backends.strings import Strings
from wye.backends.text import tokenise
from wye.backends.trigraph import assembly
from wye.backends.trigraph.assembly import assemble
from wye.backends.trigraph.lists import Lists
from wye.backends.trigraph.overlay import overlay
from wye.backends.trigraph.settings import AssemblySettings

PIECES = [
    *("[York]", "York", "[New York]", "New York", "[New York Times]", "New York Times", "Times"),
    *("[Ann's Cat]", "[Ann 's Cat]", "Ann's Cat", "[R&B]", "R&B Abe", "[Abe]", "Abe", "B Abe"),
    *("{salt}", "{warm salt}", "[salt]", "{York}", "{fog}", "Salt", "[abe]", "[...]", "of"),
]
TITLES = ["", "York", "New York (city)", "Times", "The Abe", "salt", "Ann's Cat", "?"]
NAMED = [unmarked(piece) for piece in PIECES]
LINES = st.lists(st.sampled_from(PIECES), max_size=4).map(" ".join)
BODIES = st.tuples(st.sampled_from(TITLES), st.lists(LINES, max_size=3))
IDS = st.sampled_from([*"bdfhjlnp", *(f"{d}#{n}" for d in "ckn" for n in range(3))])
STATES = st.dictionaries(IDS, BODIES, max_size=9)
CHANGES = st.dictionaries(IDS, st.none() | BODIES, max_size=4)
SETTINGS = st.builds(
    AssemblySettings,
    title_entities=st.booleans(),
    link_text=st.booleans(),
    noun_phrases=st.sampled_from(["on", "off", "auto"]),
)
State = dict[str, tuple[str, list[str]]]


class MarkedCorpus(Corpus):
    """Passages with marked texts, and of their arrays those that a graph is made of."""

    lines: list[str]

    def __init__(self, state: State) -> None:
        ids = sorted(state)
        lines = [
            (row, line)
            for row, id_ in enumerate(ids)
            for line in state[id_][1]
            if ENTITY.search(line) or PHRASE.search(line)
        ]
        own = {
            "ids": ids,
            "titles": [state[id_][0] for id_ in ids],
            "documents": [id_.partition("#")[0] for id_ in ids],
            "chunks": np.array([int(id_.partition("#")[2] or 0) for id_ in ids], np.int32),
            "sentence_passage": np.array([row for row, _ in lines], np.int32),
            "entities": mentions([ENTITY.findall(line) for _, line in lines]),
            "phrases": mentions([PHRASE.findall(line) for _, line in lines]),
            "two": None,
            "lines": [unmarked(line) for _, line in lines],
        }
        self.__dict__.update(own)  # frozen

    def iter_sentence_texts(self) -> Iterator[list[str]]:
        yield self.lines


def mentions(lists: list[list[str]]) -> Mentions:
    names = sorted({name for own in lists for name in own})
    return Mentions(
        np.array([n for n, own in enumerate(lists) for _ in own], np.int32),
        np.array([names.index(name) for own in lists for name in own], np.int32),
        Strings(names),
    )


def two_of(before: State, after: State) -> TwoCorpora:
    base = MarkedCorpus(before)
    added = MarkedCorpus({i: body for i, body in after.items() if before.get(i) != body})
    gone = [row for row, i in enumerate(base.ids) if after.get(i) != before[i]]
    every = sorted(after)
    numbers = np.array([every.index(id_) for id_ in added.ids], np.int64)
    passages = Layers(len(base), np.array(gone, np.int64), numbers)
    sentences = passages.owned(base.sentence_passage, added.sentence_passage)
    return TwoCorpora(base, added, passages, sentences)


def check_lists(one: Lists, other: Lists, chance: np.random.Generator) -> None:
    plain = one.plain(), other.plain()
    for name in ("starts", "items"):
        assert np.array_equal(*(getattr(each, name) for each in plain)), name
    assert np.array_equal(one.sizes, other.sizes)
    for size in (0, 1, 5) if len(one) else ():
        chosen = chance.integers(0, len(one), size)
        assert np.array_equal(one.of(chosen), other.of(chosen))
        assert np.array_equal(one.lengths(chosen), other.lengths(chosen))
        for which in chosen.tolist():
            assert np.array_equal(one.one(which), other.one(which))


def check(before: State, after: State, chosen: AssemblySettings) -> bool:
    two = two_of(before, after)
    base = assemble(two.base, chosen)
    expected = assemble(MarkedCorpus(after), chosen)
    graph = overlay(two, base, chosen)
    if graph is None:
        return False
    chance = np.random.default_rng(0)
    assert [*graph.keys] == [*expected.keys]
    for key in ["york", "new york", "salt", "ann's cat", "nobody", *expected.keys]:
        assert graph.keys.find(key) == expected.keys.find(key)
    assert graph.display_names.all() == expected.display_names.all()
    assert graph.is_phrase.tolist() == expected.is_phrase.tolist()
    assert graph.degrees.tolist() == expected.degrees.tolist()
    assert graph.owners.tolist() == expected.owners.tolist()
    for text in [*NAMED, *MarkedCorpus(after).lines]:
        links = expected.names.find(tokenise(text))
        assert graph.names.find(tokenise(text)) == links
        hidden = [link.entity for link in links[::2]]
        fewer = expected.names.without(hidden[:1]).without(hidden[1:]).find(tokenise(text))
        assert graph.names.without(hidden[:1]).without(hidden[1:]).find(tokenise(text)) == fewer
    for one, other in (
        (graph.titles, expected.titles),
        (graph.titled, expected.titled),
        (graph.mentions.sentences, expected.mentions.sentences),
        (graph.mentions.entities, expected.mentions.entities),
    ):
        check_lists(one, other, chance)
    return True


@settings(max_examples=400, deadline=None)
@given(STATES, CHANGES, SETTINGS)
def test_it_equals_a_graph_of_all_passages_to_the_last_bit(
    before: State, changes: dict[str, tuple[str, list[str]] | None], chosen: AssemblySettings
) -> None:
    after = {i: body for i, body in {**before, **changes}.items() if body is not None}
    with pytest.MonkeyPatch.context() as patch:
        # Windows of noun phrases that some change, by themselves or by the number of passages.
        patch.setattr(assembly, "MAX_PHRASE_PASSAGES", 2)
        patch.setattr(assembly, "MAX_PHRASE_SHARE", 0.35)
        check(before, after, chosen)
