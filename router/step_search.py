"""Fusion for parts of questions, from what is known of the whole ones.

No part is parsed: the names in it are those of the index. Hardly anything is encoded. The vector of
a phrase is the mean of its tokens' states in the question; a name is put in by adding the
difference to what it stands for, and the names that were found for a phrase are encoded together,
in its place. So a level takes one text, where it has up to eight questions.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from backends.trigraph.retriever import in_parts
from backends.types import Float32, Query
from featurizer.analyser import Analyser
from featurizer.encoder import EncodedText, unit
from featurizer.plan import filled
from featurizer.types import Span
from router.batch import Arms, Batch
from router.fusion import FusionSettings, fuse_all, lists_of
from router.reading import QuestionReading
from router.steps import InnerResult, SubQuestion
from router.types import Route


@dataclass(slots=True)
class StepSearch:
    """Searches one version of an index for parts of some questions; may be called repeatedly.

    Attributes:
        encoded: Question -> what the encoder said of it.
        depth: Hits of each list.
    """

    arms: Arms
    filter: object | None
    analyser: Callable[[], Analyser]
    fusion: FusionSettings
    encoded: dict[str, EncodedText]
    depth: int
    _names: dict[tuple[str, Span, str], Float32] = field(default_factory=dict)
    _lists: dict[tuple[str, Span], tuple[Float32, dict[Span, Float32]]] = field(
        default_factory=dict
    )

    def __call__(self, asked: Sequence[SubQuestion]) -> list[InnerResult]:
        """What fusion finds for each, in order."""
        self._encode_names(asked)
        queries = [Query(one.text, self._vector(one)) for one in asked]
        return [one for part in in_parts(queries, len(self.arms)) for one in self._find(part)]

    def _find(self, queries: Sequence[Query]) -> list[InnerResult]:
        lists, places = lists_of(Route.STEPS, self.fusion), range(len(queries))
        reading = QuestionReading.known(queries, self.analyser)
        batch = Batch(self.arms, reading, self.filter, lists, self.fusion)
        results = batch.results(lists, places, self.depth)
        rankings = fuse_all(results, self.fusion, [None] * len(queries), self.depth)
        return [
            InnerResult(ranking, query.vector)
            for ranking, query in zip(rankings, queries, strict=True)
        ]

    def _vector(self, asked: SubQuestion) -> Float32:
        """(d,) of a part: what it is made of, and by what the words put in differ from others."""
        question, spans = asked.question, [span for span, _ in asked.puts]
        own = self.encoded[question]
        if any(start == end for start, end in spans):
            return self._lists[question, asked.span][0]
        if asked.span == (0, len(question)):
            vector, instead = own.vector, self._parts(own, spans)
        elif asked.puts:
            vector, of_span = self._lists[question, asked.span]
            instead = [of_span[span] for span in spans]
        else:
            return self._parts(own, [asked.span])[0]
        if asked.found:
            names = [self._names[question, asked.span, name] for _, name in asked.puts]
        else:
            starts = [question.index(words, span[0]) for span, words in asked.puts]
            lengths = [len(words) for _, words in asked.puts]
            names = self._parts(
                own, [(s, s + length) for s, length in zip(starts, lengths, strict=True)]
            )
        for span, name, other in zip(spans, names, instead, strict=True):
            share = (span[1] - span[0]) / (asked.span[1] - asked.span[0])
            vector = vector + share * (name - other)
        scaled: Float32 = unit(vector[None])[0]
        return scaled

    def _parts(self, encoded: EncodedText, spans: Sequence[Span]) -> list[Float32]:
        return list(self.analyser().encode_parts(encoded, spans)) if spans else []

    def _encode_names(self, asked: Sequence[SubQuestion]) -> None:
        """Encode the names that are new, all that stand in one place together."""
        missing: dict[tuple[str, Span], dict[Span, dict[str, None]]] = {}
        for one in asked:
            for place, name in one.puts if one.found else ():
                if (one.question, one.span, name) not in self._names:
                    names = missing.setdefault((one.question, one.span), {})
                    names.setdefault(place, {})[name] = None
        listed = [
            (key, _Listed.of(*key, part))
            for key, names in missing.items()
            for part in _apart(names)
        ]
        if not listed:
            return
        found = self.analyser().encode_with_states([own.text for _, own in listed])
        for ((question, span), own), encoded in zip(listed, found, strict=True):
            known = self._lists.setdefault((question, span), (encoded.vector, {}))[1]
            lists = self._parts(encoded, [*own.lists.values()])
            for place, vector in zip(own.lists, lists, strict=True):
                known.setdefault(place, vector)
            vectors = self._parts(encoded, [*own.names.values()])
            for name, vector in zip(own.names, vectors, strict=True):
                self._names[question, span, name] = vector


@dataclass(frozen=True, slots=True)
class _Listed:
    """A question or a phrase with lists of names in places.

    Attributes:
        lists: Place -> where its list is in the text.
        names: Name -> where that is.
    """

    text: str
    lists: dict[Span, Span]
    names: dict[str, Span]

    @classmethod
    def of(cls, question: str, span: Span, names: Mapping[Span, Iterable[str]]) -> "_Listed":
        """Names by the places of a question where they stand, which are in order and apart."""
        puts, lists, where = [], {}, {}
        longer = -span[0]
        for (start, end), own in names.items():
            words = ""
            for name in own:
                words += ", " if words else ""
                place = start + longer + len(words)
                where[name] = place, place + len(name)
                words += name
            puts.append(((start, end), words))
            lists[start, end] = start + longer, start + longer + len(words)
            longer += len(words) - (end - start)
        return cls(filled(question, puts, span), lists, where)


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
