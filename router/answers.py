"""Answers without a language model, and what of the passages a language model is shown."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wye.backends.text import cells_of, content_terms, split_sentences, words_before_stemming
from wye.featurizer.question import words
from wye.router.match import ASKING_WORDS

LONGEST = 2_000
"""Characters of a sentence beyond which it is cut: a table or a list may have no full stop. Chunks
of usual length are shorter."""
_PIECE = re.compile(rf"\S.{{0,{LONGEST - 1}}}(?!\S)|\S{{{LONGEST}}}", re.DOTALL)


# What ends a sentence without a full stop: a blank line, and a line break before a list item, a row
# of a table, a heading or somebody's turn.
_BREAK = re.compile(r"\n\s*\n|\n(?=\s*(?:[-*•|>#\[]|\d+[.)]\s|\w[\w .-]{0,30}:\s))")
_HEADING_MARK = re.compile(r"\s*#{1,6}\s")
_HEADER = re.compile(r"(?:From|To|Cc|Bcc|Subject|Date|Sent|Reply-To|Von|An|Betreff|Datum): .*")
_MOST_HEADING_WORDS = 8
_ENDS = (".", "!", "?", "…", ":", ";", ",", ")", '"')


def sentences_of(text: str) -> list[str]:
    """Sentences of a text in order; too long ones in pieces, cut between words if possible.

    A blank line ends a sentence too: a heading has no full stop. So does a line break before a list
    item, a row of a table or somebody's turn.
    """
    sentences = []
    for paragraph in _BREAK.split(text):
        for sentence in split_sentences(paragraph):
            if len(sentence) <= LONGEST:
                sentences.append(sentence)
            else:
                sentences += [piece.strip() for piece in _PIECE.findall(sentence)]
    return sentences


def statements_of(text: str) -> list[tuple[str, str]]:
    """The sentences of a text that can answer: neither headings nor headers of a mail.

    A question is one statement with the sentence after it, its reply; without one it is left out.

    Returns:
        Each with the heading above it; "" without one.
    """
    sentences, heading = sentences_of(text), ""
    headers = [bool(_HEADER.fullmatch(sentence)) for sentence in sentences]
    statements = []
    at = end = 0
    for number, sentence in enumerate(sentences):
        start = text.index(sentence, at)
        at = start + len(sentence)
        neighbours = headers[max(0, number - 1) : number] + headers[number + 1 : number + 2]
        is_header = headers[number] and any(neighbours)
        if start >= end and _is_heading(sentence, text[at:]):
            heading = sentence
            continue
        if start < end or is_header:
            continue
        end = at
        if sentence.rstrip("\"')").endswith("?"):
            if number + 1 == len(sentences):
                continue
            reply = sentences[number + 1]
            end = text.index(reply, at) + len(reply)
        statements.append((heading, text[start:end]))
    return statements


def _is_heading(sentence: str, rest: str) -> bool:
    """Whether a sentence is a heading of the rest of its text."""
    if _HEADING_MARK.match(sentence):
        return True
    is_short = len(sentence.split()) <= _MOST_HEADING_WORDS and "\n" not in sentence
    is_apart = rest.startswith("\n") and bool(rest.strip())
    return is_short and is_apart and sentence[0].isalpha() and not _has_mark(sentence)


def _has_mark(sentence: str) -> bool:
    """Whether a line ends like a sentence, or has a value behind a colon."""
    return sentence.endswith(_ENDS) or ": " in sentence or "|" in sentence


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
_FIRST_WORD = re.compile(r"\A\W*\w+")


# Sentences that share so much of their words say the same, if they have the same numbers.
_SAME = 0.8
_NEGATIONS = words("not never no none nobody nothing neither nor without cannot cant dont doesnt")
_NEGATION_SPAN = 4


@dataclass(frozen=True, slots=True)
class Quote:
    """A sentence, or a question with its reply, and the number of its passage, from 1.

    Attributes:
        label: What the sentence is about if it does not say so: the title of a row of a table, or
            the heading above the sentence.
    """

    text: str
    number: int
    label: str = ""

    def __str__(self) -> str:
        return f"{self.label}: {self.text}" if self.label else self.text


@dataclass(frozen=True, slots=True)
class _Sentence:
    quote: Quote
    terms: frozenset[str]
    is_first: bool


def best_sentences(
    question: str, passages: Sequence[tuple[str, str]], most: int = 3, *, known: bool = False
) -> list[Quote]:
    """The most relevant sentences for a question, chosen greedily.

    A sentence's value is that of its words from the question; rare ones count more. A word counts
    less once a chosen sentence has it. Names that a chosen sentence brings in count too, since the
    answer to a question over two hops is often next to a name that the question lacks. A sentence
    that has all of the question's words, together with its passage's title, is quoted alone. A
    title that is a question belongs to the first sentence, its reply.

    Left out are headings, headers of mails, questions without a reply, what says the same as a
    chosen sentence, and what says of somebody what the question denies ("Who does not write …?").

    Args:
        passages: Title and text of each, best first.
        known: Whether the passages are known to be about the question, so that this is not checked.

    Returns:
        At most `most` sentences, the best first; none if the passages seem to be about something
        else.
    """
    if not known and not _bears(question, passages):
        return []
    denied = _denied(question)
    question_terms = _terms(question) - ASKING_WORDS or _terms(question)
    rest = []
    for number, (title, body) in enumerate(passages, start=1):
        for index, (heading, text) in enumerate(statements_of(body)):
            if _asserts(text, denied):
                continue
            helps = not _terms(heading).isdisjoint(question_terms - _terms(text))
            label = title if cells_of(text) else heading.lstrip("# ") if helps else ""
            quote = Quote(text, number, label)
            terms = _terms(_with_question(title, str(quote), index))
            rest.append(_Sentence(quote, terms, not index))
    rarity = _rarity([sentence.terms for sentence in rest])
    weights: dict[str, float] = dict.fromkeys(question_terms, 1.0)
    chosen: list[Quote] = []
    covered: frozenset[str] = frozenset()
    while rest and len(chosen) < most:
        best = max(rest, key=lambda sentence: _worth(sentence, weights, rarity))
        if _worth(best, weights, rarity) <= 0:
            break
        chosen.append(best.quote)
        title = passages[best.quote.number - 1][0]
        if len(chosen) == 1 and question_terms <= best.terms | _terms(title):
            break
        for term in best.terms & weights.keys():
            weights[term] *= _REPEATED
        bridged = _terms(" ".join(_NAME.findall(best.quote.text))) - question_terms
        weights.update((term, _BRIDGED) for term in bridged if term not in weights)
        covered |= best.terms & question_terms
        fresh = weights.keys() - covered
        rest = [one for one in rest if one.terms & fresh and not _same(one, best)]
    return chosen


def _with_question(title: str, statement: str, index: int) -> str:
    """The first statement of a passage with its title if that is a question, as in an FAQ."""
    return f"{title} {statement}" if index == 0 and title.rstrip().endswith("?") else statement


def marks(question: str, sentence: str) -> list[tuple[int, int]]:
    """Offsets of the words of a sentence that the question has, too, each with its end."""
    terms = _terms(question)
    words = re.finditer(r"\w+", sentence)
    return [word.span() for word in words if not terms.isdisjoint(_terms(word[0]))]


def _bears(question: str, passages: Sequence[tuple[str, str]]) -> bool:
    """Whether a passage has enough of the question's words, and one has any of its names."""
    terms, names = _terms(question), _terms(" ".join(_NAME.findall(_FIRST_WORD.sub("", question))))
    shared = [terms & _terms(f"{title} {body}") for title, body in passages]
    most = max(map(len, shared), default=0)
    is_about_it = not names or any(names & each for each in shared)
    return most >= _LEAST_SHARED * len(terms) and is_about_it


