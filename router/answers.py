"""Answers without a language model, and what of the passages a language model is shown."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from wye.backends.chunks import split_sentences
from wye.backends.text import content_terms
from wye.featurizer.question import words

LONGEST = 2_000
"""Characters of a sentence beyond which it is cut: a table or a list may have no full stop. Chunks
of usual length are shorter."""
_PIECE = re.compile(rf"\S.{{0,{LONGEST - 1}}}(?!\S)|\S{{{LONGEST}}}", re.DOTALL)


_BLANK_LINE = re.compile(r"\n\s*\n")


def sentences_of(text: str) -> list[str]:
    """Sentences of a text in order; too long ones in pieces, cut between words if possible.

    A blank line ends a sentence too: a heading has no full stop.
    """
    sentences = []
    for paragraph in _BLANK_LINE.split(text):
        for sentence in split_sentences(paragraph):
            if len(sentence) <= LONGEST:
                sentences.append(sentence)
            else:
                sentences += [piece.strip() for piece in _PIECE.findall(sentence)]
    return sentences


# These four were chosen on dev questions of 2wiki, popqa and nq by how often the three sentences
# hold the answer. Factor on a question word's weight for each chosen sentence that has it:
_REPEATED = 0.6
# Weight of a word in a name that a chosen sentence brings in:
_BRIDGED = 0.3
# Factor for the first sentence of a passage, which says what the passage is about:
_LEAD = 1.4
# Terms added to a sentence's length, so that short sentences do not win by being short:
_SHORT = 8

# Passages are relevant if one of them has at least this share of the question's words. With the
# rule for names, 4 of the demo's 120 judged questions get no answer, 66 to 100 % of questions about
# other corpora, and 0 of 198 over 15,000 passages whose first five hold the answer.
_LEAST_SHARED = 0.3

_NAME = re.compile(r"\b[A-Z]\w+")


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence and the number of its passage, from 1."""

    text: str
    number: int


@dataclass(frozen=True, slots=True)
class _Sentence:
    quote: Quote
    terms: frozenset[str]
    is_first: bool


def best_sentences(
    question: str, passages: Sequence[tuple[str, str]], most: int = 3
) -> list[Quote]:
    """The most relevant sentences for a question, chosen greedily.

    A sentence's value is that of its words from the question; rare ones count more. A word counts
    less once a chosen sentence has it. Names that a chosen sentence brings in count too, since the
    answer to a question over two hops is often next to a name that the question lacks.

    Args:
        passages: Title and text of each, best first.

    Returns:
        At most `most` sentences, the best first; none if the passages seem to be about something
        else.
    """
    if not _bears(question, passages):
        return []
    rest = [
        _Sentence(Quote(text, number), _terms(text), index == 0)
        for number, (_, body) in enumerate(passages, start=1)
        for index, text in enumerate(sentences_of(body))
    ]
    rarity = _rarity([sentence.terms for sentence in rest])
    question_terms = _terms(question)
    weights: dict[str, float] = dict.fromkeys(question_terms, 1.0)
    chosen: list[Quote] = []
    while rest and len(chosen) < most:
        best = max(rest, key=lambda sentence: _worth(sentence, weights, rarity))
        if _worth(best, weights, rarity) <= 0:
            break
        rest.remove(best)
        chosen.append(best.quote)
        for term in best.terms & weights.keys():
            weights[term] *= _REPEATED
        for term in _terms(" ".join(_NAME.findall(best.quote.text))) - question_terms:
            weights[term] = max(weights.get(term, 0.0), _BRIDGED)
    return chosen


def _bears(question: str, passages: Sequence[tuple[str, str]]) -> bool:
    """Whether a passage has enough of the question's words, and one has any of its names."""
    terms, names = _terms(question), _terms(" ".join(_NAME.findall(question)))
    shared = [terms & _terms(f"{title} {body}") for title, body in passages]
    most = max(map(len, shared), default=0)
    is_about_it = not names or any(names & each for each in shared)
    return most >= _LEAST_SHARED * len(terms) and is_about_it


