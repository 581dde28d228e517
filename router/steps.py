"""Answers questions with nested descriptions step by step, innermost phrase first.

"Who leads the country where the composer of Finlandia was born?" names only the innermost thing. So
the inner phrase is searched for first, and names from its passages replace it. Then the phrase
around it is searched for with these names, and so on. Where two things are compared, the question
is first asked about each alone, and names from each one's passage replace it. In the end the
question is asked with these names. A passage's score is the one for the whole question plus
weighted shares of its best scores in the other searches. The passage that is first for the whole
question stays first.

All searches of a level go together, for all questions of a batch.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from wye.backends.trigraph.hops import FIRST, HOPS, Hop
from wye.backends.types import Float32, Int64, RankedHit, Ranking, Source
from wye.featurizer.plan import Plan, Step, walk
from wye.featurizer.question import words
from wye.featurizer.types import Span
from wye.router.fusion import numbered
from wye.router.step_search import STEPS, InnerResult, StepSettings, SubQuestion, Whole
from wye.router.types import Candidate, ChainStep, Route

if TYPE_CHECKING:
    from wye.backends.store.corpus import Corpus
    from wye.router.snapshot import Snapshot

OUT_OF_TIME = "steps: out of time, not all were taken"
_LONGEST_NAME = 80
_COMPARISON = "comparison"
_PART_CANDIDATES = 4
LIKELY = 0.2  # hops with this probability or more are named in the reply


@dataclass(frozen=True, slots=True)
class StepsResult:
    """The answer to one question."""

    ranking: Ranking  # the ranking; the inner route's own if there was nothing to take apart
    chain: tuple[ChainStep, ...] = ()  # the phrases with their candidates, innermost first
    searches: int = 0  # searches made besides that for the whole question
    hops: Mapping[str, float] = field(default_factory=dict)  # passage id -> how probable it is


Search = Callable[[Sequence[SubQuestion]], Sequence[InnerResult]]
"""Searches for sub-questions, all under the same filter; returns results in their order."""
Hops = Callable[[str, Float32, Sequence[str]], Sequence[Hop]]
"""From a question, its vector and the ids of the first passages to second hops from these."""
InnerResults = Mapping[SubQuestion, InnerResult]


@dataclass(slots=True)
class _PlanState:
    """The state of one question while its plan is carried out."""

    question: str
    plan: Plan
    whole: Whole
    passages: "Snapshot"
    settings: StepSettings
    hops: Hops
    searches: dict[SubQuestion, None] = field(default_factory=dict)
    names: dict[SubQuestion, set[tuple[Step, str]]] = field(default_factory=dict)
    pending: dict[Step, SubQuestion] = field(default_factory=dict)
    candidates: dict[Step, list[Candidate]] = field(default_factory=dict)
    chain: list[tuple[Step, ChainStep]] = field(default_factory=list)

    @property
    def parts(self) -> list[Step]:
        """The things compared; empty unless there are two or more."""
        parts = [step for step in self.plan.steps if step.kind == _COMPARISON]
        return parts if len(parts) > 1 else []

    def phrases(self, level: int, results: InnerResults) -> list[SubQuestion]:
        """The phrases to search for at a level, from 0, with the names from lower levels."""
        self._resolve(results)
        levels = self.plan.levels()
        phrases = [] if level else [self._about(part) for part in self.parts]
        for step in levels[level] if level < len(levels) else ():
            names = {
                inner: self.candidates[inner] for inner in step.inside if inner in self.candidates
            }
            if not step.named and (names or not level):
                self.pending[step] = self._with_names("phrase", names, step.span)
                phrases.append(self.pending[step])
        return self._within_limit(phrases)

    def questions(self, results: InnerResults) -> list[SubQuestion]:
        """The question with names in place: all of them together, then each alone."""
        self._resolve(results)
        confidences: dict[SubQuestion, float] = {}  # of the questions with a single name
        for part in self.parts:
            for candidate in self._candidates(part, self._about(part), results, first_only=True):
                single, confidence = self._about(part, candidate.name), candidate.confidence
                confidences[single] = max(confidence, confidences.get(single, 0.0))
                self.names.setdefault(single, set()).add((part, candidate.name))
        for step, candidates in [*self.candidates.items()]:
            sure = [name for name in candidates if name.confidence > self.settings.least]
            self.candidates[step] = sure or candidates
            for candidate in self.candidates[step]:
                single = self._with_names("single", {step: [candidate]}, self._all)
                confidences[single] = candidate.confidence
        if self.plan.open:
            step = Step((len(self.question), len(self.question)), "open", "free")
            whole = SubQuestion(self.question, self._all)
            if candidates := self._candidates(step, whole, {whole: self.whole()[self.question]}):
                self.candidates[step] = candidates
        joint = []
        for level in sorted({step.level for step in self.candidates}):
            names = {step: names for step, names in self.candidates.items() if step.level <= level}
            joint.append(self._with_names("joint", names, self._all))
        surest_first = sorted(confidences, key=lambda single: -confidences[single])
        return self._within_limit([*joint, *surest_first])

    def _resolve(self, results: InnerResults) -> None:
        """Take candidates from the searches made since the last call."""
        for step, phrase in self.pending.items():
            if candidates := self._candidates(step, phrase, results):
                self.candidates[step] = candidates
        self.pending.clear()

    def result(self, results: InnerResults, k: int) -> StepsResult:
        """The final ranking, from all results."""
        inner = self.whole()[self.question]
        whole, finished = inner.ranking, [search for search in self.searches if search in results]
        rankings = [results[search].ranking for search in finished]
        scores = _Scores(whole, rankings)
        scores.add(self._additions(finished, rankings, scores.passages))
        hops: Sequence[Hop] = ()
        if is_complete := len(finished) == len(self.searches):
            hops = self.hops(self.question, inner.vector, scores.first(FIRST))
        if not self.searches and not hops:
            return StepsResult(replace(whole, hits=whole.hits[:k]))
        scores.add_hops(hops)
        notes = [whole.degraded, "" if is_complete else OUT_OF_TIME]
        ranking = replace(
            whole,
            retriever=Route.STEPS,
            hits=scores.hits(k),
            degraded="; ".join(note for note in notes if note),
        )
        chain = (*self._final_chain(finished), *self._followed(hops))
        likely = {hop.passage: hop.probability for hop in hops}
        return StepsResult(ranking, chain, len(finished), likely)

    def _followed(self, hops: Sequence[Hop]) -> Sequence[ChainStep]:
        """What the reply says of likely hops."""
        likely = [hop for hop in hops if hop.probability >= LIKELY][: self.settings.candidates]
        candidates = tuple(
            Candidate(hop.name, hop.probability, hop.source, hop.sentence) for hop in likely
        )
        level = 1 + max((link.level for _, link in self.chain), default=0)
        return (ChainStep(self.question, self.question, level, candidates),) if likely else ()

    def _additions(
        self,
        searches: Sequence[SubQuestion],
        rankings: Sequence[Ranking],
        passages: Sequence[Int64],
    ) -> dict[int, Source]:
        """What steps add to passages of each ranking: the best shares by kind of search, summed.

        Rank and score are those of the best share in the first kind of search that has it.
        """
        settings = self.settings
        weights = {
            "joint": settings.open_weight if self.plan.open else settings.joint_weight,
            "single": settings.weight,
            "phrase": settings.phrase_weight,
        }
        best: dict[str, dict[int, tuple[float, int]]] = {kind: {} for kind in weights}
        for search, ranking, numbers in zip(searches, rankings, passages, strict=True):
            of_kind = best["phrase" if search.kind == "part" else search.kind]
            hits = zip(ranking.scores.tolist(), numbers.tolist(), strict=True)
            for rank, (score, passage) in enumerate(hits, start=1):
                if passage not in of_kind or score > of_kind[passage][0]:
                    of_kind[passage] = score, rank
        sums: dict[int, Source] = {}
        for kind, hits_of_kind in best.items():
            for passage, (score, rank) in hits_of_kind.items():
                first = sums.get(passage)
                share = weights[kind] * score
                sums[passage] = (
                    Source(Route.STEPS, rank, score, share)
                    if first is None
                    else first._replace(share=first.share + share)
                )
        return sums

    def _final_chain(self, searches: Iterable[SubQuestion]) -> tuple[ChainStep, ...]:
        """The chain, with `put_in` set for names that were searched with."""
        used = {pair for search in searches for pair in self.names.get(search, ())}
        return tuple(
            replace(
                link,
                candidates=tuple(
                    replace(candidate, put_in=(step, candidate.name) in used)
                    for candidate in link.candidates
                ),
            )
            for step, link in self.chain
        )

    @property
    def _all(self) -> Span:
        return 0, len(self.question)

    def _within_limit(self, searches: Sequence[SubQuestion]) -> list[SubQuestion]:
        """The sub-questions that fit in the limit on searches; records them."""
        for search in searches:
            if len(self.searches) < self.settings.searches:
                self.searches.setdefault(search)
        return [search for search in dict.fromkeys(searches) if search in self.searches]

    def _with_names(
        self,
        kind: Literal["phrase", "joint", "single"],
        names: Mapping[Step, Sequence[Candidate]],
        span: Span,
    ) -> SubQuestion:
        """A span of the question with names in place; of nested phrases, the outer is replaced."""
        inner = {inside for step in names for inside in walk(step.inside)}
        outer = sorted((step for step in names if step not in inner), key=lambda step: step.span)
        replacements = tuple(
            (step.span, tuple(candidate.name for candidate in names[step])) for step in outer
        )
        search = SubQuestion(self.question, span, kind, replacements)
        self.names[search] = {(step, name.name) for step in outer for name in names[step]}
        return search

    def _about(self, part: Step, name: str = "") -> SubQuestion:
        """The question about one thing of a comparison, or about a name in place of them all."""
        compared = self.parts[0].span[0], self.parts[-1].span[1]
        words = name or self.question[slice(*part.span)]
        kind: Literal["single", "part"] = "single" if name else "part"
        return SubQuestion(self.question, self._all, kind, ((compared, (words,)),))

    def _candidates(
        self, step: Step, search: SubQuestion, results: InnerResults, *, first_only: bool = False
    ) -> list[Candidate]:
        """Names that may replace a step's phrase, surest first; also recorded in the chain.

        They are in what was searched for, or fewer of them in its first passage alone.
        """
        if search not in results:
            return []
        settings = self.settings
        passages, most = settings.passages, settings.candidates
        if first_only:
            passages, most = 1, _PART_CANDIDATES
        # With "" as the type, `fits` lets neither dates nor quantities through.
        wanted = "" if first_only or self.plan.open else step.wanted
        question = f" {plain_words(self.question)} "
        used = {plain_words(name) for _, names in search.replacements for name in names}
        ranking = results[search].ranking
        scores = ranking.scores[:passages].tolist()
        best: dict[str, Candidate] = {}
        for id_, score in zip(ranking.ids(passages), scores, strict=True):
            share = max(score / scores[0], 0.0) if scores[0] > 0 else 1.0
            for text, row in self.passages.names(id_, results[search].vector, settings.sentences):
                name = " ".join(text.split())
                plain = plain_words(name)
                if not plain or len(name) > _LONGEST_NAME:
                    continue
                if plain in used or f" {plain} " in question:
                    continue
                if not fits(name, wanted):
                    continue
                confidence = share * (settings.title if row < 0 else 1.0)
                if plain not in best or confidence > best[plain].confidence:
                    name = best[plain].name if plain in best else name
                    best[plain] = Candidate(name, confidence, id_, row)
        candidates = sorted(best.values(), key=lambda name: -name.confidence)[:most]
        if candidates or not self.plan.open:
            phrase = self.question[slice(*step.span)] or self.question
            link = ChainStep(phrase, search.text, step.level, tuple(candidates), step.wanted)
            self.chain.append((step, link))
        return candidates


class _Scores:
    """The scores of one question's passages: for the whole question, with what steps add.

    A passage is its number among all passages of the rankings. The first for the whole question
    stays first: steps are there to find what else the question needs.
    """

    def __init__(self, whole: Ranking, of_parts: Sequence[Ranking]) -> None:
        """Number the passages of the ranking for the whole question and of those for its parts."""
        ids, rows, (of_whole, *self.passages) = numbered([whole, *of_parts])
        self._whole, self._ids = whole, [ids[row] for row in rows.tolist()]
        self._scores = dict(zip(of_whole.tolist(), whole.scores.tolist(), strict=True))
        self._position = {passage: position for position, passage in enumerate(self._scores)}
        self._first = of_whole[:1].tolist()
        self._additions: dict[int, Source] = {}

    def add(self, additions: Mapping[int, Source]) -> None:
        """Add what steps found, and raise the first passage to the highest score."""
        self._additions = {**additions}
        for passage, addition in additions.items():
            self._scores[passage] = self._scores.get(passage, 0.0) + addition.share
        for passage in self._first:
            self._raise(passage, max(self._scores.values()) - self._scores[passage])

    def add_hops(self, hops: Sequence[Hop]) -> None:
        """Move what hops lead to towards the highest score, by the probability of each."""
        number_of = {id_: number for number, id_ in enumerate(self._ids)}
        best = max(self._scores.values(), default=0.0)
        for hop in hops:
            passage = number_of.setdefault(hop.passage, len(self._ids))
            if passage == len(self._ids):
                self._ids.append(hop.passage)
            score = self._scores.setdefault(passage, 0.0)
            self._raise(passage, HOPS.share * hop.probability * (best - score))
        for hop in hops:
            if hop.among_first:
                self._raise_to_first(number_of[hop.passage])

    def _raise_to_first(self, passage: int) -> None:
        """Raise a passage's score to a place among the first."""
        order = self._order()
        if passage not in order[:FIRST] and len(order) > FIRST:
            *_, above, last = (self._scores[each] for each in order[:FIRST])
            between = max((above + last) / 2, math.nextafter(last, math.inf))
            self._raise(passage, between - self._scores[passage])

    def first(self, k: int) -> list[str]:
        """Ids of the k passages with the highest scores."""
        return [self._ids[passage] for passage in self._order()[:k]]

    def hits(self, k: int) -> tuple[RankedHit, ...]:
        """The k passages with the highest scores, with what these are made of."""
        order, position = self._order()[:k], self._position
        positions = [position[passage] for passage in order if passage in position]
        hit_at = dict(zip(positions, self._whole.at(positions), strict=True))
        hits = []
        for rank, passage in enumerate(order, start=1):
            sources = hit_at[position[passage]].sources if passage in position else ()
            if passage in self._additions:
                sources += (self._additions[passage],)
            hits.append(RankedHit(self._ids[passage], self._scores[passage], rank, sources))
        return tuple(hits)

    def _raise(self, passage: int, share: float) -> None:
        """Raise a passage's score, and what steps are said to add to it."""
        if share > 0:
            source = Source(Route.STEPS, 1, self._scores[passage], 0.0)
            source = self._additions.get(passage, source)
            self._additions[passage] = source._replace(share=source.share + share)
            self._scores[passage] += share

    def _order(self) -> list[int]:
        """Passages by score, ties by id."""
        order = sorted(self._scores, key=self._ids.__getitem__)
        order.sort(key=self._scores.__getitem__, reverse=True)
        return [*self._first, *(passage for passage in order if passage not in self._first)]