def _same(one: _Sentence, other: _Sentence) -> bool:
    """Whether two sentences say the same: nearly the same words, and the same numbers."""
    shared, numbers = one.terms & other.terms, one.terms ^ other.terms
    is_near = len(shared) >= _SAME * len(one.terms | other.terms)
    return is_near and not any(term.isdigit() for term in numbers)


def _denied(question: str) -> frozenset[str]:
    """The terms that a question denies: the first content words after a negation."""
    plain = words_before_stemming(question.replace("n't", " not"))
    at = next((n for n, word in enumerate(plain) if word in _NEGATIONS), len(plain))
    return frozenset(content_terms(" ".join(plain[at + 1 :]))[:1])


def _asserts(text: str, denied: frozenset[str]) -> bool:
    """Whether a sentence says one of some terms without a negation shortly before it."""
    plain = words_before_stemming(text.replace("n't", " not")) if denied else []
    return any(
        not denied.isdisjoint(_terms(word))
        and _NEGATIONS.isdisjoint(plain[max(0, at - _NEGATION_SPAN) : at])
        for at, word in enumerate(plain)
    )


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


def keep_best(
    texts: Sequence[str], scored: Sequence[Sequence[tuple[str, float]]], share: float
) -> list[str]:
    """Texts with a share of their sentences, rounded up, those with the best scores; else "…".

    Parts of each are scored. A sentence that overlaps none of them stays or goes with the one
    before it; a text without any stays.
    """
    spans = [*map(_sentence_spans, texts)]
    values = map(_values, texts, spans, scored)
    order = sorted(
        (-value, text, n) for text, row in enumerate(values) for n, value in enumerate(row)
    )
    best = {(text, n) for _, text, n in order[: math.ceil(share * len(order))]}
    return [
        _joined(text, of_text, {n for n in range(len(of_text)) if (number, n) in best})
        for number, (text, of_text) in enumerate(zip(texts, spans, strict=True))
    ]


