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

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Literal

from wye.backends.trigraph.hops import FIRST, HOPS, Hop
from wye.backends.types import Float32, Int64, Ranking, Source
from wye.featurizer.plan import Plan, Step, filled, walk
from wye.featurizer.question import words
from wye.featurizer.types import Span
from wye.router.fusion import numbered
from wye.router.types import Candidate, ChainStep, FusedHit, Route

if TYPE_CHECKING:
    from wye.router.snapshot import Snapshot

OUT_OF_TIME = "steps: out of time, not all were taken"
_LONGEST_NAME = 80
_COMPARISON = "comparison"
_PART_CANDIDATES = 4
LIKELY = 0.2
"""Hops with this probability or more are named in the reply."""


@dataclass(frozen=True, slots=True)
class StepSettings:
    """How questions are taken apart; benchmarks/README.md has figures of other numbers.

    Attributes:
        levels: How many levels of nested phrases are resolved, innermost first.
        passages: How many of a search's first passages candidates are taken from.
        sentences: How many sentences of each such passage, those nearest to what was searched for,
            give candidates.
        candidates: Most candidates for each phrase.
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
    phrase_weight: float = 0.1
    open_weight: float = 0.2


STEPS = StepSettings()


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
        question: The question of the user.
        span: The characters of it that are searched for.
        kind: "phrase", or a kind of question: about one "part" of a comparison, "joint" with all
            names in place, or "single" with one name.
        replacements: Spans and the words that replace them, in order. Those of an empty span are
            appended.
    """

    question: str
    span: Span
    kind: Literal["phrase", "part", "joint", "single"] = "phrase"
    replacements: tuple[tuple[Span, tuple[str, ...]], ...] = ()

    @property
    def text(self) -> str:
        """The text to search for."""
        replacements = [
            ((start, end), ("" if start < end else " ") + ", ".join(words))
            for (start, end), words in self.replacements
        ]
        return filled(self.question, replacements, self.span)


Search = Callable[[Sequence[SubQuestion]], Sequence[InnerResult]]
"""Searches for sub-questions, all under the same filter; returns results in their order."""
Hops = Callable[[str, Float32, Sequence[str]], Sequence[Hop]]
"""From a question, its vector and the ids of the first passages to second hops from these."""
Results = Mapping[SubQuestion, InnerResult]
Whole = Callable[[], Mapping[str, InnerResult]]
"""Gives the inner route's result for each whole question. It is first called when names are
encoded, for an open plan, or for the answer."""


