"""Searches for parts of questions, from what is known of the whole ones.

No part is parsed: the names in it are those of the index. Hardly anything is encoded. The vector of
a phrase is the mean of its tokens' states in the question; a name is put in by adding the
difference to what it stands for, and the surest names that were found for a phrase are encoded
together, in its place. So a level takes one text, where it has up to nine questions. Fusion answers
one of them, with all names in their places; for the others, with one name in each, the text arms
rank what the whole question found and what has the words of any.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from backends.trigraph.retriever import in_parts
from backends.types import Float32, Query, Ranking
from featurizer.analyser import Analyser
from featurizer.encoder import EncodedText, unit
from featurizer.plan import filled
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
        encoded: Question -> what the encoder said of it.
        found: Question -> ids of the passages that were found for the whole.
    """

    arms: Arms
    filter: object | None
    analyser: Callable[[], Analyser]
    fusion: FusionSettings
    encoded: Mapping[str, EncodedText]
    found: Mapping[str, Sequence[str]]
    settings: StepSettings
    _names: dict[tuple[str, Span, str], Float32] = field(default_factory=dict)
    _lists: dict[tuple[str, Span], "_Listed"] = field(default_factory=dict)
    _encoded: dict[str, EncodedText] = field(default_factory=dict)
    _known_parts: dict[str, dict[Span, Float32]] = field(default_factory=dict)

    def __call__(self, asked: Sequence[SubQuestion]) -> list[InnerResult]:
        """What is found for each, in order."""
        self._encode_names(asked)
        queries = [Query(one.text, self._vector(one)) for one in asked]
        found: dict[int, Ranking] = {}
        of_text: dict[str, list[int]] = {}
        walking: list[int] = []
        for place, one in enumerate(asked):
            # Sums of ranks are nothing that could be compared with sums of scores.
            if one.walks or self.fusion.method == "rrf":
                walking.append(place)
            else:
                of_text.setdefault(one.question, []).append(place)
        for part in in_parts(walking, len(self.arms)):
            rankings = self._walk([queries[place] for place in part])
            found.update(zip(part, rankings, strict=True))
        for question, places in of_text.items():
            rankings = self._rerank(question, [queries[place] for place in places])
            found.update(zip(places, rankings, strict=True))
        return [InnerResult(found[p], query.vector) for p, query in enumerate(queries)]

    def _walk(self, queries: Sequence[Query]) -> list[Ranking]:
        """By all arms."""
        lists, places = lists_of(Route.STEPS, self.fusion), range(len(queries))
        reading = QuestionReading.known(queries, self.analyser)
        batch = Batch(self.arms, reading, self.filter, lists, self.fusion)
        results = batch.results(lists, places, self.settings.depth)
        unscored = [None] * len(queries)
        return fuse_all(results, self.fusion, unscored, self.settings.depth, sources=False)

    def _rerank(self, question: str, queries: Sequence[Query]) -> list[Ranking]:
        """By the text arms, among what the whole question has and what has the words of any."""
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
        """(d,) of a part: what it is made of, and by what the words put in differ from others."""
        question = asked.question
        own = self.encoded[question]
        spans = [span for span, _ in asked.puts]
        if any(start == end for start, end in spans):
            return self._encoded[asked.text].vector
        within, text, moved = asked.span, own, spans
        if asked.listed:
            # Where searches run out, the names of a place may not have been asked for.
            spans = moved = [span for span in spans if (question, span) in self._lists]
            lists = [self._lists[question, span] for span in spans]
            names = [
                self._parts(self._encoded[one.text], [one.where(span)])[0]
                for one, span in zip(lists, spans, strict=True)
            ]
        elif asked.found and spans:
            listed = self._lists[question, spans[0]]
            text = self._encoded[listed.text]
            within, moved = listed.where(asked.span), [listed.where(span) for span in spans]
            names = [self._names[question, span, name] for span, name in asked.puts]
        else:
            starts = [question.index(words, span[0]) for span, words in asked.puts]
            ends = [
                start + len(words) for start, (_, words) in zip(starts, asked.puts, strict=True)
            ]
            names = self._parts(own, list(zip(starts, ends, strict=True)))
        whole = asked.span == (0, len(question))
        vector = text.vector if whole else self._parts(text, [within])[0]
        for span, name, other in zip(spans, names, self._parts(text, moved), strict=True):
            share = (span[1] - span[0]) / (asked.span[1] - asked.span[0])
            vector = vector + share * (name - other)
        scaled: Float32 = unit(vector[None])[0]
        return scaled

    def _parts(self, encoded: EncodedText, spans: Sequence[Span]) -> list[Float32]:
        known = self._known_parts.setdefault(encoded.text, {})
        missing = [span for span in spans if span not in known]
        if missing:
            known.update(zip(missing, self.analyser().encode_parts(encoded, missing), strict=True))
        return [known[span] for span in spans]

    def _encode_names(self, asked: Sequence[SubQuestion]) -> None:
        """Encode the surest of the names that are new, those of a question together.

        The others leave their places empty.
        """
        missing: dict[str, dict[Span, dict[str, None]]] = {}
        for one in asked:
            for place, name in one.puts if one.found and not one.listed else ():
                if (one.question, place, name) not in self._names:
                    names = missing.setdefault(one.question, {})
                    names.setdefault(place, {})[name] = None
        for question, names in missing.items():
            for place, found_there in names.items():
                for name in [*found_there][self.settings.encoded :]:
                    del found_there[name]
                    self._names[question, place, name] = np.zeros_like(
                        self.encoded[question].vector
                    )
        listed = [
            _Listed.of(question, part)
            for question, names in missing.items()
            for part in _apart(names)
        ]
        behind = [one.text for one in asked if any(start == end for (start, end), _ in one.puts)]
        texts = [*dict.fromkeys([*(one.text for one in listed), *behind])]
        if not texts:
            return
        found = self.analyser().encode_with_states(texts)
        self._encoded.update(zip(texts, found, strict=True))
        for own in listed:
            vectors = self._parts(self._encoded[own.text], [span for _, _, span in own.names])
            for (place, name, _), vector in zip(own.names, vectors, strict=True):
                self._names[own.question, place, name] = vector
                self._lists.setdefault((own.question, place), own)