def _values(
    text: str, spans: Sequence[tuple[int, int]], scored: Sequence[tuple[str, float]]
) -> list[float]:
    """The score of each sentence: the best of the scored parts that it overlaps."""
    values = [-math.inf] * len(spans)
    at = 0
    for part, score in scored:
        start = text.find(part, at)
        if start < 0:
            continue
        at = start + len(part)
        for n, (begin, end) in enumerate(spans):
            if begin < at and start < end:
                values[n] = max(values[n], score)
    before = next((value for value in values if value > -math.inf), math.inf)
    for n, value in enumerate(values):
        before = values[n] = value if value > -math.inf else before
    return values


def _sentence_spans(text: str) -> list[tuple[int, int]]:
    """Offsets of each sentence of a text, and of its end."""
    spans, end = [], 0
    for sentence in split_sentences(text):
        start = text.index(sentence, end)
        spans.append((start, start + len(sentence)))
    return spans


def _joined(text: str, spans: Sequence[tuple[int, int]], chosen: set[int]) -> str:
    """Join the chosen sentences; consecutive ones keep the text between them."""
    if len(chosen) == len(spans):
        return text
    parts: list[str] = []
    for n, (start, end) in enumerate(spans):
        if n in chosen and n - 1 in chosen:
            parts[-1] += text[spans[n - 1][1] : end]
        elif n in chosen:
            parts.append(text[start:end])
        elif parts[-1:] != [LEFT_OUT]:
            parts.append(LEFT_OUT)
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
_LONGEST = 8  # most words of a name


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


def _tokens(text: str) -> list[_Token]:
    tokens = []
    for match in _TOKEN.finditer(text):
        word, end = match[0], match.end()
        if len(word) > 1 and word.endswith(".") and not _INITIAL.fullmatch(word):
            word, end = word[:-1], end - 1
        tokens.append(_Token(word, match.start(), end, not content_terms(word)))
    return tokens
