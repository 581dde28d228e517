"""Questions with a description inside a description, asked from the inside out.

"Who leads the country where the composer of Finlandia was born?" names only what is innermost. So
the inner phrase is searched for first; its passages give names, each is put in the place of the
phrase, and the question is asked again with a hop less. Where two things are compared, each is
asked about alone, and what its passage names takes its place. A passage's score is the one for the
whole question and a share of the best that these searches give it; what is first for the whole
question stays first.

All searches of a level go together, for all questions of a batch.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from backends.store.snapshot import Corpus
from backends.types import Float32, Mask, RankedHit, Ranking, Source
from featurizer.plan import Plan, Step, filled, put_in
from featurizer.types import Span
from router.step_names import fits, plain_words
from router.types import Candidate, ChainStep, FusedHit, Route

OUT_OF_TIME = "steps: out of time, not all were taken"
_LONGEST_NAME = 80
_COMPARISON = "comparison"
_PART_CANDIDATES = 4


@dataclass(frozen=True, slots=True)
class StepSettings:
    """How questions are taken apart; `python -m benchmarks steps` tries other numbers.

    Attributes:
        levels: Of phrases within each other that are resolved, from the inside.
        passages: First passages of a search that candidates are taken from.
        sentences: Of each of them, nearest to what was searched for, whose names are candidates.
        candidates: Kept of one search.
        beam: Ways to fill the phrases that are followed.
        searches: Most for one question, beside the one for the whole.
        encoded: Names for a phrase, the surest, whose vectors are put in its place; at least 1.
        depth: Hits of each list of such a search.
        typed: Whether dates and quantities are candidates only where a phrase may ask for them.
        title: What a title counts as a candidate, beside 1 for a name in a sentence.
        sharpness: Exponent of the confidence in a way, 0 where all count the same.
        joint_weight: Of a passage's score for the question with all names in their places.
        weight: Of its best score by the text arms for the question with one name in each place.
        phrase_weight: Of the same for the phrases by themselves.
        open_weight: Of a passage's score for a question with names behind it.
    """

    levels: int = 2
    passages: int = 2
    sentences: int = 2
    candidates: int = 8
    beam: int = 8
    searches: int = 24
    encoded: int = 3
    depth: int = 20
    typed: bool = True
    title: float = 0.8
    sharpness: float = 0.2
    joint_weight: float = 0.8
    weight: float = 0.8
    phrase_weight: float = 0.3
    open_weight: float = 0.5


@dataclass(frozen=True, slots=True)
class InnerResult:
    """What one search found.

    Attributes:
        ranking: By the inner route, deep enough for scores to be added up.
        vector: (d,) of what was searched for.
    """

    ranking: Ranking
    vector: Float32


@dataclass(frozen=True, slots=True)
class PlannedQuestion:
    """A question to be answered.

    Attributes:
        base: What the inner route found for the whole; with an empty plan, the answer.
    """

    question: str
    plan: Plan
    base: InnerResult


@dataclass(frozen=True, slots=True)
class Stepped:
    """The answer to one question.

    Attributes:
        ranking: That of the inner route where there was nothing to take apart.
        chain: Phrases with what was found for them, from the inside out.
        searches: Made beside the one for the whole question.
    """

    ranking: Ranking
    chain: tuple[ChainStep, ...] = ()
    searches: int = 0


@dataclass(frozen=True, slots=True)
class SubQuestion:
    """A question with names put in, or a phrase of it.

    Attributes:
        question: As it was asked.
        span: Of it, that is searched for.
        puts: What stands in whose place, in order.
        found: Whether that are names which were found, and not words of the question.
        listed: Whether all names that were found for a place stand there, with commas between.
        walks: Whether the graph is asked too, beside the text arms.
        confidence: In these names.
    """

    question: str
    span: Span
    puts: tuple[tuple[Span, str], ...] = ()
    found: bool = True
    listed: bool = False
    walks: bool = True
    confidence: float = field(default=1.0, compare=False)

    @property
    def text(self) -> str:
        """To search for."""
        return filled(self.question, self.puts, self.span)


Search = Callable[[Sequence[SubQuestion]], Sequence[InnerResult]]
"""Finds passages for parts of questions, in order, all under the same filter."""


class Passages(Protocol):
    """What steps look at in passages that were found."""

    def names(self, id_: str, vector: Float32, sentences: int) -> Iterable[tuple[str, int]]:
        """The title, then the entities of the sentences nearest to a vector, nearest first.

        Each name comes with the row of its sentence, -1 for the title.
        """
        ...

    def sentence(self, row: int) -> str:
        """Text of a sentence."""
        ...

    def mask(self, ids: Iterable[str]) -> Mask:
        """(n,) which of all passages these are."""
        ...


class CorpusPassages:
    """Those of one version of an index."""

    def __init__(self, corpus: Corpus) -> None:
        """Nothing is read yet."""
        self._corpus = corpus

    def names(self, id_: str, vector: Float32, sentences: int) -> Iterable[tuple[str, int]]:
        """See `Passages.names`."""
        corpus = self._corpus
        (row,) = corpus.rows([id_])
        found = [(corpus.titles[row], -1)]
        start, end = np.searchsorted(corpus.sentence_passage, [row, row + 1]).tolist()
        near = corpus.sentence_vectors[start:end].astype(np.float32) @ vector
        for place in np.argsort(-near, kind="stable")[:sentences].tolist():
            sentence = start + place
            first, last = np.searchsorted(corpus.entities.sentence, [sentence, sentence + 1])
            codes = corpus.entities.code[first:last].tolist()
            found += [(corpus.entities.names[code], sentence) for code in codes]
        return found

    def sentence(self, row: int) -> str:
        """See `Passages.sentence`."""
        return self._corpus.sentence_texts([row])[0]

    def mask(self, ids: Iterable[str]) -> Mask:
        """See `Passages.mask`."""
        found = np.zeros(len(self._corpus), bool)
        found[self._corpus.rows([*ids])] = True
        return found


@dataclass(frozen=True, slots=True)
class _Way:
    """Names for some phrases of a question, and how sure they are."""

    names: Mapping[Step, str]
    confidence: float


@dataclass(slots=True)
class _Course:
    """One question on its way through the levels of its plan."""

    question: str
    plan: Plan
    base: InnerResult
    passages: Passages
    settings: StepSettings
    ways: list[_Way] = field(default_factory=lambda: [_Way({}, 1.0)])
    asked: dict[SubQuestion, None] = field(default_factory=dict)
    filled: dict[SubQuestion, float] = field(default_factory=dict)
    joined: dict[SubQuestion, None] = field(default_factory=dict)
    names: dict[SubQuestion, Collection[tuple[Step, str]]] = field(default_factory=dict)
    chain: list[tuple[Step, ChainStep]] = field(default_factory=list)
    late: bool = False

    @property
    def parts(self) -> list[Step]:
        """What is compared; empty unless there are two."""
        parts = [step for step in self.plan.steps if step.kind == _COMPARISON]
        return parts if len(parts) > 1 else []

    def levels(self) -> list[list[Step]]:
        """The phrases to be resolved, from the inside out."""
        levels = self.plan.levels()[: self.settings.levels]
        return [[step for step in level if not step.named] for level in levels]

    def open_up(self) -> None:
        """Have the question asked again with the names that its own first passages hold."""
        if not self.plan.open:
            return
        names = self._candidates(self.base, "", (), self.settings)
        if names:
            end = len(self.question)
            behind = " " + ", ".join(one.name for one in names)
            asked = SubQuestion(self.question, self.whole, (((end, end), behind),), listed=True)
            step = Step(self.whole, "open", "free")
            self.joined[asked] = None
            used = tuple(replace(one, put_in=True) for one in names)
            self.chain.append((step, ChainStep(self.question, self.question, 1, used, "free")))

    def phrases(self, level: int) -> list[SubQuestion]:
        """What to search for at a level, counted as searches."""
        asked = [self._alone(part) for part in self.parts] if not level else []
        levels = self.levels()
        for step in levels[level] if level < len(levels) else ():
            asked += [self._with(way, step.span) for way in self.ways]
        # The last searches are for the question itself, with names put in.
        return self._within(asked, self.settings.searches - self.settings.beam)

    def advance(self, level: int, found: Mapping[SubQuestion, InnerResult]) -> bool:
        """Put what was found for a level in its place; whether a further level can follow."""
        if not level:
            for part in self.parts:
                self._compare(part, found)
        levels = self.levels()
        steps = levels[level] if level < len(levels) else []
        anything = [self._resolve(step, found) for step in steps]
        self._join()
        return (any(anything) or not steps) and level + 1 < len(levels)

    def last(self) -> list[SubQuestion]:
        """The questions with names put in, the surest first, as far as searches are left."""
        surest = sorted(self.filled, key=lambda one: -self.filled[one])
        return self._within([*self.joined, *surest], self.settings.searches)

    def stepped(self, found: Mapping[SubQuestion, InnerResult], k: int) -> Stepped:
        """The ranking by all that was found."""
        if not self.asked and not self.late:
            return Stepped(_cut(self.base.ranking, k))
        settings = self.settings
        most = max(self.filled.values(), default=1.0) or 1.0
        best: dict[str, tuple[float, RankedHit]] = {}
        added: dict[str, float] = {}
        asked_last = {**self.filled, **self.joined}
        phrases = [one for one in self.asked if one not in asked_last]
        of_joined = settings.open_weight if self.plan.open else settings.joint_weight
        for asked, weight in (
            (self.joined, of_joined),
            (self.filled, settings.weight),
            (phrases, settings.phrase_weight),
        ):
            own: dict[str, tuple[float, RankedHit]] = {}
            for one in asked:
                if one in found and one in self.asked:
                    sure = (self.filled.get(one, most) / most) ** settings.sharpness
                    for hit in found[one].ranking.hits:
                        share = weight * sure * hit.score
                        if hit.id not in own or share > own[hit.id][0]:
                            own[hit.id] = share, hit
            for id_, (share, hit) in own.items():
                added[id_] = added.get(id_, 0.0) + share
                best.setdefault(id_, (share, hit))
        ranking = self.base.ranking
        known = {hit.id: hit for hit in ranking.hits}
        scores = {id_: hit.score for id_, hit in known.items()}
        scores.update((id_, scores.get(id_, 0.0) + share) for id_, share in added.items())
        # What is first for the whole question stays first: steps find what else it needs.
        for hit in ranking.hits[:1]:
            lift = max(scores.values()) - scores[hit.id]
            if lift > 0:
                scores[hit.id] += lift
                added[hit.id] = added.get(hit.id, 0.0) + lift
                best.setdefault(hit.id, (lift, hit))
        foremost = {hit.id for hit in ranking.hits[:1]}
        hits = []
        order = sorted(scores, key=lambda id_: (id_ not in foremost, -scores[id_], id_))[:k]
        for rank, id_ in enumerate(order, start=1):
            whole = known.get(id_)
            sources = whole.sources if isinstance(whole, FusedHit) else ()
            if id_ in best:
                given = best[id_][1]
                sources += (Source(Route.STEPS, given.rank, given.score, added[id_]),)
            hits.append(FusedHit(id_, scores[id_], rank, sources))
        notes = [ranking.degraded, OUT_OF_TIME if self.late else ""]
        return Stepped(
            replace(
                ranking,
                retriever=Route.STEPS,
                hits=tuple(hits),
                degraded="; ".join(note for note in notes if note),
            ),
            self._told(),
            len(self.asked),
        )

    def _told(self) -> tuple[ChainStep, ...]:
        """The chain, with the names that were searched with marked."""
        used = {pair for one in self.asked for pair in self.names.get(one, ())}
        return tuple(
            replace(
                told,
                candidates=tuple(
                    replace(one, put_in=one.put_in or (step, one.name) in used)
                    for one in told.candidates
                ),
            )
            for step, told in self.chain
        )

    @property
    def whole(self) -> Span:
        """All of the question."""
        return 0, len(self.question)

    def _within(self, asked: Sequence[SubQuestion], most: int) -> list[SubQuestion]:
        """Those that there are searches left for, which are then taken."""
        for one in asked:
            if len(self.asked) < most:
                self.asked.setdefault(one)
        return [one for one in dict.fromkeys(asked) if one in self.asked]

    def _with(self, way: _Way, span: Span) -> SubQuestion:
        """The question or a phrase, with the names of a way."""
        puts = put_in(way.names, span)
        walks = span != self.whole
        asked = SubQuestion(self.question, span, puts, walks=walks, confidence=way.confidence)
        self.names.setdefault(asked, way.names.items())
        return asked

    def _join(self) -> None:
        """Have the question asked with the names of each way, and with those of all ways."""
        names: dict[Step, dict[str, None]] = {}
        for way in self.ways:
            if way.names and self.settings.weight:
                self._fill(self._with(way, self.whole))
            for step, name in way.names.items():
                names.setdefault(step, {})[name] = None
        if names and self.settings.joint_weight:
            puts = put_in({step: ", ".join(own) for step, own in names.items()}, self.whole)
            asked = SubQuestion(self.question, self.whole, puts, listed=True)
            self.joined[asked] = None
            places = {place for place, _ in puts}
            self.names[asked] = {
                (step, name) for step, own in names.items() if step.span in places for name in own
            }

    def _fill(self, asked: SubQuestion) -> None:
        """Keep a question with names put in, to be asked in the end."""
        self.filled[asked] = max(asked.confidence, self.filled.get(asked, 0.0))

    def _alone(self, part: Step, name: str | None = None) -> SubQuestion:
        """The question about one of what is compared, or about a name in its place."""
        beside = self.parts[0].span[0], self.parts[-1].span[1]
        words = self.question[slice(*part.span)] if name is None else name
        found = name is not None
        return SubQuestion(
            self.question, self.whole, ((beside, words),), found=found, walks=not found
        )

    def _compare(self, part: Step, found: Mapping[SubQuestion, InnerResult]) -> None:
        asked = self._alone(part)
        if asked not in found:
            return
        settings = replace(self.settings, passages=1, sentences=1, candidates=_PART_CANDIDATES)
        names = self._candidates(found[asked], "", (), settings)
        for name in names:
            again = self._alone(part, name.name)
            self._fill(again)
            self.names[again] = {*self.names.get(again, ()), (part, name.name)}
        phrase = self.question[slice(*part.span)]
        link = ChainStep(phrase, asked.text, part.level, tuple(names), part.wanted)
        self.chain.append((part, link))

    def _resolve(self, step: Step, found: Mapping[SubQuestion, InnerResult]) -> bool:
        """Go every way on with what was found for a phrase; whether there was anything."""
        ways: list[_Way] = []
        seen: dict[str, Candidate] = {}
        texts = []
        for way in self.ways:
            asked = self._with(way, step.span)
            names: list[Candidate] = []
            if asked in found:
                texts.append(asked.text)
                used = way.names.values()
                names = self._candidates(found[asked], step.wanted, used, self.settings)
            for name in names:
                sure = way.confidence * name.confidence
                ways.append(_Way({**way.names, step: name.name}, sure))
                if name.name not in seen or sure > seen[name.name].confidence:
                    seen[name.name] = replace(name, confidence=sure)
            if not names:
                ways.append(way)
        self.ways = sorted(ways, key=lambda way: -way.confidence)[: self.settings.beam]
        if texts:
            best = sorted(seen.values(), key=lambda one: -one.confidence)
            best = best[: self.settings.candidates]
            phrase = self.question[slice(*step.span)]
            link = ChainStep(phrase, texts[0], step.level, tuple(best), step.wanted)
            self.chain.append((step, link))
        return bool(seen)

    def _candidates(
        self, found: InnerResult, wanted: str, used: Iterable[str], settings: StepSettings
    ) -> list[Candidate]:
        """Names that may stand in the place of what was searched for, the surest first."""
        question = f" {plain_words(self.question)} "
        taken = {plain_words(name) for name in used}
        hits = found.ranking.hits[: settings.passages]
        best: dict[str, Candidate] = {}
        for hit in hits:
            share = max(hit.score / hits[0].score, 0.0) if hits[0].score > 0 else 1.0
            for raw, row in self.passages.names(hit.id, found.vector, settings.sentences):
                name = " ".join(raw.split())
                plain = plain_words(name)
                if not plain or len(name) > _LONGEST_NAME:
                    continue
                if plain in taken or f" {plain} " in question:
                    continue
                if settings.typed and not fits(name, wanted):
                    continue
                sure = share * (settings.title if row < 0 else 1.0)
                if plain not in best or sure > best[plain].confidence:
                    name = best[plain].name if plain in best else name
                    best[plain] = Candidate(name, sure, hit.id, row)
        return sorted(best.values(), key=lambda one: -one.confidence)[: settings.candidates]


def step_through(
    questions: Sequence[PlannedQuestion],
    search: Search,
    passages: Passages,
    k: int,
    settings: StepSettings,
    *,
    is_late: Callable[[], bool] = lambda: False,
) -> list[Stepped]:
    """Answer questions by their plans.

    A question is answered the same whatever the others are.

    Args:
        search: The inner route.
        k: Hits for each, at least 1.
        is_late: Whether to stop; asked before each level. What was found by then counts.
    """
    of_text = {one.question: one for one in questions}
    courses = {
        text: _Course(text, one.plan, one.base, passages, settings) for text, one in of_text.items()
    }
    found: dict[SubQuestion, InnerResult] = {}

    def ask(asked: Iterable[SubQuestion]) -> None:
        missing = [one for one in dict.fromkeys(asked) if one not in found]
        if missing:
            found.update(zip(missing, search(missing), strict=True))

    going = [course for course in courses.values() if course.plan.steps]
    for course in courses.values():
        course.open_up()
    level = 0
    while going and not is_late():
        ask(one for course in going for one in course.phrases(level))
        going = [course for course in going if course.advance(level, found)]
        level += 1
    unfinished = list(going)
    if is_late():
        unfinished += [course for course in courses.values() if course.filled or course.joined]
    else:
        ask(one for course in courses.values() for one in course.last())
    for course in unfinished:
        course.late = True
    stepped = {text: course.stepped(found, k) for text, course in courses.items()}
    return [stepped[one.question] for one in questions]


def _cut(ranking: Ranking, k: int) -> Ranking:
    return ranking if len(ranking.hits) <= k else replace(ranking, hits=ranking.hits[:k])
