"""What a shard answers: a version of an index, asked for its part of what all of them find.

Arguments and answers are plain values, to be sent over any wire. Entities go by their keys.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from backends.errors import FilterError
from backends.numerics import half_products, products_of_all, sums, top_rows
from backends.trigraph.linking import says_enough
from backends.trigraph.pagerank import reciprocal, share_of_mentions
from backends.trigraph.prior import DOUBT
from backends.trigraph.retriever import FilteredGraph
from backends.types import Float32, Float64, Int32, Int64, Mask, Query, Scores
from backends.words import SentenceWords, tokenise
from router.session import Snapshot

if TYPE_CHECKING:
    from scipy import sparse

Hits = list[tuple[str, float]]
WALKS = 256
"""Walks under way that are remembered; one that was given up is forgotten by and by."""
_KNOWN = 100_000


@dataclass(slots=True)
class _Walk:
    """A question's walk, between two calls.

    Attributes:
        edges: Among the passages that take part; theirs is `allowed`, None for all.
        near: (n,) similarities.
        lexical: (n,) BM25.
        prior: (n,) what restarts.
        source: (n,) the same, and a first step from entities.
        mass: (n,) so far.
        passed: (e + j,) mass of entities and chunk edges after the last step.
        foreign: Of names that are no entity here the passages that have them in their text, how
            often, and the shares of edges to them.
    """

    edges: "_Edges"
    allowed: Mask | None
    near: Float32
    lexical: Float32
    prior: Float64
    source: Float64
    mass: Float64
    passed: Float64
    foreign: dict[str, tuple[Int64, Int64, Float64]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Edges:
    """Between passages and entities.

    Attributes:
        shares: (n, e + j) float64 shares of each passage's mentions.
        weight: (e + j,) sums of its columns.
    """

    shares: "sparse.csc_array"
    weight: Float64

    @classmethod
    def of(cls, counts: "sparse.csc_array") -> "_Edges":
        """Of (n, e + j) mentions."""
        shares = share_of_mentions(counts)
        owners = np.repeat(np.arange(shares.shape[1]), np.diff(shares.indptr))
        return cls(shares, sums(owners, shares.data, shares.shape[1]))


class Shard:
    """Answers for one version; may be called in several threads."""

    def __init__(self, snapshot: Snapshot) -> None:
        """Arrange nothing yet."""
        self.snapshot = snapshot
        self._walks: OrderedDict[str, _Walk] = OrderedDict()
        self._lock = Lock()
        self._known: dict[str, int] = {}  # keys that were looked up, and their entities

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """Answer one of `CALLS`.

        Raises:
            KeyError: There is no such call, or no such walk any more.
        """
        return CALLS[name](self, **arguments)

    def walks(self, walk: str) -> bool:
        """Whether a walk is under way here."""
        return walk in self._walks

    def about(self) -> dict[str, Any]:
        """Version, passages, their terms, and whether noun phrases are entities."""
        lexical, graph = self.snapshot.lexical, self.snapshot.graph.graph
        return {
            "version": self.snapshot.version,
            "passages": len(self.snapshot),
            "terms": lexical.total_terms,
            "phrases": bool(graph.is_phrase.any()),
        }

    def dense(
        self,
        vectors: Sequence[Sequence[float]],
        k: int,
        filter: object | None = None,  # noqa: A002 - the word that vector stores use
        ids: Sequence[str] | None = None,
    ) -> list[tuple[Hits, int]]:
        """Of each vector the nearest passages, and of how many."""
        queries = [Query("", np.asarray(vector, np.float32)) for vector in vectors]
        found = self.snapshot.dense.search(queries, k, self._allowed(filter, ids))
        return [([(hit.id, hit.score) for hit in one.hits], one.candidates) for one in found]

    def frequencies(self, terms: Sequence[str]) -> list[int]:
        """How many passages have each term."""
        return [self.snapshot.lexical.frequency(term) for term in terms]

    def lexical(
        self,
        questions: Sequence[Sequence[tuple[str, float]]],
        mean: float,
        k: int,
        filter: object | None = None,  # noqa: A002
    ) -> list[tuple[Hits, int]]:
        """The same by BM25: of each question its terms with their weights in the whole corpus."""
        allowed, arm = self._allowed(filter), self.snapshot.lexical
        scores = (arm.score_weighed(question, mean) for question in questions)
        found = [arm.rank(Scores(None, each), k, allowed) for each in scores]
        return [([(hit.id, hit.score) for hit in one.hits], one.candidates) for one in found]

    def names(self, texts: Sequence[Sequence[str]]) -> list[list[tuple[int, int, str]]]:
        """Of each text the longest name from each token on: its start, its tokens, its key."""
        graph = self.snapshot.graph.graph
        return [
            [
                (link.start, link.length, graph.keys[link.entity])
                for link in graph.names.longest(one)
            ]
            for one in texts
        ]

    def entities(
        self,
        keys: Sequence[str],
        filter: object | None = None,  # noqa: A002
    ) -> list[tuple[int, int, bool]]:
        """Of each key how many passages mention it and have it for a title, and if it is a name."""
        numbers, known = self._numbers(keys)
        found: list[tuple[int, int, bool]] = [(0, 0, False)] * len(keys)
        view, is_phrase = self._view(filter), self.snapshot.graph.graph.is_phrase
        mentioned, titled = view.degree(numbers).tolist(), view.titles(numbers)[1].tolist()
        for place, number, *counts in zip(known, numbers.tolist(), mentioned, titled, strict=True):
            found[place] = (counts[0], counts[1], not is_phrase[number])
        return found

    def sentences(
        self,
        vector: Sequence[float],
        keys: Sequence[str],
        most: int,
        filter: object | None = None,  # noqa: A002
    ) -> list[list[tuple[float, int, list[str], list[str], list[int]]]]:
        """Of each key the sentences nearest to a vector.

        Returns:
            How near, which, what it mentions, its words, and where one begins like a name.
        """
        graph, corpus = self.snapshot.graph.graph, self.snapshot.corpus
        allowed, query = self._allowed(filter), np.asarray(vector, np.float32)
        found: list[list[tuple[float, int, list[str], list[str], list[int]]]] = [[] for _ in keys]
        numbers, known = self._numbers(keys)
        entities = dict(zip(known, numbers.tolist(), strict=True))
        for place, key in enumerate(keys):
            rows = (
                np.asarray(graph.mentions.sentences_of(entities[place]), np.int64)
                if place in entities
                else self._sentences_with(key)
            )
            near = half_products(corpus.sentence_vectors, rows, query)
            if allowed is not None:
                near[~allowed[corpus.sentence_passage[rows]]] = -1
            for best in top_rows(near, most).tolist():
                others = [graph.keys[e] for e in graph.mentions.entities_of(int(rows[best]))]
                row = int(rows[best])
                found[place].append((float(near[best]), row, others, *self._words_of(row)))
        return found

    def begin(  # noqa: PLR0917 - by name, over a wire
        self,
        walk: str,
        vector: Sequence[float],
        terms: Sequence[tuple[str, float]],
        mean: float,
        keys: Sequence[str],
        filter: object | None = None,  # noqa: A002
    ) -> dict[str, Any]:
        """Look at all passages for a question; what the scales of all shards are made of.

        Returns:
            `low` and `high` similarity and `best` BM25 of passages that take part, null where there
            are none; and of each key `counts` of passages, of titles, and the weight of its edges.
        """
        asked = np.asarray(vector, np.float32)[None]
        (near,) = products_of_all(self.snapshot.dense.vectors, asked)
        lexical = self.snapshot.lexical.score_weighed(terms, mean)
        allowed, none = self._allowed(filter), np.empty(0)
        view = self.snapshot.graph.filtered(allowed)
        edges = self._edges if allowed is None else _Edges.of(view.counts)
        with self._lock:
            self._walks[walk] = _Walk(edges, allowed, near, lexical, none, none, none, none)
            while len(self._walks) > WALKS:
                self._walks.popitem(last=False)
        own = near if allowed is None else near[allowed]
        best = lexical if allowed is None else lexical[allowed]
        counts = [(*each[:2], 0.0) for each in self.entities(keys, filter)]
        numbers, known = self._numbers(keys)
        for place, weight in zip(known, edges.weight[numbers].tolist(), strict=True):
            counts[place] = (*counts[place][:2], weight)
        for place in {*range(len(keys))} - {*known}:
            foreign = self._foreign(keys[place], allowed)
            if len(foreign[0]):
                self._walks[walk].foreign[keys[place]] = foreign
                counts[place] = (len(foreign[0]), 0, float(foreign[2].sum()))
        return {
            "low": float(own.min()) if len(own) else None,
            "high": float(own.max()) if len(own) else None,
            "best": float(best.max(initial=0.0)),
            "counts": counts,
        }

    def restart(  # noqa: PLR0917 - likewise
        self,
        walk: str,
        low: float,
        high: float,
        best: float,
        lexical_weight: float,
        active: Sequence[Sequence[Any]],
        most: int,
    ) -> dict[str, Any]:
        """Put a question's restart masses on the passages, and a first step from the entities.

        Args:
            low: Least similarity of any shard's passages; `high` is the most, `best` the most BM25.
            active: Of each active entity its key, value, mass, restart mass over the weight of all
                its edges, level, all its titled passages, and whether it is doubtful.
            most: Entities to tell of.

        Returns:
            `total` of the passages' masses, and `passed` as `step` gives it.
        """
        settings, state = self.snapshot.graph.settings, self._walks[walk]
        view, size = self.snapshot.graph.filtered(state.allowed), len(self.snapshot)
        near = (
            np.ones(size) if high <= low else (state.near.astype(np.float64) - low) / (high - low)
        )
        prior = state.lexical * (lexical_weight / best) if best > 0 else np.zeros(size)
        prior = settings.similarity_weight * (prior + near)
        numbers, known = self._numbers([each[0] for each in active])
        of = [active[place] for place in known]
        value, mass, shared, level, titled = (
            np.array([each[column] for each in of], np.float64) for column in (1, 2, 3, 4, 5)
        )
        rows, counts, lengths = view.mentions(numbers)
        each = np.repeat(value / level, lengths)
        bonus = sums(rows, each * np.log1p(counts.astype(np.float64)), size).astype(np.float64)
        first = np.zeros(len(state.edges.weight))
        first[numbers] = shared
        moved = state.edges.shares @ first
        for key, worth, _, given, step, *_ in active:
            if key in state.foreign:
                inside, often, shares = state.foreign[key]
                bonus[inside] += worth / step * np.log1p(often.astype(np.float64))
                moved[inside] += given * shares
        prior += np.log1p(bonus)
        prior *= settings.passage_weight
        heads, over = view.titles(numbers)
        sure = np.repeat(np.array([not each[6] for each in of], bool), over)
        closeness = np.where(sure, near[heads], near[heads] ** DOUBT)
        share = np.repeat(settings.title_weight * mass**2 / np.maximum(titled, 1), over)
        np.add.at(prior, heads, share * closeness)
        if state.allowed is not None:
            prior[~state.allowed] = 0
        state.prior, state.source = prior, prior + settings.damping * moved
        state.mass = state.source
        return {"total": float(prior.sum()), "passed": self._pass_on(state, most)}

    def masses(self, walk: str, keys: Sequence[str]) -> list[tuple[float, float]]:
        """Of each key the mass that passages pass on to it, and the weight of its edges."""
        state, (numbers, known) = self._walks[walk], self._numbers(keys)
        found = [(0.0, 0.0)] * len(keys)
        passed, weight = state.passed[numbers].tolist(), state.edges.weight[numbers].tolist()
        for place, *both in zip(known, passed, weight, strict=True):
            found[place] = (both[0], both[1])
        return found

    def step(
        self,
        walk: str,
        shared: Mapping[str, float],
        most: int,
    ) -> list[str]:
        """Walk from passages to entities and back.

        Args:
            shared: Of entities that other shards have too, the mass of all over the weight of all
                their edges. Of others it is that of here.
            most: Entities to tell of.

        Returns:
            The keys that the most mass is passed on to next.
        """
        state, damping = self._walks[walk], self.snapshot.graph.settings.damping
        numbers, known = self._numbers([*shared])
        values = [*shared.values()]
        spread = state.passed * reciprocal(state.edges.weight)
        spread[numbers] = [values[place] for place in known]
        state.mass = state.source + damping**2 * (state.edges.shares @ spread)
        return self._pass_on(state, most)

    def rank(self, walk: str, k: int) -> tuple[Hits, int]:
        """The passages with the most mass, and of how many; the walk is over."""
        with self._lock:
            state = self._walks.pop(walk)
        allowed, mass, ids = state.allowed, state.mass, self.snapshot.corpus.ids
        rows = np.arange(len(mass)) if allowed is None else np.flatnonzero(allowed)
        best = rows[top_rows(mass[rows], k)]
        return [(ids[row], float(mass[row])) for row in best.tolist()], len(rows)

    def explain(
        self, walk: str, keys: Sequence[str], ids: Sequence[str], sentences: Sequence[int] = ()
    ) -> dict[str, Any]:
        """What a walk, that is over, found here.

        Args:
            walk: Its name.
            keys: Of its active entities.
            ids: Of passages, here or elsewhere.
            sentences: Of here, that led from one entity to another.

        Returns:
            Of keys that are known here `entities`: their names and how many passages mention each.
            Of `passages` that are here their restart mass, their mass, and which keys they mention.
            Of `sentences` the passage and the text. All the mass that `settled` here.
        """
        with self._lock:
            state = self._walks.pop(walk)
        graph, corpus = self.snapshot.graph.graph, self.snapshot.corpus
        numbers, known = self._numbers(keys)
        mentioned: dict[str, Int32 | Int64] = {key: of[0] for key, of in state.foreign.items()}
        mentioned |= {
            keys[place]: graph.passages.one(number)
            for place, number in zip(known, numbers.tolist(), strict=True)
        }
        here = {id_: row for id_ in ids for row in corpus.rows([id_])}
        owners = corpus.sentence_passage
        texts = corpus.sentence_texts(np.array(sentences, np.int64)) if sentences else []
        return {
            "entities": {
                keys[place]: (graph.display_names.of(number), len(mentioned[keys[place]]))
                for place, number in zip(known, numbers.tolist(), strict=True)
            },
            "passages": {
                id_: (
                    float(state.prior[row]),
                    float(state.mass[row]),
                    [key for key in keys if key in mentioned and row in mentioned[key]],
                )
                for id_, row in here.items()
            },
            "sentences": [
                (corpus.ids[int(owners[row])], text)
                for row, text in zip(sentences, texts, strict=True)
            ],
            "settled": float(state.mass.sum()),
        }

    def passages(self, ids: Sequence[str]) -> list[dict[str, Any]]:
        """Those of some ids that are here."""
        found = self.snapshot.corpus.passages(ids)
        return [
            {
                "id": one.id,
                "title": one.title,
                "text": one.text,
                "metadata": dict(one.metadata),
                "document": one.document,
                "chunk": one.chunk,
            }
            for one in found
        ]

    def words(self, text: str, ids: Sequence[str]) -> dict[str, list[tuple[int, int]]]:
        """Of each passage that is here, which words of a question its title and its text have."""
        here = [id_ for id_ in ids if self.snapshot.corpus.rows([id_])]
        found = [self.snapshot.words_in(text, [id_]) for id_ in here]
        return {
            id_: [(word.titles, word.texts) for word in words]
            for id_, words in zip(here, found, strict=True)
        }

    def named(self, keys: Sequence[str], ids: Sequence[str]) -> dict[str, list[tuple[bool, bool]]]:
        """Of each passage that is here, whether each key is its title, and stands in it."""
        graph, corpus = self.snapshot.graph.graph, self.snapshot.corpus
        numbers, known = self._numbers(keys)
        found = {id_: [(False, False)] * len(keys) for id_ in ids if corpus.rows([id_])}
        rows = {id_: corpus.rows([id_])[0] for id_ in found}
        for place, number in zip(known, numbers.tolist(), strict=True):
            titled, mentioned = graph.titled.one(number), graph.passages.one(number)
            for id_, row in rows.items():
                found[id_][place] = (row in titled, row in mentioned)
        return found

    def candidates(
        self, id_: str, vector: Sequence[float], sentences: int
    ) -> list[tuple[str, str]]:
        """The title of a passage, and names of its sentences near a vector, each with the sentence.

        Nothing where the passage is not here.
        """
        if not self.snapshot.corpus.rows([id_]):
            return []
        passages = self.snapshot.passages
        found = passages.names(id_, np.asarray(vector, np.float32), sentences)
        return [(name, passages.sentence(row) if row >= 0 else "") for name, row in found]

    def _pass_on(self, state: _Walk, most: int) -> list[str]:
        """Have passages pass their mass on; keys of the entities that get the most."""
        # Shares of a passage add up to 1: all that it passes on, but for none without entities.
        state.passed = state.edges.shares.T @ state.mass
        keys = self.snapshot.graph.graph.keys
        best = top_rows(state.passed[: len(keys)], most)
        return [keys[entity] for entity in best.tolist() if state.passed[entity] > 0]

    def _foreign(self, key: str, allowed: Mask | None) -> tuple[Int64, Int64, Float64]:
        """Passages in whose text a name stands that is no entity here; see `_Walk.foreign`."""
        rows = self.snapshot.corpus.sentence_passage[self._sentences_with(key)]
        passages, often = np.unique(rows, return_counts=True)
        if allowed is not None:
            passages, often = passages[allowed[passages]], often[allowed[passages]]
        shares = often / (self.snapshot.graph.graph.totals[passages] + often)
        return passages.astype(np.int64), often, shares

    def _sentences_with(self, key: str) -> Int64:
        """Sentences with a name that is no entity here, and that others link word for word."""
        words = self._sentence_words
        if words is None or not says_enough(key):
            return np.empty(0, np.int64)
        ground = self.snapshot.graph.graph.ground
        name = tuple(ground.words.find(token.casefold()) for token in tokenise(key))
        if min(name, default=-1) < 0:
            return np.empty(0, np.int64)
        return np.unique(ground.starts.sentences_with(words, name))

    def _words_of(self, sentence: int) -> tuple[list[str], list[int]]:
        """The words of a sentence, and places of those that begin like a name."""
        words = self._sentence_words
        if words is None:
            return [], []
        ground = self.snapshot.graph.graph.ground
        end = int(ground.starts.ends[sentence])
        packed = words.packed[end - int(words.lengths[sentence]) : end - 1]
        starts: list[int] = np.flatnonzero(packed & 1).tolist()
        return [self._spelt[number] for number in (packed >> 1).tolist()], starts

    @cached_property
    def _spelt(self) -> Sequence[str]:
        """Words by their numbers."""
        return self.snapshot.graph.graph.ground.words.table.strings

    @cached_property
    def _sentence_words(self) -> SentenceWords | None:
        """All sentences in words; None where they are not linked, or lie in two layers."""
        words = self.snapshot.graph.graph.ground.sentences
        return words if len(words.lengths) == len(self.snapshot.corpus.sentence_passage) else None

    def _numbers(self, keys: Sequence[str]) -> tuple[Int64, list[int]]:
        """Entities of keys that are known here, and the places of these."""
        find = self.snapshot.graph.graph.keys.find
        for key in keys:
            if key not in self._known:
                if len(self._known) >= _KNOWN:
                    self._known = {}
                self._known[key] = find(key)
        found = [self._known[key] for key in keys]
        known = [place for place, number in enumerate(found) if number >= 0]
        return np.array([found[place] for place in known], np.int64), known

    def _allowed(self, filter_: object | None, ids: Sequence[str] | None = None) -> Mask | None:
        try:
            allowed = self.snapshot.allowed(filter_)
        except FilterError:  # about a key that no passage of this shard has
            allowed = np.zeros(len(self.snapshot), bool)
        if ids is None:
            return allowed
        named = self.snapshot.passages.mask(ids)
        return named if allowed is None else named & allowed

    def _view(self, filter_: object | None) -> FilteredGraph:
        return self.snapshot.graph.filtered(self._allowed(filter_))

    @cached_property
    def _edges(self) -> _Edges:
        """Of all passages."""
        return _Edges.of(self.snapshot.graph.graph.counts)


CALLS: Mapping[str, Callable[..., Any]] = {
    name: getattr(Shard, name)
    for name in (
        "about",
        "dense",
        "frequencies",
        "lexical",
        "names",
        "entities",
        "sentences",
        "begin",
        "restart",
        "masses",
        "step",
        "rank",
        "explain",
        "passages",
        "words",
        "named",
        "candidates",
    )
}
"""What may be asked of a shard, by name."""
