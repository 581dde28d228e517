"""Searches for parts of questions, using what is known of the whole questions.

No part is parsed: its names are those of the index. Few texts are encoded. The vector of a phrase
is the mean of its tokens' states in the question. The surest candidates of a phrase are encoded
together in its place. The vector for one candidate is that of all, plus how the candidate's own
states differ from those of all. So a phrase costs one encoded text for up to nine sub-questions.
Fusion answers the one with all names in place. For those with one name, the text arms rank the
whole question's passages and the lexical hits of any of them.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from wye.backends.numerics import in_parts
from wye.backends.store.snapshot import Corpus
from wye.backends.types import Float32, Int64, Mask, Query, Ranking
from wye.featurizer.analyser import Analyser
from wye.featurizer.encoder import EncodedText, unit
from wye.featurizer.types import Span
from wye.router.arms import Arms
from wye.router.batch import Batch
from wye.router.fusion import FusionSettings, fuse_all, fuse_text, lists_of, numbered
from wye.router.steps import InnerResult, StepSettings, SubQuestion
from wye.router.types import ArmResults, Route


@dataclass(slots=True)
class StepSearch:
    """Searches one version of an index for parts of some questions; may be called repeatedly.

    Attributes:
        encoded: Question -> its vector and token states.
        whole: Gives the result for each whole question. It is called while names are encoded, so
            that time is spent on the search then.
    """

    arms: Arms
    filter: object | None
    analyser: Callable[[], Analyser]
    fusion: FusionSettings
    encoded: Mapping[str, EncodedText]
    whole: Callable[[], Mapping[str, InnerResult]]
    settings: StepSettings
    _listed: dict[tuple[str, Span], "_Listed"] = field(default_factory=dict)

    def __call__(self, searches: Sequence[SubQuestion]) -> list[InnerResult]:
        """The result of each sub-question, in order."""
        names = self._new_names(searches)
        # The encoder does not hold the GIL. What needs no vector of a name is done meanwhile.
        encoding = self.analyser().beside(lambda: self._encode_names(names)) if names else None
        # With "rrf" all must be fused alike: reciprocal ranks do not compare with scores.
        by_text = [search.kind == "single" and self.fusion.method != "rrf" for search in searches]
        single = [index for index, text_only in enumerate(by_text) if text_only]
        lexical = self._lexical([searches[index].text for index in single])
        whole = self.whole() if encoding or single else {}
        if encoding:
            encoding.result()
        queries = [Query(search.text, self._vector(search)) for search in searches]
        rankings: dict[int, Ranking] = {}
        walking = [index for index, text_only in enumerate(by_text) if not text_only]
        for indices in in_parts(walking, len(self.arms)):
            walked = self._walk([queries[index] for index in indices])
            rankings.update(zip(indices, walked, strict=True))
        by_question: dict[str, dict[int, Ranking]] = {}
        for index, ranking in zip(single, lexical, strict=True):
            by_question.setdefault(searches[index].question, {})[index] = ranking
        for question, of_names in by_question.items():
            near = [queries[index] for index in of_names]
            reranked = self._rerank(whole[question].ranking, near, [*of_names.values()])
            rankings.update(zip(of_names, reranked, strict=True))
        return [InnerResult(rankings[i], query.vector) for i, query in enumerate(queries)]

    def _walk(self, queries: Sequence[Query]) -> list[Ranking]:
        """Rank by all arms of fusion."""
        lists, places = lists_of(Route.STEPS, self.fusion), range(len(queries))
        texts = [query.text for query in queries]
        batch = Batch(self.arms, self.analyser, texts, self.fusion, filter=self.filter, ahead=lists)
        batch.take(queries)
        results = batch.results(lists, places, self.settings.depth)
        unscored = [None] * len(queries)
        return fuse_all(results, self.fusion, unscored, self.settings.depth)

    def _lexical(self, texts: Sequence[str]) -> list[Ranking]:
        """Lexical rankings of texts."""
        if not texts:
            return []
        queries = [Query(text, np.zeros(0, np.float32)) for text in texts]
        return self.arms.lexical.search(
            queries, self.settings.depth, self.arms.allowed(self.filter)
        )

    def _rerank(
        self, whole: Ranking, queries: Sequence[Query], lexical: Sequence[Ranking]
    ) -> list[Ranking]:
        """Rank by the text arms, among the whole question's passages and all lexical hits."""
        ids, rows, _ = numbered([whole, *lexical])
        among = self.arms.passages.mask(ids, rows)
        dense = self.arms.dense.search(queries, self.settings.depth, among)
        return fuse_text(
            [
                ArmResults(query, (), {Route.DENSE: near, Route.LEXICAL: worded})
                for query, near, worded in zip(queries, dense, lexical, strict=True)
            ],
            self.fusion,
            self.settings.depth,
        )

    def _vector(self, search: SubQuestion) -> Float32:
        """Compose the unit vector (d,) of a sub-question from vectors that are known.

        A name that was not encoded counts as a zero vector.
        """
        question, encoded = search.question, self.encoded[search.question]
        is_phrase = search.kind == "phrase"
        vector = self._parts(encoded, [search.span])[0] if is_phrase else encoded.vector
        for span, words in search.replacements:
            share = (span[1] - span[0]) / (search.span[1] - search.span[0])
            if search.kind == "part":
                start = question.index(words[0], span[0])
                new, others = self._parts(encoded, [(start, start + len(words[0])), span])
                vector = vector + share * (new - others)
                continue
            listed = self._listed[question, span]
            if search.kind == "joint":
                vector = vector + listed.text - encoded.vector
            elif search.kind == "single":
                vector = listed.text + share * (listed.names.get(words[0], 0.0) - listed.together)
            else:
                vector = vector + share * (listed.together - self._parts(encoded, [span])[0])
        scaled: Float32 = unit(vector[None])[0]
        return scaled

    def _parts(self, encoded: EncodedText, spans: Sequence[Span]) -> Float32:
        return self.analyser().encode_parts(encoded, spans)

    def _new_names(
        self, searches: Sequence[SubQuestion]
    ) -> list[tuple[tuple[str, Span], tuple[str, ...]]]:
        """The surest names for each span of a question whose names are not encoded yet."""
        names: dict[tuple[str, Span], dict[str, None]] = {}
        for search in searches:
            for span, words in search.replacements if search.kind != "part" else ():
                if (search.question, span) not in self._listed:
                    names.setdefault((search.question, span), {}).update(dict.fromkeys(words))
        return [(key, tuple(words)[: self.settings.encoded]) for key, words in names.items()]

    def _encode_names(self, lists: Sequence[tuple[tuple[str, Span], tuple[str, ...]]]) -> None:
        """Encode each question with the names in its span."""
        texts = [
            SubQuestion(question, (0, len(question)), "joint", ((span, names),)).text
            for (question, span), names in lists
        ]
        encoded = self.analyser().encode_with_states(texts)
        for (key, names), text in zip(lists, encoded, strict=True):
            spans, end = [], text.text.index(names[0], key[1][0])
            for name in names:
                spans.append((end, end + len(name)))
                end += len(name) + len(", ")
            together, *each = self._parts(text, [(spans[0][0], spans[-1][1]), *spans])
            self._listed[key] = _Listed(text.vector, together, dict(zip(names, each, strict=True)))


