"""Searches for parts of questions, using what is known of the whole questions.

No part is parsed: its names are those of the index. Few texts are encoded. The vector of a phrase
is the mean of its tokens' states in the question. The surest candidates of a phrase are encoded
together in its place. The vector for one candidate is that of all, plus how the candidate's own
states differ from those of all. So a phrase costs one encoded text for up to nine sub-questions.
Fusion answers the one with all names in place, the text arms a phrase or part by itself, which the
graph ranks no better. For those with one name, the text arms rank the whole question's passages and
the lexical hits of any of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from wye.backends.numerics import batches
from wye.backends.types import Float32, Query, Ranking
from wye.featurizer.encoder import EncodedText, unit
from wye.featurizer.plan import filled
from wye.featurizer.types import Span
from wye.router.batch import Batch
from wye.router.fusion import fuse_all, fuse_text, numbered
from wye.router.routes import TEXT_ARMS
from wye.router.types import ArmResults, Route
from wye.router.wording import without_namesakes


@dataclass(frozen=True, slots=True)
class StepSettings:
    """How questions are taken apart; benchmarks/README.md has figures of other numbers."""

    levels: int = 2  # how many levels of nested phrases are resolved, innermost first
    passages: int = 2  # how many of a search's first passages candidates are taken from
    sentences: int = 2  # how many sentences of these, the nearest ones, give candidates
    candidates: int = 8  # most candidates for each phrase
    searches: int = 10  # most searches for one question, besides that for the whole question
    encoded: int = 3  # how many of a phrase's candidates, the surest, are encoded; at least 1
    depth: int = 20  # hits of each list in these searches
    title: float = 0.8  # confidence factor of a name from a title; names in sentences have 1
    least: float = 0.3  # only surer names are put into the question, if a phrase has any
    joint_weight: float = 0.8  # weight of the score for the question with all names in place
    weight: float = 0.8  # weight of the best text arms' score with one name in place
    phrase_weight: float = 0.1  # weight of the best score, by the text arms, for a phrase by itself
    open_weight: float = 0.2  # weight of the score for an open question with names appended to it


STEPS = StepSettings()


@dataclass(frozen=True, slots=True)
class InnerResult:
    """A ranking, deep enough for scores to be added up, with the vector (d,) searched for."""

    ranking: Ranking
    vector: Float32


@dataclass(frozen=True, slots=True)
class SubQuestion:
    """A phrase of a question, or the question with some spans replaced.

    Attributes:
        kind: "phrase", or a kind of question: about one "part" of a comparison, "joint" with all
            names in place, or "single" with one name.
        replacements: Spans and the words that replace them, in order. Those of an empty span are
            appended.
    """

    question: str  # the question of the user
    span: Span  # the characters of it that are searched for
    kind: Literal["phrase", "part", "joint", "single"] = "phrase"
    replacements: tuple[tuple[Span, tuple[str, ...]], ...] = ()

    @property
    def text(self) -> str:
        """The text to search for."""
        names = ((span, ", ".join(words)) for span, words in self.replacements)
        replacements = ((span, text if span[0] < span[1] else f" {text}") for span, text in names)
        return filled(self.question, replacements, self.span)


Whole = Callable[[], Mapping[str, InnerResult]]
"""Gives the inner route's result for each whole question. It is first called when names are
encoded, for an open plan, or for the answer."""


@dataclass(slots=True)
class StepSearch:
    """Searches one version of an index for parts of some questions; may be called repeatedly.

    Attributes:
        whole: Gives the result for each whole question. It is called while names are encoded, so
            that time is spent on the search then.
    """

    batch: Batch  # the whole questions, which are encoded
    whole: Whole
    settings: StepSettings = STEPS
    _listed: dict[tuple[str, Span], "_Listed"] = field(default_factory=dict)

    def __call__(self, searches: Sequence[SubQuestion]) -> list[InnerResult]:
        """The result of each sub-question, in order."""
        names = self._new_names(searches)
        # The encoder does not hold the GIL. What needs no vector of a name is done meanwhile.
        analyser, fusion = self.batch.models.analyser, self.batch.fusion
        encoding = analyser.beside(lambda: self._encode_names(names)) if names else None
        # With "rrf" all must be fused alike: reciprocal ranks do not compare with scores.
        kinds = ["joint" if fusion.method == "rrf" else search.kind for search in searches]
        single = [index for index, kind in enumerate(kinds) if kind == "single"]
        arms, depth, unknown = self.batch.arms, self.settings.depth, np.zeros(0, np.float32)
        named = [Query(searches[index].text, unknown) for index in single]
        lexical = arms.lexical.search(named, depth, self.batch.allowed) if named else []
        whole = self.whole() if encoding or single else {}
        if encoding:
            encoding.result()
        queries = [Query(search.text, self._vector(search)) for search in searches]
        rankings: dict[int, Ranking] = {}
        joint = [index for index, kind in enumerate(kinds) if kind == "joint"]
        phrases = [index for index, kind in enumerate(kinds) if kind in ("phrase", "part")]
        for alike, lists in ((joint, fusion.arms()), (phrases, TEXT_ARMS)):
            for indices in batches(alike, len(arms)):
                fused = self._fused([queries[index] for index in indices], lists)
                rankings.update(zip(indices, fused, strict=True))
        by_question: dict[str, dict[int, Ranking]] = {}
        for index, ranking in zip(single, lexical, strict=True):
            by_question.setdefault(searches[index].question, {})[index] = ranking
        for question, of_names in by_question.items():
            near = [queries[index] for index in of_names]
            reranked = self._rerank(whole[question].ranking, near, [*of_names.values()])
            rankings.update(zip(of_names, reranked, strict=True))
        for index, search in enumerate(searches):
            if search.kind == "phrase":
                rankings[index] = without_namesakes(search.question, rankings[index], arms)
        return [InnerResult(rankings[i], query.vector) for i, query in enumerate(queries)]

    def _fused(self, queries: Sequence[Query], lists: Sequence[Route]) -> list[Ranking]:
        """Rank by the text arms, or by all arms of fusion."""
        outer, depth = self.batch, self.settings.depth
        parts = outer.arms, outer.models, [query.text for query in queries], outer.fusion
        batch = Batch(*parts, filter=outer.filter, ahead=lists)
        batch.take(queries)
        results = batch.results(lists, range(len(queries)), depth)
        if Route.GRAPH in lists or outer.fusion.method == "rrf":
            return fuse_all(results, outer.fusion, [None] * len(queries), depth)
        return fuse_text(results, outer.fusion, depth)

    def _rerank(
        self, whole: Ranking, queries: Sequence[Query], lexical: Sequence[Ranking]
    ) -> list[Ranking]:
        """Rank by the text arms, among the whole question's passages and all lexical hits."""
        ids, rows, _ = numbered([whole, *lexical])
        among = self.batch.arms.mask(ids, rows)
        dense = self.batch.arms.dense.search(queries, self.settings.depth, among)
        return fuse_text(
            [
                ArmResults(query, (), {Route.DENSE: near, Route.LEXICAL: worded})
                for query, near, worded in zip(queries, dense, lexical, strict=True)
            ],
            self.batch.fusion,
            self.settings.depth,
        )

    def _vector(self, search: SubQuestion) -> Float32:
        """Compose the unit vector (d,) of a sub-question; unknown names count as zero vectors."""
        question, encoded = search.question, self.batch.encoded[search.question]
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
        return self.batch.models.analyser.encode_parts(encoded, spans)

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
        encoded = self.batch.models.analyser.encode_with_states(texts)
        for (key, names), text in zip(lists, encoded, strict=True):
            spans, end = [], text.text.index(names[0], key[1][0])
            for name in names:
                spans.append((end, end + len(name)))
                end += len(name) + len(", ")
            together, *each = self._parts(text, [(spans[0][0], spans[-1][1]), *spans])
            self._listed[key] = _Listed(text.vector, together, dict(zip(names, each, strict=True)))


@dataclass(frozen=True, slots=True)
class _Listed:
    """Vectors (d,) of a question with a list of names in one span, of the list and of each name."""

    text: Float32
    together: Float32
    names: Mapping[str, Float32]
