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

from backends.trigraph.retriever import in_parts
from backends.types import Float32, Query, Ranking
from featurizer.analyser import Analyser
from featurizer.encoder import EncodedText, unit
from featurizer.types import Span
from router.batch import Arms, Batch
from router.fusion import FusionSettings, fuse_all, fuse_text, lists_of
from router.reading import QuestionReading
from router.steps import InnerResult, StepSettings, SubQuestion
from router.types import ArmResults, Route


@dataclass(slots=True)
class StepSearch:
    """Searches one version of an index for parts of some questions; may be called repeatedly.

    Attributes:
        encoded: Question -> its vector and token states.
        found: Question -> ids of the passages that were found for the whole question.
    """

    arms: Arms
    filter: object | None
    analyser: Callable[[], Analyser]
    fusion: FusionSettings
    encoded: Mapping[str, EncodedText]
    found: Mapping[str, Sequence[str]]
    settings: StepSettings
    _listed: dict[tuple[str, Span], "_Listed"] = field(default_factory=dict)

    def __call__(self, asked: Sequence[SubQuestion]) -> list[InnerResult]:
        """The result of each sub-question, in order."""
        self._encode_names(asked)
        queries = [Query(one.text, self._vector(one)) for one in asked]
        walking: list[int] = []
        of_text: dict[str, list[int]] = {}
        for place, one in enumerate(asked):
            # With "rrf" all must be fused alike: reciprocal ranks do not compare with scores.
            if one.kind != "single" or self.fusion.method == "rrf":
                walking.append(place)
            else:
                of_text.setdefault(one.question, []).append(place)
        found: dict[int, Ranking] = {}
        for part in in_parts(walking, len(self.arms)):
            rankings = self._walk([queries[place] for place in part])
            found.update(zip(part, rankings, strict=True))
        for question, places in of_text.items():
            rankings = self._rerank(question, [queries[place] for place in places])
            found.update(zip(places, rankings, strict=True))
        return [InnerResult(found[p], query.vector) for p, query in enumerate(queries)]

    def _walk(self, queries: Sequence[Query]) -> list[Ranking]:
        """Rank by all arms of fusion."""
        lists, places = lists_of(Route.STEPS, self.fusion), range(len(queries))
        reading = QuestionReading.known(queries, self.analyser)
        batch = Batch(self.arms, reading, self.filter, lists, self.fusion)
        results = batch.results(lists, places, self.settings.depth)
        unscored = [None] * len(queries)
        return fuse_all(results, self.fusion, unscored, self.settings.depth, sources=False)

    def _rerank(self, question: str, queries: Sequence[Query]) -> list[Ranking]:
        """Rank by the text arms, among the whole question's passages and all lexical hits."""
        allowed = self.arms.allowed(self.filter)
        lexical = self.arms.lexical.search(queries, self.settings.depth, allowed)
        ids = {hit.id for ranking in lexical for hit in ranking.hits}.union(self.found[question])
        dense = self.arms.dense.search(queries, self.settings.depth, self.arms.passages.mask(ids))
        return fuse_text(
            [
                ArmResults(query, (), {Route.DENSE: near, Route.LEXICAL: own})
                for query, near, own in zip(queries, dense, lexical, strict=True)
            ],
            self.fusion,
            self.settings.depth,
            sources=False,
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

    def _encode_names(self, asked: Sequence[SubQuestion]) -> None:
        """Encode each question with the surest names in each new span."""
        names: dict[tuple[str, Span], dict[str, None]] = {}
        for one in asked:
            for place, words in one.puts if one.kind != "part" else ():
                if (one.question, place) not in self._listed:
                    names.setdefault((one.question, place), {}).update(dict.fromkeys(words))
        surest = [(place, tuple(own)[: self.settings.encoded]) for place, own in names.items()]
        texts = [
            SubQuestion(question, (0, len(question)), "joint", ((span, own),)).text
            for (question, span), own in surest
        ]
        encoded = self.analyser().encode_with_states(texts) if texts else []
        for (key, own), text in zip(surest, encoded, strict=True):
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