@dataclass(frozen=True, slots=True)
class _Listed:
    """Vectors (d,) of a question with a list of names in one span.

    Attributes:
        text: Vector of the whole text.
        together: Vector of the list of names.
        names: Name -> its vector.
    """

    text: Float32
    together: Float32
    names: Mapping[str, Float32]


class CorpusPassages:
    """`wye.router.steps.Passages` of one version of an index."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    def names(self, id_: str, vector: Float32, sentences: int) -> Iterable[tuple[str, int]]:
        """See `wye.router.steps.Passages.names`."""
        corpus = self._corpus
        (row,) = corpus.rows([id_])
        names = [(corpus.titles[row], -1)]
        start, end = (bisect_left(corpus.sentence_passage, passage) for passage in (row, row + 1))
        cosines = corpus.sentence_vectors[start:end].astype(np.float32) @ vector
        for nearest in np.argsort(-cosines, kind="stable")[:sentences].tolist():
            sentence = start + nearest
            names += [(name, sentence) for name in corpus.entities.of(sentence)]
        return names

    def sentence(self, row: int) -> str:
        """See `wye.router.steps.Passages.sentence`."""
        return self._corpus.sentence_texts([row])[0]

    def mask(self, ids: Sequence[str], rows: Int64) -> Mask:
        """See `wye.router.steps.Passages.mask`."""
        corpus = self._corpus
        mask = np.zeros(len(corpus), bool)
        mask[rows if ids is corpus.ids else corpus.rows([ids[row] for row in rows])] = True
        return mask
