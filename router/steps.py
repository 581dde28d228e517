"""Questions with a description inside a description, asked from the inside out.

"Who leads the country where the composer of Finlandia was born?" names only what is innermost. So
the inner phrase is searched for first; its passages give names, which are put in the place of the
phrase; then the phrase around it is searched for with these, and so on. Where two things are
compared, each is asked about alone, and what its passage names takes its place. In the end the
question is asked with what was found. A passage's score is the one for the whole question and a
share of the best that these searches give it; what is first for the whole question stays first.

All searches of a level go together, for all questions of a batch.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, Protocol

import numpy as np

from backends.store.snapshot import Corpus
from backends.types import Float32, Mask, RankedHit, Ranking, Source
from featurizer.plan import Plan, Step, filled, walk
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
        searches: Most for one question, beside the one for the whole.
        encoded: Names for a phrase, the surest, whose vectors are put in its place; at least 1.
        depth: Hits of each list of such a search.
        typed: Whether dates and quantities are candidates only where a phrase may ask for them.
        title: What a title counts as a candidate, beside 1 for a name in a sentence.
        joint_weight: Of a passage's score for the question with all names in their places.
        weight: Of its best score by the text arms for the question with one name in its place.
        phrase_weight: Of the same by all arms for the phrases by themselves.
        open_weight: Of a passage's score for a question with names behind it.
    """

    levels: int = 2
    passages: int = 2
    sentences: int = 2
    candidates: int = 8
    searches: int = 24
    encoded: int = 3
    depth: int = 20
    typed: bool = True
    title: float = 0.8
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
    """A phrase of a question, or the question with other words in places.

    Attributes:
        question: As it was asked.
        span: Of it, that is searched for.
        kind: "phrase"; or the question, about one "part" of what is compared; "joint", with all
            names in their places; "single", with one name.
        puts: Words in whose place, in order; those of an empty place stand behind the question.
    """

    question: str
    span: Span
    kind: Literal["phrase", "part", "joint", "single"] = "phrase"
    puts: tuple[tuple[Span, tuple[str, ...]], ...] = ()

    @property
    def text(self) -> str:
        """To search for."""
        puts = [
            ((start, end), ("" if start < end else " ") + ", ".join(words))
            for (start, end), words in self.puts
        ]
        return filled(self.question, puts, self.span)


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
        start, end = (bisect_left(corpus.sentence_passage, own) for own in (row, row + 1))
        near = corpus.sentence_vectors[start:end].astype(np.float32) @ vector
        for place in np.argsort(-near, kind="stable")[:sentences].tolist():
            sentence = start + place
            found += [(name, sentence) for name in corpus.entities.of(sentence)]
        return found

    def sentence(self, row: int) -> str:
        """See `Passages.sentence`."""
        return self._corpus.sentence_texts([row])[0]

    def mask(self, ids: Iterable[str]) -> Mask:
        """See `Passages.mask`."""
        found = np.zeros(len(self._corpus), bool)
        found[self._corpus.rows([*ids])] = True
        return found


