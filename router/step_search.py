"""Searches for parts of questions, using what is known of the whole questions.

No part is parsed: its names are those of the index. Few texts are encoded. The vector of a phrase
is the mean of its tokens' states in the question. The surest candidates of a phrase are encoded
together in its place. The vector for one candidate is that of all, plus how the candidate's own
states differ from those of all. So a phrase costs one encoded text for up to nine sub-questions.
Fusion answers the one with all names in place. For those with one name, the text arms rank the
whole question's passages and the lexical hits of any of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from wye.backends.trigraph.retriever import in_parts
from wye.backends.types import Float32, Query, Ranking
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

    def __call__(self, asked: Sequence[SubQuestion]) -> list[InnerResult]:
        """The result of each sub-question, in order."""
        names = self._new_names(asked)
        # The encoder does not hold the GIL. What needs no vector of a name is done meanwhile.
        encoding = self.analyser().beside(lambda: self._encode_names(names)) if names else None
        # With "rrf" all must be fused alike: reciprocal ranks do not compare with scores.
        is_apart = [one.kind == "single" and self.fusion.method != "rrf" for one in asked]
        single = [place for place, apart in enumerate(is_apart) if apart]
        words = self._words([asked[place].text for place in single])
        whole = self.whole() if encoding or single else {}
        if encoding:
            encoding.result()
        queries = [Query(one.text, self._vector(one)) for one in asked]
        found: dict[int, Ranking] = {}
        walking = [place for place, apart in enumerate(is_apart) if not apart]
        for part in in_parts(walking, len(self.arms)):
            rankings = self._walk([queries[place] for place in part])
            found.update(zip(part, rankings, strict=True))
        of_text: dict[str, dict[int, Ranking]] = {}
        for place, lexical in zip(single, words, strict=True):
            of_text.setdefault(asked[place].question, {})[place] = lexical
        for question, own in of_text.items():
            near = [queries[place] for place in own]
            rankings = self._rerank(whole[question].ranking, near, [*own.values()])
            found.update(zip(own, rankings, strict=True))
        return [InnerResult(found[p], query.vector) for p, query in enumerate(queries)]

    def _walk(self, queries: Sequence[Query]) -> list[Ranking]:
        """Rank by all arms of fusion."""
        lists, places = lists_of(Route.STEPS, self.fusion), range(len(queries))
        texts = [query.text for query in queries]
        batch = Batch(self.arms, self.analyser, texts, self.fusion, filter=self.filter, ahead=lists)
        batch.take(queries)
        results = batch.results(lists, places, self.settings.depth)
        unscored = [None] * len(queries)
        return fuse_all(results, self.fusion, unscored, self.settings.depth)

    def _words(self, texts: Sequence[str]) -> list[Ranking]:
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
                ArmResults(query, (), {Route.DENSE: near, Route.LEXICAL: own})
                for query, near, own in zip(queries, dense, lexical, strict=True)
            ],
            self.fusion,
            self.settings.depth,
        )

    def _vector(self, asked: SubQuestion) -> Float32:
        """Compose the unit vector (d,) of a sub-question from vectors that are known.

        A name that was not encoded counts as a zero vector.
        """
        question, own = asked.question, self.encoded[asked.question]
        vector = self._parts(own, [asked.span])[0] if asked.kind == "phrase" else own.vector
        for place, words in asked.puts:
            share = (place[1] - place[0]) / (asked.span[1] - asked.span[0])
            if asked.kind == "part":
                start = question.index(words[0], place[0])
                new, others = self._parts(own, [(start, start + len(words[0])), place])
                vector = vector + share * (new - others)
                continue
            listed = self._listed[question, place]
            if asked.kind == "joint":
                vector = vector + listed.text - own.vector
            elif asked.kind == "single":
                vector = listed.text + share * (listed.names.get(words[0], 0.0) - listed.together)
            else:
                vector = vector + share * (listed.together - self._parts(own, [place])[0])
        scaled: Float32 = unit(vector[None])[0]
        return scaled

    def _parts(self, encoded: EncodedText, spans: Sequence[Span]) -> Float32:
        return self.analyser().encode_parts(encoded, spans)

    def _new_names(
        self, asked: Sequence[SubQuestion]
    ) -> list[tuple[tuple[str, Span], tuple[str, ...]]]:
        """The surest names for each span of a question whose names are not encoded yet."""
        names: dict[tuple[str, Span], dict[str, None]] = {}
        for one in asked:
            for place, words in one.puts if one.kind != "part" else ():
                if (one.question, place) not in self._listed:
                    names.setdefault((one.question, place), {}).update(dict.fromkeys(words))
        return [(place, tuple(own)[: self.settings.encoded]) for place, own in names.items()]

    def _encode_names(self, names: Sequence[tuple[tuple[str, Span], tuple[str, ...]]]) -> None:
        """Encode each question with the names in its span."""
        texts = [
            SubQuestion(question, (0, len(question)), "joint", ((span, own),)).text
            for (question, span), own in names
        ]
        encoded = self.analyser().encode_with_states(texts)
        for (key, own), text in zip(names, encoded, strict=True):
            spans, end = [], text.text.index(own[0], key[1][0])
            for name in own:
                spans.append((end, end + len(name)))
                end += len(name) + len(", ")
            together, *each = self._parts(text, [(spans[0][0], spans[-1][1]), *spans])
            self._listed[key] = _Listed(text.vector, together, dict(zip(own, each, strict=True)))


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