def step_through(
    plans: Mapping[str, Plan],
    search: Search,
    whole: Whole,
    passages: "Snapshot",
    k: int,
    *,
    hops: Hops = lambda _question, _vector, _first: (),
    settings: StepSettings = STEPS,
    is_late: Callable[[], bool] = lambda: False,
) -> dict[str, StepsResult]:
    """Answer questions by their plans; an answer does not depend on the other questions.

    Args:
        plans: Question -> its plan; one with an empty plan is answered by the inner route.
        search: The inner route, for parts of questions.
        passages: Gives the names in passages.
        k: Hits per question, at least 1.
        hops: Gives the second hops from the first passages of a ranking.
        is_late: Whether to stop; checked before each round. The results so far are used.
    """
    courses = {
        question: _PlanState(question, plan, whole, passages, settings, hops)
        for question, plan in plans.items()
    }
    results: dict[SubQuestion, InnerResult] = {}
    rounds = [
        partial(_PlanState.phrases, level=level, results=results)
        for level in range(settings.levels)
    ]
    for next_searches in (*rounds, partial(_PlanState.questions, results=results)):
        searches = [sub for course in courses.values() for sub in next_searches(course)]
        if searches and not is_late():
            results.update(zip(searches, search(searches), strict=True))
    return {question: course.result(results, k) for question, course in courses.items()}


