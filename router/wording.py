"""What becomes of a route's ranking: what the question's wording asks for, and near-duplicates.

No arm knows that a code names one thing: to an encoder E-9140 is near E-2207, and to BM25 it is one
word among others. Here the few passages that have it come first, on every route.

Copies of a page fill a reply and add nothing to the first, so of passages with near vectors that
say the same (see `are_copies`), one keeps its rank.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from typing import TYPE_CHECKING

import numpy as np

from wye.backends.notations import WITHIN, Code, codes_in, notations, phrases
from wye.backends.numerics import products_of_all
from wye.backends.text import (
    are_copies,
    content_terms,
    entity_key,
    folded_words,
    title_keys,
    without_request,
    words_as_written,
    words_before_stemming,
)
from wye.backends.types import Int64, Mask, Passage, RankedHit, Ranking, Source
from wye.router.errors import QuestionError

if TYPE_CHECKING:
    from wye.router.snapshot import Snapshot

_NEWEST = re.compile(
    r"\b(?:latest|newest|current(?:ly)?|most recent|up[- ]to[- ]date|in force|valid|now)\b",
    re.IGNORECASE,
)
# What every code and every day has: a digit, a capital or a joint inside a word.
_CODE_SIGN = re.compile(r"\d|[a-z][A-Z]|\w[._-]\w")
_NAME = r"[^\W\d_a-z][\w'-]+(?: [^\W\d_a-z][\w'-]+)*"
_DESCRIBED = re.compile(
    rf"\b[Tt]he (?P<what>[a-z-]+(?: [a-z-]+)?)(?<! of)(?<! in)(?<! at)(?<! by) (?P<name>{_NAME})"
    rf"|(?P<name_>{_NAME}),? (?:the|an?) (?P<after>[a-z-]+)"
)
_THANKS = re.compile(
    r"(?=.*\b(?:thanks?|thx|cheers|ok|okay|got it|i see|good ?bye|bye|hello|hi)\b)"
    r"\W*(?:(?:ok|okay|thanks?|thank you|thx|cheers|great|perfect|super|nice|good|got it|i see|"
    r"very|so|much|many|a lot|bye|goodbye|hello|hi|fine|that(?:['\u2019]s| is| was)|helpful|"
    r"for (?:that|your help|the help|everything))\b\W*)+",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")
LEAST_WORDS = 80  # words of a text that may have its question among others
LEAST_LINES = 4  # as `LEAST_WORDS`, in lines
MOST_CODES = 3  # codes of a pasted text that are searched for with its question
CODE = "code"  # source of a hit that has a rare code of the question
DESCRIBED = "described"  # source of a hit about the namesake that is described
NEWEST = "newest"  # source of a hit that is the newest of several versions
FIRST_VERSIONS = 20  # first hits among which versions, or bearers of a name, change ranks
LEAST_ALIKE = 0.3  # share of words that two versions have in common
MOST_PASSAGES = 3  # a code in more passages than this is a subject, not the name of one thing


@dataclass(frozen=True, slots=True)
class Wording:
    """What the wording of a question says about the order of passages; false if nothing."""

    codes: Sequence[Code] = ()  # the codes and days that it names
    newest: bool = False  # whether it asks for the latest of several versions
    described: Mapping[str, frozenset[str]] = field(default_factory=dict)  # name -> its terms

    def __bool__(self) -> bool:
        return bool(self.codes or self.newest or self.described)


@lru_cache(1024)
def read_wording(question: str) -> Wording:
    """The wording of a question."""
    described = {
        entity_key(match["name"] or match["name_"]): frozenset(
            content_terms(match["what"] or match["after"])
        )
        for match in _DESCRIBED.finditer(question)
    }
    codes = codes_in(question) if _CODE_SIGN.search(question) else ()
    return Wording(codes, _NEWEST.search(question) is not None, described)


def asks_nothing(turn: str) -> bool:
    """Whether a turn of a conversation is only thanks, a greeting or praise."""
    return _THANKS.fullmatch(turn) is not None


def question_in(text: str) -> str:
    """The question in a long text, such as a pasted log, with the last codes of the rest.

    It is the last sentence with a question mark, or that begins with a request. A text without one,
    of fewer than `LEAST_WORDS` words and of fewer than `LEAST_LINES` lines is the question itself.
    """
    if len(text.split()) < LEAST_WORDS and text.strip().count("\n") + 1 < LEAST_LINES:
        return text
    sentences = [one.strip() for one in _SENTENCE_END.split(text) if one.strip()]
    asking = [one for one in sentences if one.endswith("?")]
    asking = asking or [one for one in sentences if without_request(one) != one]
    if not asking or len(asking[-1].split()) >= LEAST_WORDS:
        return text
    question = asking[-1]
    codes = [code.text for code in codes_in(text.replace(question, " ")) if code.parts]
    context = [code for code in dict.fromkeys(reversed(codes)) if code not in question]
    return f"{question} ({', '.join(context[:MOST_CODES])})" if context else question


def by_wording(
    wording: Wording, ranking: Ranking, arms: "Snapshot", allowed: Mask | None, k: int
) -> Ranking:
    """At least k hits of a ranking, in the order that the question's wording asks for."""
    ranking = _codes_first(wording.codes, ranking, arms, allowed, k)
    if wording.described:
        ranking = _described_first(wording.described, ranking, arms)
    return _newest_first(ranking, arms) if wording.newest else ranking