def _worth(sentence: _Sentence, weights: Mapping[str, float], rarity: Mapping[str, float]) -> float:
    value = math.fsum(weights[term] * rarity[term] for term in sentence.terms & weights.keys())
    lead = _LEAD if sentence.is_first else 1.0
    return lead * value / math.sqrt((_SHORT + len(sentence.terms)) * sentence.quote.number)


def _rarity(sentences: Sequence[frozenset[str]]) -> dict[str, float]:
    """Term -> ln(1 + number of sentences / number of sentences with the term)."""
    counts = Counter(term for terms in sentences for term in terms)
    return {term: math.log(1 + len(sentences) / count) for term, count in counts.items()}


def _terms(text: str) -> frozenset[str]:
    return frozenset(content_terms(text))


LEFT_OUT = "…"
_INDEX = 0.05
_WORDS = 0.25


@dataclass(frozen=True, slots=True)
class _SentenceSpan:
    """Position of a sentence: its passage, its index there, and its character offsets."""

    passage: int
    index: int
    start: int
    end: int


def pack(question: str, texts: Sequence[str], budget: int) -> list[str]:
    """Shorten the texts of passages to the sentences that fit.

    Args:
        texts: Texts of passages, best first.
        budget: Most characters of the chosen sentences together, without what is between them.

    Returns:
        A text for each passage, "" if nothing of it is chosen, with "…" for sentences that are left
        out. If everything fits, the texts unchanged.
    """
    if sum(map(len, texts)) <= budget:
        return list(texts)
    sentences = [sentence for number, text in enumerate(texts) for sentence in _split(number, text)]
    shared = _shared(question, [texts[s.passage][s.start : s.end] for s in sentences])
    order = sorted(range(len(sentences)), key=lambda n: (-shared[n], n))
    behind = {n: rank / len(sentences) for rank, n in enumerate(order)}
    cost = [
        sentence.passage / len(texts) + _INDEX * sentence.index + _WORDS * behind[n]
        for n, sentence in enumerate(sentences)
    ]
    chosen: list[set[int]] = [set() for _ in texts]
    for n in sorted(range(len(sentences)), key=lambda n: (cost[n], n)):
        sentence = sentences[n]
        if sentence.end - sentence.start <= budget:
            budget -= sentence.end - sentence.start
            chosen[sentence.passage].add(sentence.index)
    return [
        _joined(text, [s for s in sentences if s.passage == number], chosen[number])
        for number, text in enumerate(texts)
    ]


def _split(number: int, text: str) -> list[_SentenceSpan]:
    spans, end = [], 0
    for index, sentence in enumerate(split_sentences(text)):
        start = text.index(sentence, end)
        end = start + len(sentence)
        spans.append(_SentenceSpan(number, index, start, end))
    return spans


def _shared(question: str, sentences: Sequence[str]) -> list[float]:
    """Each sentence's sum of weights of the question's words that it has; rare words weigh more."""
    shared = [_terms(question) & _terms(sentence) for sentence in sentences]
    rarity = _rarity(shared)
    return [math.fsum(rarity[term] for term in terms) for terms in shared]


def _joined(text: str, sentences: Sequence[_SentenceSpan], chosen: set[int]) -> str:
    """Join the chosen sentences; consecutive ones keep the text between them."""
    if len(chosen) == len(sentences):
        return text
    parts: list[str] = []
    before: _SentenceSpan | None = None
    for sentence in sentences:
        if sentence.index not in chosen:
            if parts[-1:] != [LEFT_OUT]:
                parts.append(LEFT_OUT)
            before = None
        elif before is None:
            parts.append(text[sentence.start : sentence.end])
            before = sentence
        else:
            parts[-1] += text[before.end : sentence.end]
            before = sentence
    return " ".join(parts) if chosen else ""


