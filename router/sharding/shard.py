"""A shard: one version of an index that contributes its part to the answers of all shards.

Arguments and answers are plain values that any protocol can carry. Entities are identified by keys.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import methodcaller
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from backends.filters import parse_filter
from backends.numerics import half_products, products_of_all, sums, top_rows
from backends.trigraph.linking import says_enough
from backends.trigraph.pagerank import reciprocal, share_of_mentions
from backends.trigraph.prior import DOUBT
from backends.trigraph.promotion import names_in, promoted, reach
from backends.trigraph.seeds import allowed_names
from backends.types import Float32, Float64, Int32, Int64, Mask, Query, Scores
from backends.words import SentenceWords, tokenise
from router.session import Snapshot

if TYPE_CHECKING:
    from scipy import sparse

Hits = list[tuple[str, float]]
WALKS = 256
"""Most walks in progress that are kept; the oldest are dropped, so abandoned ones go away."""
_KNOWN = 100_000


@dataclass(slots=True)
class _Walk:
    """State of a question's walk between two calls.

    Attributes:
        edges: Edges of the allowed passages.
        allowed: Mask (n,) of these passages; None for all.
        near: Similarities, (n,).
        lexical: BM25 scores, (n,).
        prior: Restart masses of the passages, (n,).
        source: The prior plus the first step from the entities, (n,).
        mass: Masses of the passages so far, (n,).
        passed: Masses of entities and chunk edges after the last step, (e + j,).
        foreign: Key of a name that is no entity here -> rows of the passages with it in their text,
            its counts there, and the shares of the edges to it.
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
    """Edges between passages and entities.

    Attributes:
        shares: Shares of each passage's mentions, (n, e + j) float64.
        weight: Sums of its columns, (e + j,).
    """

    shares: "sparse.csc_array"
    weight: Float64

    @classmethod
    def of(cls, counts: "sparse.csc_array") -> "_Edges":
        """The edges from counts of mentions (n, e + j)."""
        shares = share_of_mentions(counts)
        owners = np.repeat(np.arange(shares.shape[1]), np.diff(shares.indptr))
        return cls(shares, sums(owners, shares.data, shares.shape[1]))