def _codes_first(
    codes: Sequence[Code], ranking: Ranking, arms: "Snapshot", allowed: Mask | None, k: int
) -> Ranking:
    """Put the passages that have a rare code of the question first; the others keep their order."""
    counts = _passages_with_codes(codes, arms, allowed)
    if not counts:
        return ranking
    hits = {hit.id: hit for hit in ranking.hits}
    best = max((hit.score for hit in ranking.hits), default=0.0)
    best = best if best > 0 else 1.0
    lifted = []
    for row, count in counts.items():
        id_ = arms.corpus.ids[row]
        hit = hits.pop(id_, None) or RankedHit(id_, 0.0, 0)
        score = count * best + max(hit.score, 0.0)
        sources = *sources_of(hit, ranking), Source(CODE, 1, float(count), score - hit.score)
        lifted.append(RankedHit(id_, score, 0, sources))
    lifted.sort(key=lambda hit: (-hit.score, hit.id))
    others = [RankedHit(hit.id, hit.score, 0, sources_of(hit, ranking)) for hit in hits.values()]
    best_hits = [*lifted, *others][: max(k, len(ranking.hits))]
    ranked = tuple(hit._replace(rank=rank) for rank, hit in enumerate(best_hits, start=1))
    candidates = max(ranking.candidates, len(ranked))
    return replace(ranking, hits=ranked, candidates=candidates, degraded="")


def _passages_with_codes(
    codes: Sequence[Code], arms: "Snapshot", allowed: Mask | None
) -> dict[int, int]:
    """Row of each passage with a rare code, or else with all -> how many of the codes it has."""
    of_codes = [arms.among(rows_with(code, arms), allowed) for code in codes]
    rare = [rows for rows in of_codes if len(rows) <= MOST_PASSAGES]
    counts = Counter(row for rows in rare for row in rows.tolist())
    if not counts and len(of_codes) > 1:
        of_codes = [arms.among(rows_with(code, arms, in_parts=True), allowed) for code in codes]
        both = reduce(np.intersect1d, of_codes).tolist()
        counts.update(dict.fromkeys(both if len(both) <= MOST_PASSAGES else (), len(codes)))
    return counts


def rows_with(code: Code, arms: "Snapshot", *, in_parts: bool = False) -> Int64:
    """Rows of the passages with a code: joined, or else, or too, with all of its parts."""
    lexical = arms.lexical
    rows = np.unique(np.concatenate([lexical.rows_with(key) for key in code.keys]))
    parts = [part for part in code.parts if part not in lexical.settings.stopwords]
    if (in_parts or not len(rows)) and len(parts) > 1:
        rows = np.union1d(rows, reduce(np.intersect1d, map(lexical.rows_with, parts)))
    return rows


def having(codes: Sequence[Code], texts: Sequence[tuple[str, str]]) -> Mask:
    """(n, c) which passages have which codes, as a word or as their parts in a row."""
    has = np.zeros((len(texts), len(codes)), bool)
    for row, pair in enumerate(texts if codes else ()):
        words = words_before_stemming(text := "\n".join(pair))
        known, in_order = {*words, *notations(text)}, f" {' '.join(words)} "
        has[row] = [
            not known.isdisjoint([*code.keys, *(f"{WITHIN}{key}" for key in code.keys)])
            or f" {' '.join(code.parts)} " in in_order
            for code in codes
        ]
    return has


def sources_of(hit: RankedHit, ranking: Ranking) -> tuple[Source, ...]:
    """The lists that held a hit; that of a single arm counts as one."""
    if hit.sources or not hit.rank:
        return hit.sources
    return (Source(str(ranking.retriever), hit.rank, hit.score, hit.score),)


def without_namesakes(question: str, ranking: Ranking, arms: "Snapshot") -> Ranking:
    """A ranking without passages titled by a name whose description fits others of that title."""
    lost: set[int] = set()
    for bearers in _bearers(read_wording(question).described, ranking, arms):
        lost.update(at for at, fits in bearers.items() if not fits)
    hits = [hit for at, hit in enumerate(ranking.hits) if at not in lost] if lost else ()
    ranked = tuple(hit._replace(rank=rank) for rank, hit in enumerate(hits, start=1))
    return replace(ranking, hits=ranked) if lost else ranking