@dataclass(slots=True)
class _PlanState:
    """The state of one question while its plan is carried out.

    Attributes:
        searches: Sub-questions that were to be searched for; a dict keeps their order.
        names: The names that each sub-question contains, and whose phrase they replace.
        pending: Phrases whose candidates were not taken from their searches yet.
        candidates: Phrases with their candidates.
        chain: What the reply says of each phrase.
    """

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

    def phrases(self, level: int, results: Results) -> list[SubQuestion]:
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

    def questions(self, results: Results) -> list[SubQuestion]:
        """The question with names in place: all of them together, then each alone."""
        self._resolve(results)
        confidences: dict[SubQuestion, float] = {}  # of the questions with a single name
        for part in self.parts:
            for candidate in self._candidates(part, self._about(part), results, first_only=True):
                single, confidence = self._about(part, candidate.name), candidate.confidence
                confidences[single] = max(confidence, confidences.get(single, 0.0))
                self.names.setdefault(single, set()).add((part, candidate.name))
        for step, candidates in self.candidates.items():
            for candidate in candidates:
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

    def _resolve(self, results: Results) -> None:
        """Take candidates from the searches made since the last call."""
        for step, phrase in self.pending.items():
            if candidates := self._candidates(step, phrase, results):
                self.candidates[step] = candidates
        self.pending.clear()

    def result(self, results: Results, k: int) -> StepsResult:
        """The final ranking, from all results."""
        inner = self.whole()[self.question]
        whole = inner.ranking
        hops: Sequence[Hop] | None = None
        if not self.searches:
            hops = self.hops(self.question, inner.vector, whole.ids(FIRST))
            if not hops:
                return StepsResult(replace(whole, hits=whole.hits[:k]))
        finished = [search for search in self.searches if search in results]
        rankings = [results[search].ranking for search in finished]
        # From here on, a passage is its number among all passages of the rankings.
        ids, rows, (of_whole, *of_searches) = numbered([whole, *rankings])
        names = [ids[row] for row in rows.tolist()]
        additions = self._additions(finished, rankings, of_searches)
        scores = dict(zip(of_whole.tolist(), whole.scores.tolist(), strict=True))
        position = {passage: index for index, passage in enumerate(scores)}
        for passage, addition in additions.items():
            scores[passage] = scores.get(passage, 0.0) + addition.share
        # The first passage stays first: steps are there to find what else the question needs.
        first = of_whole[:1].tolist()
        for passage in first:
            _add(passage, max(scores.values()) - scores[passage], scores, additions)
        out_of_time = len(finished) < len(self.searches)
        if out_of_time:
            hops = ()
        elif hops is None:
            heads = [names[passage] for passage in _order(scores, first, names)[:FIRST]]
            hops = self.hops(self.question, inner.vector, heads)
        number_of = {name: number for number, name in enumerate(names)}
        best = max(scores.values(), default=0.0)
        for hop in hops:
            passage = number_of.setdefault(hop.passage, len(names))
            if passage == len(names):
                names.append(hop.passage)
                scores[passage] = 0.0
            _add(
                passage, HOPS.share * hop.probability * (best - scores[passage]), scores, additions
            )
        order = _order(scores, first, names)[:k]
        positions = [position[passage] for passage in order if passage in position]
        hit_at = dict(zip(positions, whole.at(positions), strict=True))
        hits = []
        for rank, passage in enumerate(order, start=1):
            sources = hit_at[position[passage]].sources if passage in position else ()
            if passage in additions:
                sources += (additions[passage],)
            hits.append(FusedHit(names[passage], scores[passage], rank, sources))
        notes = [whole.degraded, OUT_OF_TIME if out_of_time else ""]
        degraded = "; ".join(note for note in notes if note)
        ranking = replace(whole, retriever=Route.STEPS, hits=tuple(hits), degraded=degraded)
        chain = (*self._final_chain(finished), *self._followed(hops))
        return StepsResult(ranking, chain, len(finished))

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
        """What steps add to each passage: its best shares in each kind of search, summed.

        Rank and score are those of the best share in the first kind of search that has it.

        Args:
            passages: The passages of each ranking.
        """
        settings = self.settings
        weights = {
            "joint": settings.open_weight if self.plan.open else settings.joint_weight,
            "single": settings.weight,
            "phrase": settings.phrase_weight,
        }
        best: dict[str, dict[int, Source]] = {kind: {} for kind in weights}
        for search, ranking, numbers in zip(searches, rankings, passages, strict=True):
            kind = "phrase" if search.kind == "part" else search.kind
            hits = zip(numbers.tolist(), ranking.scores.tolist(), strict=True)
            for rank, (passage, score) in enumerate(hits, start=1):
                share = weights[kind] * score
                if passage not in best[kind] or share > best[kind][passage].share:
                    best[kind][passage] = Source(Route.STEPS, rank, score, share)
        sums: dict[int, Source] = {}
        for sources in best.values():
            for passage, source in sources.items():
                first = sums.get(passage, source._replace(share=0.0))
                sums[passage] = first._replace(share=first.share + source.share)
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
        self, step: Step, search: SubQuestion, results: Results, *, first_only: bool = False
    ) -> list[Candidate]:
        """Names that may replace a step's phrase, surest first; also recorded in the chain.

        Args:
            search: What was searched for; without a result, there are no candidates.
            first_only: Look only at the first passage, and take fewer names.
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
                if settings.typed and not fits(name, wanted):
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


def _add(
    passage: int, share: float, scores: dict[int, float], additions: dict[int, Source]
) -> None:
    """Raise a passage's score, and what steps are said to add to it."""
    if share > 0:
        addition = additions.get(passage, Source(Route.STEPS, 1, scores[passage], 0.0))
        additions[passage] = addition._replace(share=addition.share + share)
        scores[passage] += share


def _order(scores: Mapping[int, float], first: Sequence[int], names: Sequence[str]) -> list[int]:
    """Passages by score, ties by id; those in `first` before all others."""
    return sorted(scores, key=lambda each: (each not in first, -scores[each], names[each]))


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