_MONTH = (
    r"(?:January|February|March|April|May|June|July|August|September|October|November|December"
    r"|Jan|Feb|Mar|Apr|Jun|Jul|Aug|Sept?|Oct|Nov|Dec)\.?"
)
_DATE = re.compile(
    rf"\b\d{{1,2}}(?:st|nd|rd|th)? (?:of )?{_MONTH},? \d{{3,4}}\b|\b{_MONTH} \d{{1,2}}"
    rf"(?:st|nd|rd|th)?,? \d{{4}}\b|\b{_MONTH},? \d{{4}}\b|\b\d{{1,2}} {_MONTH}\b"
    rf"|\b{_MONTH} \d{{1,2}}\b|\b(?:early |late |mid[- ])?1?\d{{3}}s\b|\b\d{{1,2}}(?:st|nd|rd|th)"
    r" century(?: (?:BC|AD|BCE|CE))?\b|\b\d{1,4} (?:BC|AD|BCE|CE)\b|\b(?:AD )?[12]\d{3}\b"
)
_TOKEN = re.compile(r"[^\W_]+(?:[.'’&-][^\W_]+)*\.?|[^\w\s]")  # noqa: RUF001
_JOINTS = words("of de la le du van von der den and & bin ibn al el da di do dos das y e")
_INITIAL = re.compile(r"(?:[A-Z]\.)+|[A-Z]|(?:Dr|Mr|Mrs|Ms|St|Jr|Sr|Lt|Col|Gen|Capt)\.")
_LONGEST = 8
"""Most words of a name."""


class _Token(NamedTuple):
    """A word or punctuation mark; `is_function` if it has no content term."""

    text: str
    start: int
    end: int
    is_function: bool

    @property
    def is_capital(self) -> bool:
        return self.text[0].isupper() or (self.text[0].isdigit() and len(self.text) < 3)


def names_in(text: str) -> list[str]:
    """Runs of capitalised words, which "of", "de" and the like may join, in their order.

    Dates are not names. One with "and" is followed by its halves, which may be two names.
    """
    dated = bytearray(len(text))  # 1 for each character of a date
    for match in _DATE.finditer(text):
        dated[match.start() : match.end()] = b"\1" * len(match[0])
    tokens = [
        token._replace(text=",") if 1 in dated[token.start : token.end] else token
        for token in _tokens(text)
    ]
    names: list[str] = []
    at = 0
    while at < len(tokens):
        end = _end_of_name(tokens, at)
        if end > at:
            spans = [(at, end)]
            joint = next((n for n in range(at, end) if tokens[n].text in ("and", "of")), None)
            if joint is not None and tokens[joint].text == "and":
                spans += [(at, joint), (joint + 1, end)]
            names += [text[tokens[a].start : tokens[b - 1].end] for a, b in spans]
        at = max(end, at + 1)
    return names


def _end_of_name(tokens: list[_Token], at: int) -> int:
    """Index after the last token of the name that begins at `at`; `at` if none does."""
    if not tokens[at].is_capital or tokens[at].is_function:
        return at
    end = at + 1
    while end < len(tokens) and end - at < _LONGEST:
        token = tokens[end]
        if token.is_capital and not (token.is_function and len(token.text) > 3):
            end += 1
        elif token.text in _JOINTS and end + 1 < len(tokens) and tokens[end + 1].is_capital:
            end += 2
        else:
            break
    return end


@lru_cache(maxsize=20_000)
def _is_function(word: str) -> bool:
    return not content_terms(word)


def _tokens(text: str) -> list[_Token]:
    tokens = []
    for match in _TOKEN.finditer(text):
        word, end = match[0], match.end()
        if len(word) > 1 and word.endswith(".") and not _INITIAL.fullmatch(word):
            word, end = word[:-1], end - 1
        tokens.append(_Token(word, match.start(), end, _is_function(word)))
    return tokens