def _described_first(
    described: Mapping[str, frozenset[str]], ranking: Ranking, arms: "Snapshot"
) -> Ranking:
    """Among passages titled by one name, put those first that have what the question says of it."""
    order, moved = [*range(min(len(ranking.hits), FIRST_VERSIONS))], set[int]()
    for bearers in _bearers(described, ranking, arms):
        best = sorted(bearers, key=lambda at: (not bearers[at], at))
        if best != [*bearers]:
            order = _replaced(order, [*bearers], best)
            moved.update(at for at, fits in bearers.items() if fits)
    return _in_order(ranking, order, moved, DESCRIBED)


def _bearers(
    described: Mapping[str, frozenset[str]], ranking: Ranking, arms: "Snapshot"
) -> Iterator[dict[int, bool]]:
    """Positions of the hits titled by each name -> whether its description fits, if some do."""
    if not described:
        return
    texts = arms.texts([hit.id for hit in ranking.hits[:FIRST_VERSIONS]])
    for name, description in described.items():
        bearers = {
            at: description <= {*content_terms(f"{title} {text}")}
            for at, (title, text) in enumerate(texts)
            if name in title_keys(title)
        }
        if len({*bearers.values()}) > 1:
            yield bearers


def _newest_first(ranking: Ranking, arms: "Snapshot") -> Ranking:
    """Among versions of one thing, give the newest the rank of the best.

    Versions have the same title but for numbers and dates, and similar words. Their age is
    compared by the first of these that all of them have: a date in the title, a number in the
    title, a date or version in the metadata, a date in the text, and when the file was modified.
    """
    hits = ranking.hits[:FIRST_VERSIONS]
    passages = arms.corpus.passages([hit.id for hit in hits])
    groups: dict[str, list[int]] = {}
    words = [{*content_terms(passage.text)} for passage in passages]
    for at, passage in enumerate(passages):
        thing = " ".join(_VERSION.sub(" ", passage.title or passage.document).lower().split())
        group = groups.setdefault(thing, [])
        first = words[group[0]] if group else words[at]
        alike = len(first & words[at]) >= LEAST_ALIKE * len(first | words[at])
        if alike and passage.document not in {passages[other].document for other in group}:
            group.append(at)
    order, moved = [*range(len(hits))], set[int]()
    for group in groups.values():
        ages = [_ages(passages[at]) for at in group]
        for kind in zip(*ages, strict=True):
            if len(group) > 1 and None not in kind and len({*kind}) > 1:
                age = dict(zip(group, kind, strict=True))
                best = sorted(group, key=lambda at: (age[at], -at), reverse=True)
                if best != group:
                    order = _replaced(order, group, best)
                    moved.add(best[0])
                break
    return _in_order(ranking, order, moved, NEWEST)


_VERSION = re.compile(
    r"\(.*?\)|\b(?:version|v|rev(?:ision)?|edition|draft|final|old|new|of|from|as|since|until)\b\.?"
    r"|\bv?\d[\d./-]*|[,:;_-]",
    re.IGNORECASE,
)
_DATED = ("date", "valid_from", "effective", "published", "updated", "version", "year")
_NUMBERS = re.compile(r"\d+")
_YEARS = re.compile(r"\b(?:19|20)\d\d(?:-\d\d(?:-\d\d)?)?\b")
_MODIFIED = "modified"


def _ages(passage: Passage) -> tuple[tuple[int, ...] | None, ...]:
    """What tells the age of a passage, the surest first; larger is newer."""
    title, data = passage.title, passage.metadata
    of_data = next((str(data[key]) for key in _DATED if key in data), "")
    modified = str(data.get(_MODIFIED, ""))
    return tuple(
        max(dates) if dates else None
        for dates in (
            [*_dates(title)],
            [_numbers(title)] if _numbers(title) else [],
            [_numbers(of_data)] if _numbers(of_data) else [],
            [*_dates(passage.text)],
            [_numbers(modified)] if _numbers(modified) else [],
        )
    )


def _dates(text: str) -> Iterator[tuple[int, ...]]:
    """Days, months and years of a text as numbers."""
    keys = (key for phrase in phrases(text) for key in phrase.keys)
    for key in (*keys, *_YEARS.findall(text)):
        if _YEARS.fullmatch(key):
            yield _numbers(key)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(map(int, _NUMBERS.findall(text)))


def _replaced(order: Sequence[int], before: Sequence[int], after: Sequence[int]) -> list[int]:
    """An order with some positions replaced by others."""
    by_position = dict(zip(before, after, strict=True))
    return [by_position.get(at, at) for at in order]


