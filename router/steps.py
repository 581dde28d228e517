"""Answers questions with nested descriptions step by step, innermost phrase first.

"Who leads the country where the composer of Finlandia was born?" names only the innermost thing. So
the inner phrase is searched for first, and names from its passages are put in its place. Then the
phrase around it is searched for with these names, and so on. Where two things are compared, the
question is first asked about each alone, and names from each one's passage replace it. In the end
the question is asked with the names that were found. A passage's score is the one for the whole
question plus weighted shares of its best scores in the other searches. The passage that is first
for the whole question stays first.

All searches of a level go together, for all questions of a batch.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, Protocol

import numpy as np

from wye.backends.store.snapshot import Corpus
from wye.backends.types import Float32, Int64, Mask, Ranking, Source
from wye.featurizer.plan import Plan, Step, filled, walk
from wye.featurizer.question import words
from wye.featurizer.types import Span
from wye.router.fusion import numbered
from wye.router.types import Candidate, ChainStep, FusedHit, Route

OUT_OF_TIME = "steps: out of time, not all were taken"
_LONGEST_NAME = 80
_COMPARISON = "comparison"
_PART_CANDIDATES = 4


@dataclass(frozen=True, slots=True)
class StepSettings:
    """How questions are taken apart; benchmarks/README.md has figures of other numbers.

    Attributes:
        levels: How many levels of nested phrases are resolved, innermost first.
        passages: How many of a search's first passages candidates are taken from.
        sentences: How many sentences of each such passage, those nearest to what was searched for,
            give candidates.
        candidates: Most candidates kept for each phrase.
        searches: Most searches for one question, besides that for the whole question.
        encoded: How many of a phrase's candidates, the surest, are encoded; at least 1.
        depth: Hits of each list in these searches.
        typed: Whether dates and quantities are candidates only where a phrase may ask for them.
        title: Confidence factor of a name from a title; names in sentences have 1.
        joint_weight: Weight of the score for the question with all names in place.
        weight: Weight of the best score, by the text arms, for the question with one name in place.
        phrase_weight: Weight of the best score, by all arms, for a phrase by itself.
        open_weight: Weight of the score for an open question with names appended to it.
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
    """The result of one search.

    Attributes:
        ranking: Ranking by the inner route, deep enough for scores to be added up.
        vector: Vector (d,) of what was searched for.
    """

    ranking: Ranking
    vector: Float32


@dataclass(frozen=True, slots=True)
class PlannedQuestion:
    """A question to be answered.

    Attributes:
        base: Gives the inner route's result for the whole question; the answer to an empty plan.
            It is first called when names are encoded, or for an open plan.
    """

    question: str
    plan: Plan
    base: Callable[[], InnerResult]


@dataclass(frozen=True, slots=True)
class StepsResult:
    """The answer to one question.

    Attributes:
        ranking: The ranking; the inner route's own if there was nothing to take apart.
        chain: The phrases with their candidates, innermost first.
        searches: Searches made besides that for the whole question.
    """

    ranking: Ranking
    chain: tuple[ChainStep, ...] = ()
    searches: int = 0


@dataclass(frozen=True, slots=True)
class SubQuestion:
    """A phrase of a question, or the question with some spans replaced.

    Attributes:
        question: The question as it was asked.
        span: The characters of it that are searched for.
        kind: "phrase", or a kind of question: about one "part" of a comparison, "joint" with all
            names in place, or "single" with one name.
        puts: Spans and the words that replace them, in order. Those of an empty span are appended.
    """

    question: str
    span: Span
    kind: Literal["phrase", "part", "joint", "single"] = "phrase"
    puts: tuple[tuple[Span, tuple[str, ...]], ...] = ()

    @property
    def text(self) -> str:
        """The text to search for."""
        puts = [
            ((start, end), ("" if start < end else " ") + ", ".join(words))
            for (start, end), words in self.puts
        ]
        return filled(self.question, puts, self.span)


Search = Callable[[Sequence[SubQuestion]], Sequence[InnerResult]]
"""Searches for sub-questions, all under the same filter; returns results in their order."""


class Passages(Protocol):
    """Access to the names and sentences of passages."""

    def names(self, id_: str, vector: Float32, sentences: int) -> Iterable[tuple[str, int]]:
        """A passage's title, then the entities of its sentences nearest to a vector.

        Each name comes with the row of its sentence, -1 for the title.
        """
        ...

    def sentence(self, row: int) -> str:
        """The text of a sentence."""
        ...

    def mask(self, ids: Sequence[str], rows: Int64) -> Mask:
        """Mask (n,) of the passages whose ids are in these rows of a list."""
        ...