@dataclass(frozen=True, slots=True)
class _Listed:
    """A question with lists of names in places.

    Attributes:
        question: With its own words there.
        text: With the lists.
        names: Place, name, and where that is in the text.
        longer: Place, and by how much its list is longer.
    """

    question: str
    text: str
    names: list[tuple[Span, str, Span]]
    longer: dict[Span, int]

    @classmethod
    def of(cls, question: str, names: Mapping[Span, Iterable[str]]) -> "_Listed":
        """Names by the places of a question where they stand, which are in order and apart."""
        puts, where = [], []
        longer: dict[Span, int] = {}
        for (start, end), own in names.items():
            words = ""
            for name in own:
                words += ", " if words else ""
                place = start + sum(longer.values()) + len(words)
                where.append(((start, end), name, (place, place + len(name))))
                words += name
            puts.append(((start, end), words))
            longer[start, end] = len(words) - (end - start)
        return cls(question, filled(question, puts, (0, len(question))), where, longer)

    def where(self, span: Span) -> Span:
        """Where a stretch of the question is in the text; it cuts no place."""
        before = sum(more for place, more in self.longer.items() if place[1] <= span[0])
        return span[0] + before, span[1] + sum(
            more for place, more in self.longer.items() if place[1] <= span[1]
        )


def _apart(names: Mapping[Span, Iterable[str]]) -> Iterator[dict[Span, Iterable[str]]]:
    """The same in parts, in each of which no span overlaps another."""
    left = dict(sorted(names.items()))
    while left:
        part: dict[Span, Iterable[str]] = {}
        end = 0
        for span, own in left.items():
            if span[0] >= end:
                part[span] = own
                end = span[1]
        left = {span: own for span, own in left.items() if span not in part}
        yield part