def _in_order(ranking: Ranking, order: Sequence[int], moved: Set[int], source: str) -> Ranking:
    """A ranking with its first hits in another order; scores stay where they are."""
    if not moved:
        return ranking
    hits = [RankedHit(*hit[:3], sources_of(hit, ranking)) for hit in ranking.hits]
    first = []
    for former, at in zip(hits, order, strict=False):
        hit, lift = hits[at], former.score - hits[at].score
        why = (Source(source, 1, 1.0, lift),) if at in moved else ()
        first.append(RankedHit(hit.id, former.score, former.rank, (*hit.sources, *why)))
    return replace(ranking, hits=(*first, *hits[len(first) :]))


FOLD, KEEP = "fold", "keep"  # of near-duplicates, one keeps its rank, or all do
DUPLICATE = "duplicate"  # source of a hit behind the others; its rank is the original's
LEAST_COSINE = 0.97  # cosine of two near-duplicates' vectors
FOLDED = 4  # hits that are ranked for each one wanted, since near-duplicates go
MOST_COMPARED = 300  # first hits of a ranking among which near-duplicates are looked for


def require_choice(duplicates: str) -> None:
    """Raise a `QuestionError` unless it is "fold", "keep" or ""."""
    if duplicates not in ("", FOLD, KEEP):
        raise QuestionError(f"duplicates is {duplicates!r:.40}; use {FOLD} or {KEEP}.")


def width(depth: int, deepest: int) -> int:
    """How many hits to rank so that `depth` remain; no more than the lists that are fused have."""
    return max(depth, min(FOLDED * depth, deepest))


def fold(
    ranking: Ranking, arms: "Snapshot", depth: int
) -> tuple[Ranking, dict[str, tuple[str, ...]]]:
    """Move near-duplicates of better hits behind all other hits.

    Returns the first `depth` hits, and by id of a hit that has near-duplicates, their ids, best
    first. A moved hit scores no more than the last one that was not moved.
    """
    hits, ids = ranking.hits, ranking.ids(MOST_COMPARED)
    if not ids:
        return replace(ranking, hits=hits[:depth]), {}
    vectors = arms.vectors(replace(ranking, hits=hits[:MOST_COMPARED]))
    cosines = products_of_all(vectors, vectors)  # BLAS's threads would spin on after it
    pairs = [(a, b) for a, b in np.argwhere(cosines >= LEAST_COSINE).tolist() if a > b]
    if not pairs:
        return replace(ranking, hits=hits[:depth]), {}
    near = sorted({at for pair in pairs for at in pair})
    texts = zip(near, arms.texts([ids[at] for at in near]), strict=True)
    words = {at: words_as_written("\n".join(text)) for at, text in texts}
    best: dict[int, int] = {}  # a moved hit -> the hit that it repeats
    for later, earlier in pairs:  # by the later hit, then by the earlier one
        if later not in best and earlier not in best and are_copies(words[earlier], words[later]):
            best[later] = earlier
    if not best:
        return replace(ranking, hits=hits[:depth]), {}
    others = [at for at in range(len(hits)) if at not in best]
    rank_of = {at: rank for rank, at in enumerate(others, start=1)}
    lowest = hits[others[-1]].score
    ordered = []
    for rank, at in enumerate([*others, *best], start=1):
        hit, sources = hits[at], sources_of(hits[at], ranking)
        score = min(hit.score, lowest) if at in best else hit.score
        if at in best:
            cosine, share = float(cosines[at, best[at]]), score - hit.score
            sources = *sources, Source(DUPLICATE, rank_of[best[at]], cosine, share)
        ordered.append(RankedHit(hit.id, score, rank, sources))
    repeats = {
        ids[first]: tuple(ids[at] for at, other in best.items() if other == first)
        for first in sorted({*best.values()})
    }
    return replace(ranking, hits=tuple(ordered[:depth])), repeats


def is_only_codes(question: str, terms: Sequence[str], codes: Sequence[Code]) -> bool:
    """Whether a question has nothing but codes."""
    has_word = any(word.isalpha() and word in terms for word in question.split())
    of_codes = {term for code in codes for term in content_terms(code.text)}
    return bool(codes) and not has_word and of_codes.issuperset(terms)


@lru_cache(4096)
def between_blanks(text: str) -> str:
    """The folded words of a text with single blanks before, between and after them."""
    return " ".join(["", *folded_words(text), ""])


def has_form(term: str, text: str) -> bool:
    """Whether words between blanks have one in another form: "inspection", "inspected"."""
    if len(term) < 4 or not term.isalpha():
        return False
    stem = f" {term[: max(4, len(term) - 3)]}"
    if f"{term} " in text or any(f" {term[at:]} " in text for at in range(2, len(term) - 4)):
        return True
    return any(len(rest.partition(" ")[0]) <= 6 for rest in text.split(stem)[1:])