@dataclass(slots=True)
class _Course:
    """One question on its way through its plan."""

    question: str
    plan: Plan
    base: InnerResult
    passages: Passages
    settings: StepSettings
    asked: dict[SubQuestion, None] = field(default_factory=dict)
    names: dict[SubQuestion, set[tuple[Step, str]]] = field(default_factory=dict)
    sought: dict[Step, SubQuestion] = field(default_factory=dict)
    resolved: dict[Step, list[Candidate]] = field(default_factory=dict)
    chain: list[tuple[Step, ChainStep]] = field(default_factory=list)

    @property
    def parts(self) -> list[Step]:
        """What is compared; empty unless there are two."""
        parts = [step for step in self.plan.steps if step.kind == _COMPARISON]
        return parts if len(parts) > 1 else []

    def phrases(self, level: int, found: Mapping[SubQuestion, InnerResult]) -> list[SubQuestion]:
        """What to search for at a level, from 0, with what was found at those below."""
        self._resolve(found)
        levels = self.plan.levels()
        asked = [] if level else [self._alone(part) for part in self.parts]
        for step in levels[level] if level < len(levels) else ():
            names = {one: self.resolved[one] for one in step.inside if one in self.resolved}
            if not step.named and (names or not level):
                self.sought[step] = self._with("phrase", names, step.span)
                asked.append(self.sought[step])
        return self._within(asked)

    def questions(self, found: Mapping[SubQuestion, InnerResult]) -> list[SubQuestion]:
        """The question with what was found in its place: all names together, then each alone."""
        self._resolve(found)
        single: dict[SubQuestion, float] = {}
        for part in self.parts:
            for one in self._candidates(part, self._alone(part), found, first=True):
                asked = self._alone(part, one.name)
                single[asked] = max(one.confidence, single.get(asked, 0.0))
                self.names.setdefault(asked, set()).add((part, one.name))
        for step, names in self.resolved.items():
            for one in names:
                single[self._with("single", {step: [one]}, self._whole)] = one.confidence
        if self.plan.open:
            step = Step((len(self.question), len(self.question)), "open", "free")
            whole = SubQuestion(self.question, self._whole)
            if names := self._candidates(step, whole, {whole: self.base}):
                self.resolved[step] = names
        joined = []
        for level in sorted({step.level for step in self.resolved}):
            names_to = {step: own for step, own in self.resolved.items() if step.level <= level}
            joined.append(self._with("joint", names_to, self._whole))
        return self._within([*joined, *sorted(single, key=lambda one: -single[one])])

    def _resolve(self, found: Mapping[SubQuestion, InnerResult]) -> None:
        """Take the names of the phrases that were searched for since this was called before."""
        for step, asked in self.sought.items():
            if names := self._candidates(step, asked, found):
                self.resolved[step] = names
        self.sought.clear()

    def stepped(self, found: Mapping[SubQuestion, InnerResult], k: int) -> Stepped:
        """The ranking by all that was found."""
        ranking = self.base.ranking
        if not self.asked:
            return Stepped(replace(ranking, hits=ranking.hits[:k]))
        asked = [one for one in self.asked if one in found]
        settings = self.settings
        weights = {
            "joint": settings.open_weight if self.plan.open else settings.joint_weight,
            "single": settings.weight,
            "phrase": settings.phrase_weight,
        }
        # Of each kind of search, the best share for each passage.
        shares: dict[str, dict[str, tuple[float, RankedHit]]] = {kind: {} for kind in weights}
        for one in asked:
            kind = "phrase" if one.kind == "part" else one.kind
            own = shares[kind]
            for hit in found[one].ranking.hits:
                share = weights[kind] * hit.score
                if hit.id not in own or share > own[hit.id][0]:
                    own[hit.id] = share, hit
        added: dict[str, float] = {}
        given: dict[str, RankedHit] = {}
        for own in shares.values():
            for id_, (share, hit) in own.items():
                added[id_] = added.get(id_, 0.0) + share
                given.setdefault(id_, hit)
        known = {hit.id: hit for hit in ranking.hits}
        scores = {id_: hit.score for id_, hit in known.items()}
        scores.update((id_, scores.get(id_, 0.0) + share) for id_, share in added.items())
        # What is first for the whole question stays first: steps find what else it needs.
        for hit in ranking.hits[:1]:
            lift = max(scores.values()) - scores[hit.id]
            if lift > 0:
                scores[hit.id] += lift
                added[hit.id] = added.get(hit.id, 0.0) + lift
                given.setdefault(hit.id, hit)
        foremost = {hit.id for hit in ranking.hits[:1]}
        hits = []
        order = sorted(scores, key=lambda id_: (id_ not in foremost, -scores[id_], id_))[:k]
        for rank, id_ in enumerate(order, start=1):
            whole = known.get(id_)
            sources = whole.sources if isinstance(whole, FusedHit) else ()
            if id_ in given:
                own_hit = given[id_]
                sources += (Source(Route.STEPS, own_hit.rank, own_hit.score, added[id_]),)
            hits.append(FusedHit(id_, scores[id_], rank, sources))
        notes = [ranking.degraded, OUT_OF_TIME if len(asked) < len(self.asked) else ""]
        return Stepped(
            replace(
                ranking,
                retriever=Route.STEPS,
                hits=tuple(hits),
                degraded="; ".join(note for note in notes if note),
            ),
            self._told(asked),
            len(asked),
        )

    def _told(self, asked: Iterable[SubQuestion]) -> tuple[ChainStep, ...]:
        """The chain, with the names that were searched with marked."""
        used = {pair for one in asked for pair in self.names.get(one, ())}
        return tuple(
            replace(
                told,
                candidates=tuple(
                    replace(one, put_in=(step, one.name) in used) for one in told.candidates
                ),
            )
            for step, told in self.chain
        )

    @property
    def _whole(self) -> Span:
        return 0, len(self.question)

    def _within(self, asked: Sequence[SubQuestion]) -> list[SubQuestion]:
        """Those that there are searches left for, which are then taken."""
        for one in asked:
            if len(self.asked) < self.settings.searches:
                self.asked.setdefault(one)
        return [one for one in dict.fromkeys(asked) if one in self.asked]

    def _with(
        self,
        kind: Literal["phrase", "joint", "single"],
        names: Mapping[Step, Sequence[Candidate]],
        span: Span,
    ) -> SubQuestion:
        """Some of the question with names in places; of two within each other, in the outer."""
        inside = {inner for step in names for inner in walk(step.inside)}
        own = sorted((step for step in names if step not in inside), key=lambda step: step.span)
        puts = tuple((step.span, tuple(one.name for one in names[step])) for step in own)
        asked = SubQuestion(self.question, span, kind, puts)
        self.names[asked] = {(step, one.name) for step in own for one in names[step]}
        return asked

    def _alone(self, part: Step, name: str = "") -> SubQuestion:
        """The question about one of what is compared, or about a name in the place of all."""
        beside = self.parts[0].span[0], self.parts[-1].span[1]
        words = name or self.question[slice(*part.span)]
        puts = ((beside, (words,)),)
        return SubQuestion(self.question, self._whole, "single" if name else "part", puts)

    def _candidates(
        self,
        step: Step,
        asked: SubQuestion,
        found: Mapping[SubQuestion, InnerResult],
        *,
        first: bool = False,
    ) -> list[Candidate]:
        """Names that may stand in the place of a step, the surest first; the chain tells of them.

        Args:
            asked: What was searched for; none where that was not found in time.
            first: Whether only the nearest sentence of the first passage is looked at.
        """
        if asked not in found:
            return []
        settings = self.settings
        passages, sentences, most = settings.passages, settings.sentences, settings.candidates
        if first:
            passages, sentences, most = 1, 1, _PART_CANDIDATES
        # What nothing says the type of is no date and no quantity.
        wanted = "" if first or self.plan.open else step.wanted
        question = f" {plain_words(self.question)} "
        taken = {plain_words(name) for _, names in asked.puts for name in names}
        hits = found[asked].ranking.hits[:passages]
        best: dict[str, Candidate] = {}
        for hit in hits:
            share = max(hit.score / hits[0].score, 0.0) if hits[0].score > 0 else 1.0
            for raw, row in self.passages.names(hit.id, found[asked].vector, sentences):
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
        names = sorted(best.values(), key=lambda one: -one.confidence)[:most]
        if names or not self.plan.open:
            phrase = self.question[slice(*step.span)] or self.question
            told = ChainStep(phrase, asked.text, step.level, tuple(names), step.wanted)
            self.chain.append((step, told))
        return names


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
        is_late: Whether to stop; asked before each round. What was found by then counts.
    """
    of_text = {one.question: one for one in questions}
    courses = {
        text: _Course(text, one.plan, one.base, passages, settings) for text, one in of_text.items()
    }
    found: dict[SubQuestion, InnerResult] = {}
    rounds = [
        partial(_Course.phrases, level=level, found=found) for level in range(settings.levels)
    ]
    for round_ in (*rounds, partial(_Course.questions, found=found)):
        asked = [one for course in courses.values() for one in round_(course)]
        if asked and not is_late():
            found.update(zip(asked, search(asked), strict=True))
    stepped = {text: course.stepped(found, k) for text, course in courses.items()}
    return [stepped[one.question] for one in questions]