class Shard:
    """Answers for one version; may be called in several threads."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._walks: OrderedDict[str, _Walk] = OrderedDict()
        self._lock = Lock()
        self._known: dict[str, int] = {}  # cached look-ups of entities by key

    def call(self, name: str, arguments: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """Answer one of `CALLS`.

        Raises:
            KeyError: There is no such call, or the walk is not kept any more.
        """
        return CALLS[name](self, **arguments)

    def walks(self, walk: str) -> bool:
        """Whether a walk is in progress here."""
        return walk in self._walks

    def about(self) -> dict[str, Any]:
        """The version, counts of passages and terms, and whether noun phrases are entities."""
        lexical, graph = self.snapshot.lexical, self.snapshot.graph.graph
        return {
            "version": self.snapshot.version,
            "passages": len(self.snapshot),
            "terms": lexical.total_terms,
            "phrases": bool(graph.is_phrase.any()),
        }

    def kinds(self, keys: Sequence[str]) -> dict[str, list[int]]:
        """`Columns.kinds` of some metadata keys."""
        found = self.snapshot.columns.kinds(keys)
        return {key: sorted(kinds) for key, kinds in found.items()}

    def keys(self) -> list[str]:
        """All metadata keys."""
        return sorted(self.snapshot.columns.keys())

    def dense(
        self,
        vectors: Sequence[Sequence[float]],
        k: int,
        filter: object | None = None,  # noqa: A002 - the word that vector stores use
        ids: Sequence[str] | None = None,
    ) -> list[tuple[Hits, int]]:
        """For each vector, the k nearest passages and the number of candidates."""
        queries = [Query("", np.asarray(vector, np.float32)) for vector in vectors]
        found = self.snapshot.dense.search(queries, k, self._allowed(filter, ids))
        return [([(hit.id, hit.score) for hit in one.hits], one.candidates) for one in found]

    def frequencies(self, terms: Sequence[str]) -> list[int]:
        """Number of passages with each term."""
        return [self.snapshot.lexical.frequency(term) for term in terms]

    def lexical(
        self,
        questions: Sequence[Sequence[tuple[str, float]]],
        mean: float,
        k: int,
        filter: object | None = None,  # noqa: A002
    ) -> list[tuple[Hits, int]]:
        """For each question, the k best passages by BM25 and the number of candidates.

        Args:
            questions: Terms of each question with their weights in the whole corpus.
            mean: Mean number of terms of a passage in the whole corpus.
        """
        allowed, arm = self._allowed(filter), self.snapshot.lexical
        scores = (arm.score_weighed(question, mean) for question in questions)
        found = [arm.rank(Scores(None, each), k, allowed) for each in scores]
        return [([(hit.id, hit.score) for hit in one.hits], one.candidates) for one in found]

    def names(
        self,
        texts: Sequence[Sequence[str]],
        filter: object | None = None,  # noqa: A002
    ) -> list[list[tuple[int, int, str]]]:
        """For each tokenised text, the longest name from each token: start, length, key.

        With a filter, names of entities that allowed passages mention.
        """
        graph = self.snapshot.graph.graph
        names = graph.names
        if filter is None:
            found = [names.longest(text) for text in texts]
        else:
            degree = self.snapshot.graph.filtered(self._allowed(filter)).degree
            calls = (methodcaller("longest", text) for text in texts)
            found = [allowed_names(names, call, degree) for call in calls]
        return [[(link.start, link.length, graph.keys[link.entity]) for link in of] for of in found]

    def entities(
        self,
        keys: Sequence[str],
        filter: object | None = None,  # noqa: A002
    ) -> list[tuple[int, int, bool]]:
        """For each key, how many passages mention it and are titled so, and if it is a name."""
        numbers, known = self._numbers(keys)
        found: list[tuple[int, int, bool]] = [(0, 0, False)] * len(keys)
        view = self.snapshot.graph.filtered(self._allowed(filter))
        is_phrase = self.snapshot.graph.graph.is_phrase
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
        """For each key, the sentences nearest to a vector.

        Returns:
            Similarity, row, keys of the mentions, words, and positions of the words that begin like
            a name.
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
        """Begin a walk by scoring all passages; the answers give the scales for all shards.

        Returns:
            `low` and `high` similarity of allowed passages, null without any, their `best` BM25,
            and `counts` for each key: passages, passages titled so, and the weight of its edges.
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
        """Compute the passages' restart masses, and the first step from the entities.

        Args:
            low: Lowest similarity over all shards; `high` is the highest, `best` the highest BM25.
            active: For each active entity its key, value, mass, restart mass over the weight of all
                its edges, level, number of titled passages, and whether it is doubtful.
            most: How many entities to return.

        Returns:
            `total`, the sum of the passages' restart masses, and `passed`, as `step` returns it.
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
        bonus = sums(rows, each * np.log1p(counts.astype(np.float64)), size)
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
        """For each key, the mass that passages pass on to it, and the weight of its edges."""
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
            shared: Key of an exchanged entity -> its mass over the weight of its edges, both summed
                over all shards. For other entities, those of this shard are used.
            most: How many entities to return.

        Returns:
            The keys of the entities that will receive the most mass in the next step.
        """
        state, damping = self._walks[walk], self.snapshot.graph.settings.damping
        numbers, known = self._numbers([*shared])
        values = [*shared.values()]
        spread = state.passed * reciprocal(state.edges.weight)
        spread[numbers] = [values[place] for place in known]
        state.mass = state.source + damping**2 * (state.edges.shares @ spread)
        return self._pass_on(state, most)

    def first(self, walk: str, k: int) -> list[tuple[str, float, list[str]]]:
        """The k passages with the most mass, with the keys of the names in each but its own."""
        state, corpus, graph = self._walks[walk], self.snapshot.corpus, self.snapshot.graph.graph
        best = [row for row in top_rows(state.mass, k).tolist() if state.mass[row] > 0]
        by, entities = names_in(graph, corpus, np.array(best, np.int64))
        named: list[list[str]] = [[] for _ in best]
        for place, entity in zip(by.tolist(), entities.tolist(), strict=True):
            if best[place] not in graph.titled.one(entity):
                named[place].append(graph.keys[entity])
        ids, mass = corpus.ids, state.mass
        return [(ids[row], float(mass[row]), own) for row, own in zip(best, named, strict=True)]

    def promote(
        self, walk: str, named: Sequence[tuple[str, float, int]], share: float
    ) -> list[tuple[str, int]]:
        """Raise the masses of passages whose titles others mention; see `promotion.promoted`.

        Args:
            named: Key of each title, mass of the passage that mentions it, and number of passages
                that do.

        Returns:
            Id of each passage that was moved up, and the position of its name in `named`.
        """
        state, ids = self._walks[walk], self.snapshot.corpus.ids
        numbers, known = self._numbers([key for key, _, _ in named])
        titled, over = self.snapshot.graph.filtered(state.allowed).titles(numbers)
        source = np.array([mass for _, mass, _ in named], np.float64)
        power = reach(share, np.array([passages for _, _, passages in named], np.int64))
        names = np.repeat(np.array(known, np.int64), over)
        places = titled.astype(np.int64)
        state.mass, moved = promoted(state.mass, places, source[names], power[names])
        return [(ids[titled[pair]], int(names[pair])) for pair in moved.tolist()]

    def rank(self, walk: str, k: int) -> tuple[Hits, int]:
        """The k passages with the most mass and the number of candidates; ends the walk."""
        with self._lock:
            state = self._walks.pop(walk)
        allowed, mass, ids = state.allowed, state.mass, self.snapshot.corpus.ids
        rows = np.arange(len(mass)) if allowed is None else np.flatnonzero(allowed)
        best = rows[top_rows(mass[rows], k)]
        return [(ids[row], float(mass[row])) for row in best.tolist()], len(rows)

    def explain(
        self, walk: str, keys: Sequence[str], ids: Sequence[str], sentences: Sequence[int] = ()
    ) -> dict[str, Any]:
        """Explain a walk's result on this shard; ends the walk.

        Args:
            walk: Name of the walk.
            keys: Keys of its active entities.
            ids: Ids of passages, on this shard or others.
            sentences: Rows of this shard's sentences that led from one entity to another.

        Returns:
            `entities`: key -> name and number of allowed passages, for those known here.
            `passages`: id -> restart mass, mass and mentioned keys, for those on this shard.
            `sentences`: passage id and text of each. `settled`: the sum of all masses here.
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
        degrees = self.snapshot.graph.filtered(state.allowed).degree(numbers).tolist()
        here = {id_: row for id_ in ids for row in corpus.rows([id_])}
        owners = corpus.sentence_passage
        texts = corpus.sentence_texts(np.array(sentences, np.int64)) if sentences else []
        return {
            "entities": {
                keys[place]: (graph.display_names.of(number), degree)
                for place, number, degree in zip(known, numbers.tolist(), degrees, strict=True)
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
        """The passages with these ids that are on this shard."""
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
        """Passage id -> which words of a question its title and text have, for those here."""
        here = [id_ for id_ in ids if self.snapshot.corpus.rows([id_])]
        found = self.snapshot.words_in([text] * len(here), [[id_] for id_ in here])
        return {
            id_: [(word.titles, word.texts) for word in words]
            for id_, words in zip(here, found, strict=True)
        }

    def named(self, keys: Sequence[str], ids: Sequence[str]) -> dict[str, list[tuple[bool, bool]]]:
        """Passage id -> for each key, whether it is the title, and is mentioned; for those here."""
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
        """A passage's title, then names in its sentences nearest to a vector, with the sentence.

        Empty if the passage is not on this shard.
        """
        if not self.snapshot.corpus.rows([id_]):
            return []
        passages = self.snapshot.passages
        found = passages.names(id_, np.asarray(vector, np.float32), sentences)
        return [(name, passages.sentence(row) if row >= 0 else "") for name, row in found]

    def _pass_on(self, state: _Walk, most: int) -> list[str]:
        """Pass the passages' masses on; returns the keys of the entities that receive the most."""
        # A passage's shares add up to 1, or to 0 if it has no entities.
        state.passed = state.edges.shares.T @ state.mass
        keys = self.snapshot.graph.graph.keys
        best = top_rows(state.passed[: len(keys)], most)
        return [keys[entity] for entity in best.tolist() if state.passed[entity] > 0]

    def _foreign(self, key: str, allowed: Mask | None) -> tuple[Int64, Int64, Float64]:
        """Passages whose text has a name that is no entity here; see `_Walk.foreign`."""
        rows = self.snapshot.corpus.sentence_passage[self._sentences_with(key)]
        passages, often = np.unique(rows, return_counts=True)
        if allowed is not None:
            passages, often = passages[allowed[passages]], often[allowed[passages]]
        shares = often / (self.snapshot.graph.graph.totals[passages] + often)
        return passages.astype(np.int64), often, shares

    def _sentences_with(self, key: str) -> Int64:
        """Sentences with a name that is an entity of other shards only, found word for word."""
        words = self._sentence_words
        if words is None or not says_enough(key):
            return np.empty(0, np.int64)
        ground = self.snapshot.graph.graph.ground
        name = tuple(ground.words.find(token.casefold()) for token in tokenise(key))
        if min(name, default=-1) < 0:
            return np.empty(0, np.int64)
        return np.unique(ground.starts.sentences_with(words, name))

    def _words_of(self, sentence: int) -> tuple[list[str], list[int]]:
        """The words of a sentence, and the positions of those that begin like a name."""
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
        """Number of a word -> the word."""
        return self.snapshot.graph.graph.ground.words.table.strings

    @cached_property
    def _sentence_words(self) -> SentenceWords | None:
        """All sentences as words; None if names are not linked word for word, or with layers."""
        kept = self.snapshot.graph.graph.kept
        if kept is None:
            return None
        words = kept.sentences
        return words if len(words.lengths) == len(self.snapshot.corpus.sentence_passage) else None

    def _numbers(self, keys: Sequence[str]) -> tuple[Int64, list[int]]:
        """Entities of the keys that are known here, and the positions of these keys."""
        if len(self._known) >= _KNOWN:
            self._known = {}
        known = self._known  # another call may replace it meanwhile
        find = self.snapshot.graph.graph.keys.find
        for key in keys:
            if key not in known:
                known[key] = find(key)
        found = [known[key] for key in keys]
        there = [place for place, number in enumerate(found) if number >= 0]
        return np.array([found[place] for place in there], np.int64), there

    def _allowed(self, filter_: object | None, ids: Sequence[str] | None = None) -> Mask | None:
        # Without `check`: other shards may have what is missing here.
        allowed = None if filter_ is None else parse_filter(filter_).mask(self.snapshot.columns)
        if ids is None:
            return allowed
        named = self.snapshot.passages.mask(ids, np.arange(len(ids)))
        return named if allowed is None else named & allowed

    @cached_property
    def _edges(self) -> _Edges:
        """Edges of all passages."""
        return _Edges.of(self.snapshot.graph.graph.counts)


CALLS: Mapping[str, Callable[..., Any]] = {
    name: getattr(Shard, name)
    for name in (
        "about",
        "kinds",
        "keys",
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
        "first",
        "promote",
        "rank",
        "explain",
        "passages",
        "words",
        "named",
        "candidates",
    )
}
"""Calls to a shard, by name."""