def with_sentences(stepped: StepsResult, corpus: "Corpus") -> StepsResult:
    """Fill in the texts of the sentences that gave the candidates."""
    chain = tuple(
        replace(
            step,
            candidates=tuple(
                replace(name, sentence=corpus.sentence_texts([name.row])[0])
                if name.row >= 0
                else name
                for name in step.candidates
            ),
        )
        for step in stepped.chain
    )
    return replace(stepped, chain=chain)


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
    """Whether a name looks like the wanted type, a key of `plan_phrases.TYPES`, "free" or "".

    "date" takes dates only, "number" and "free" anything, all others neither dates nor quantities.
    """
    if wanted in ("free", "number"):
        return True
    return is_date(name) if wanted == "date" else not (is_date(name) or is_quantity(name))


def is_date(name: str) -> bool:
    """Whether a name is like "May 1865", "the 12th century" or "1990s", not "Euro 2008", "May"."""
    terms = _WORD.findall(name.lower())
    numbers = [word for word in terms if _DIGITS.fullmatch(word)]
    has_time = bool(numbers) or not _DAYS.isdisjoint(terms) or not _SPANS.isdisjoint(terms)
    of_date = (word in _DATE_WORDS or word in _NUMBERS or word in numbers for word in terms)
    return has_time and all(of_date)


def is_quantity(name: str) -> bool:
    """Whether a name is like "less than seven metres" or "42 km", not "Alpha 7"."""
    terms = _WORD.findall(name)
    has_capital = any(word[0].isupper() and _CAPITAL.fullmatch(word) for word in terms)
    return not has_capital and any(word in _NUMBERS or word[0].isdigit() for word in terms)


def plain_words(text: str) -> str:
    """The words of a text in lower case, without a leading article, for comparing names."""
    plain = _WORD.findall(text.lower().replace("'s", ""))
    return " ".join(plain[1:] if plain[:1] and plain[0] in _ARTICLES else plain)