class CorpusPassages:
    """`Passages` of one version of an index."""

    def __init__(self, corpus: Corpus) -> None:
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

    def mask(self, ids: Sequence[str], rows: Int64) -> Mask:
        """See `Passages.mask`."""
        corpus = self._corpus
        found = np.zeros(len(corpus), bool)
        found[rows if ids is corpus.ids else corpus.rows([ids[row] for row in rows])] = True
        return found


@dataclass(slots=True)
class _Course:
    """The state of one question while its plan is carried out.

    Attributes:
        asked: Sub-questions that were searched for; a dict keeps their order.
        names: The names that each sub-question was asked with, and whose phrase they replace.
        sought: Phrases whose searches are not resolved yet.
        resolved: Phrases with their candidates.
    """

    question: str
    plan: Plan
    base: Callable[[], InnerResult]
    passages: Passages
    settings: StepSettings
    asked: dict[SubQuestion, None] = field(default_factory=dict)
    names: dict[SubQuestion, set[tuple[Step, str]]] = field(default_factory=dict)
    sought: dict[Step, SubQuestion] = field(default_factory=dict)
    resolved: dict[Step, list[Candidate]] = field(default_factory=dict)
    chain: list[tuple[Step, ChainStep]] = field(default_factory=list)

    @property
    def parts(self) -> list[Step]:
        """The things compared; empty unless there are two or more."""
        parts = [step for step in self.plan.steps if step.kind == _COMPARISON]
        return parts if len(parts) > 1 else []

    def phrases(self, level: int, found: Mapping[SubQuestion, InnerResult]) -> list[SubQuestion]:
        """The phrases to search for at a level, from 0, with names found at lower levels."""
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
        """The question with names in place: all of them together, then each alone."""
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
            if names := self._candidates(step, whole, {whole: self.base()}):
                self.resolved[step] = names
        joined = []
        for level in sorted({step.level for step in self.resolved}):
            names_to = {step: own for step, own in self.resolved.items() if step.level <= level}
            joined.append(self._with("joint", names_to, self._whole))
        return self._within([*joined, *sorted(single, key=lambda one: -single[one])])

    def _resolve(self, found: Mapping[SubQuestion, InnerResult]) -> None:
        """Take candidates from the searches made since the last call."""
        for step, asked in self.sought.items():
            if names := self._candidates(step, asked, found):
                self.resolved[step] = names
        self.sought.clear()

    def stepped(self, found: Mapping[SubQuestion, InnerResult], k: int) -> StepsResult:
        """The final ranking, from all results."""
        ranking = self.base().ranking
        if not self.asked:
            return StepsResult(replace(ranking, hits=ranking.hits[:k]))
        asked = [one for one in self.asked if one in found]
        settings = self.settings
        weights = {
            "joint": settings.open_weight if self.plan.open else settings.joint_weight,
            "single": settings.weight,
            "phrase": settings.phrase_weight,
        }
        rankings = [found[one].ranking for one in asked]
        ids, rows, (whole, *columns) = numbered([ranking, *rankings])
        # By kind of search, each passage's best share, with its rank and score there.
        shares: dict[str, dict[int, tuple[float, int, float]]] = {kind: {} for kind in weights}
        for one, of, column in zip(asked, rankings, columns, strict=True):
            kind = "phrase" if one.kind == "part" else one.kind
            own, weight = shares[kind], weights[kind]
            pairs = zip(column.tolist(), of.scores.tolist(), strict=True)
            for rank, (passage, score) in enumerate(pairs, start=1):
                share = weight * score
                if passage not in own or share > own[passage][0]:
                    own[passage] = share, rank, score
        added: dict[int, float] = {}
        given: dict[int, tuple[int, float]] = {}
        for own in shares.values():
            for passage, (share, rank, score) in own.items():
                added[passage] = added.get(passage, 0.0) + share
                given.setdefault(passage, (rank, score))
        scores = dict(zip(whole.tolist(), ranking.scores.tolist(), strict=True))
        known = {passage: place for place, passage in enumerate(scores)}
        scores.update((one, scores.get(one, 0.0) + share) for one, share in added.items())
        # The first passage stays first: steps are there to find what else the question needs.
        foremost = whole[:1].tolist()
        for passage in foremost:
            lift = max(scores.values()) - scores[passage]
            if lift > 0:
                given.setdefault(passage, (1, scores[passage]))
                scores[passage] += lift
                added[passage] = added.get(passage, 0.0) + lift
        hits = []
        order = sorted(scores, key=lambda one: (one not in foremost, -scores[one], one))[:k]
        places = [known[passage] for passage in order if passage in known]
        sources_of = dict(zip(places, ranking.at(places), strict=True))
        for rank, passage in enumerate(order, start=1):
            sources = sources_of[known[passage]].sources if passage in known else ()
            if passage in given:
                sources += (Source(Route.STEPS, *given[passage], added[passage]),)
            hits.append(FusedHit(ids[rows[passage]], scores[passage], rank, sources))
        notes = [ranking.degraded, OUT_OF_TIME if len(asked) < len(self.asked) else ""]
        return StepsResult(
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
        """The chain, with `put_in` set for names that were searched with."""
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
        """Those within the limit on searches, which are recorded as asked."""
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
        """A span of the question with names in place; of nested phrases, the outer is replaced."""
        inside = {inner for step in names for inner in walk(step.inside)}
        own = sorted((step for step in names if step not in inside), key=lambda step: step.span)
        puts = tuple((step.span, tuple(one.name for one in names[step])) for step in own)
        asked = SubQuestion(self.question, span, kind, puts)
        self.names[asked] = {(step, one.name) for step in own for one in names[step]}
        return asked

    def _alone(self, part: Step, name: str = "") -> SubQuestion:
        """The question about one thing of a comparison, or about a name in place of them all."""
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
        """Names that may replace a step's phrase, surest first; also recorded in the chain.

        Args:
            asked: What was searched for; there are no candidates if it was not found in time.
            first: Look only at the first passage, and take fewer names.
        """
        if asked not in found:
            return []
        settings = self.settings
        passages, most = settings.passages, settings.candidates
        if first:
            passages, most = 1, _PART_CANDIDATES
        # With "" as the type, `fits` lets neither dates nor quantities through.
        wanted = "" if first or self.plan.open else step.wanted
        question = f" {plain_words(self.question)} "
        taken = {plain_words(name) for _, names in asked.puts for name in names}
        ranking = found[asked].ranking
        scores = ranking.scores[:passages].tolist()
        best: dict[str, Candidate] = {}
        for id_, score in zip(ranking.ids(passages), scores, strict=True):
            share = max(score / scores[0], 0.0) if scores[0] > 0 else 1.0
            for raw, row in self.passages.names(id_, found[asked].vector, settings.sentences):
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
                    best[plain] = Candidate(name, sure, id_, row)
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
) -> list[StepsResult]:
    """Answer questions by their plans; an answer does not depend on the other questions.

    Args:
        search: The inner route.
        k: Hits per question, at least 1.
        is_late: Whether to stop; checked before each round. Results found by then are used.
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


_WORD = re.compile(r"\w+")
_ARTICLES = ("the", "a", "an")
_MONTHS = words(
    "january february march april may june july august september october november december jan "
    "feb mar apr jun jul aug sep sept oct nov dec"
)
_DAYS = words("monday tuesday wednesday thursday friday saturday sunday")
_SPANS = words("century centuries decade decades year years month months day days week weeks")
_DATE_WORDS = (
    _MONTHS
    | _DAYS
    | _SPANS
    | words(
        "the a an of in on and to from until early late mid around about circa c ca bc ad bce ce"
    )
)
_NUMBERS = words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety "
    "hundred hundreds thousand thousands million millions billion billions dozen dozens half"
)
_DIGITS = re.compile(r"\d+(?:s|st|nd|rd|th)?")
_CAPITAL = re.compile(r"[^\W\d_][^\W\d_]+")


def fits(name: str, wanted: str) -> bool:
    """Whether a name looks like the wanted type, a key of `plan_nouns.TYPES`, "free" or "".

    "date" takes dates only, "number" and "free" anything, all others neither dates nor quantities.
    """
    if wanted in ("free", "number"):
        return True
    return is_date(name) if wanted == "date" else not (is_date(name) or is_quantity(name))


def is_date(name: str) -> bool:
    """Whether a name is like "May 1865", "the 12th century" or "1990s", not "Euro 2008", "May"."""
    own = _WORD.findall(name.lower())
    numbers = [word for word in own if _DIGITS.fullmatch(word)]
    told = bool(numbers) or not _DAYS.isdisjoint(own) or not _SPANS.isdisjoint(own)
    known = (word in _DATE_WORDS or word in _NUMBERS or word in numbers for word in own)
    return told and all(known)


def is_quantity(name: str) -> bool:
    """Whether a name is like "less than seven metres" or "42 km", not "Alpha 7"."""
    own = _WORD.findall(name)
    capital = any(word[0].isupper() and _CAPITAL.fullmatch(word) for word in own)
    return not capital and any(word in _NUMBERS or word[0].isdigit() for word in own)


def plain_words(text: str) -> str:
    """The words of a text in lower case, without a leading article, for comparing names."""
    found = _WORD.findall(text.lower().replace("'s", ""))
    return " ".join(found[1:] if found[:1] and found[0] in _ARTICLES else found)
