"""What the passages of a ranking have of a question: its words, its codes, and its names.

Names and other words are told apart, since a passage that has only the name does not say what is
asked: "What is the salary of Amira?" is not answered where nothing beside her name fits.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, filterfalse, pairwise

import numpy as np

from wye.backends.notations import Code
from wye.backends.text import cells_of, content_terms, german_words, words_before_stemming, words_of
from wye.backends.types import Float64, Mask, Ranking
from wye.router.answer_types import words_not_repeated
from wye.router.types import Route
from wye.router.wording import between_blanks, has_form, having, is_only_codes, read_wording

FIRST = 5  # how many of the first passages are searched for an answer
ASKING_WORDS = frozenset(
    """about again all any anybody anyone away back before being both call called came can come
    could current currently describe done each either else ever every everyone explain find get
    give go goes going gone got had happen happened he her here him his i it its just kind
    latest let lie lies list many may me mean meaning meant might more most much must my need
    never newest no now often one only or other our out own people person please put really said
    say several she should show since some somebody someone still take taken tell thing through
    today too took until up us use used very vs want we went whatever whether whoever without
    would yet you your""".split()  # noqa: SIM905 - words read better as words
)
"""Words of a request, which an answer need not have; the newest of versions need not say so."""
# What a text with the header of a mail says of whoever it is from.
_OF_MAIL = " wrote write written writes sent send sends mailed emailed sender "
_DIGRAPH = re.compile("([aou])e")
_MARKS = ".,;:!?()[]{}\"'`*_|<>#-\u2018\u2019\u201c\u201d\u00ab\u00bb"


@dataclass(frozen=True, slots=True)
class RouteRanking:
    """A ranking to be judged, with what its route computed anyway."""

    question: str
    route: Route  # the route that made it
    ranking: Ranking
    texts: Sequence[tuple[str, str]]  # title and text of each hit
    dense: Ranking | None = None  # the dense list, if it was fused with others
    sentences: Sequence[float] = ()  # the highest cosine of a sentence of each first hit, if known
    weights: Mapping[str, float] = field(default_factory=dict)  # term -> how rare it is, or 1
    names: Sequence[str] = ()  # names that steps put into the question
    hops: Mapping[str, float] = field(default_factory=dict)  # passage of a name -> P(evidence)
    label_fits: Callable[[str, str], bool] | None = None  # of a name and its row


@dataclass(frozen=True, eq=False)
class QuestionMatch:
    """The t content words and c codes of a question in n passages, the first m of which count."""

    source: RouteRanking
    cosines: Float64  # (n,) of the passages; NaN if not known
    is_german: bool  # whether the question is, so that its nouns have capitals as names do
    terms: list[str]  # content words of the question but those of a request, if it has others
    weights: Float64  # (t,) how rare the terms are
    codes: Sequence[Code]  # codes and days that the question names
    bodies: list[str]  # the folded words of each text between blanks
    folded: list[str]  # the folded words of each title and text between blanks
    has_term: Mask  # (n, t) which passages have which terms
    has_code: Mask  # (n, c) which passages have which codes
    has_all_codes: Mask  # (n,) whether the question is codes alone and a passage has them all
    ids: list[str]  # of the first passages
    texts: Sequence[tuple[str, str]]  # titles and texts of the first passages
    cells: list[list[tuple[str, str]]]  # labels and values of those that are rows of a table

    @classmethod
    def of(cls, source: RouteRanking, cosines: Float64) -> "QuestionMatch":
        """Look up the words and codes of a ranking's question in its passages."""
        question, texts = source.question, source.texts
        german, every = german_words(question), sorted({*content_terms(question)})
        of_request = ASKING_WORDS | german
        terms = [term for term in every if term not in of_request] or every
        weights = np.array([source.weights.get(term, 1.0) for term in terms])
        bodies = [between_blanks(text) + _OF_MAIL * text.startswith("From: ") for _, text in texts]
        heads = [between_blanks(title) for title, _ in texts]
        folded = [head + body for head, body in zip(heads, bodies, strict=True)]
        forms = [[f" {word} " for word in words_of(term)] for term in terms]
        rows = [[any(map(text.__contains__, of_term)) for of_term in forms] for text in folded]
        has_term = np.array(rows, bool).reshape(len(texts), len(terms))
        codes = read_wording(question).codes
        has_code = having(codes, texts)
        has_all = np.atleast_1d(has_code.all(axis=1) & is_only_codes(question, terms, codes))
        ids, first = source.ranking.ids(FIRST), texts[:FIRST]
        cells = [cells_of(text) for _, text in first]
        known = (terms, weights, codes, bodies, folded, has_term, has_code, has_all)
        return cls(source, cosines, bool(german), *known, ids, first, cells)

    @cached_property
    def has_any_form(self) -> Mask:
        """(m, t) which first passages have which terms, also in other forms or in codes."""
        first = self.has_term[:FIRST].copy()
        for column in np.flatnonzero(~first.all(axis=0)).tolist():
            term, rows = self.terms[column], np.flatnonzero(~first[:, column]).tolist()
            if self.is_german:
                term = _DIGRAPH.sub(r"\1", term)
            if has_form(term, "".join([self.folded[row] for row in rows])):
                first[rows, column] = [has_form(term, self.folded[row]) for row in rows]
        for number, code in enumerate(self.codes):
            of_code = np.isin(self.terms, content_terms(code.text))
            first |= self.has_code[:FIRST, number, None] & of_code
        return first

    @cached_property
    def together(self) -> Mask:
        """(t,) which terms any of the first passages has."""
        return np.atleast_1d(self.has_any_form.any(axis=0))

    @cached_property
    def is_name(self) -> Mask:
        """(t,) which terms are names: some of the first passages have them, and all as names.

        A word is no name where a passage writes it with a small letter, except in an address, or
        labels the cell of a row with it, nor where only this word of a question lacks a capital.
        """
        labels = (label.lower() for cells in self.cells for label, _ in cells)
        parts = [*chain.from_iterable(self.texts), *labels]
        rest = self.source.question.split()[1:]
        if any(piece[:1].isupper() for piece in rest):
            parts += words_before_stemming(" ".join(filter(str.islower, rest)))
        pieces = " ".join(parts).split()
        text = " ".join(["", *pieces, ""])
        beyond_ascii = () if text.isascii() else {*filterfalse(str.isascii, pieces)}
        small = {
            word
            for piece in (each.strip(_MARKS) for each in beyond_ascii)
            if piece.isalpha() and piece[0].islower()
            for word in words_before_stemming(piece)
        }
        is_name = self.together.copy()
        for number in np.flatnonzero(is_name).tolist():
            term, forms = self.terms[number], words_of(self.terms[number])
            is_small = self.is_german or any(has_piece(form, text) for form in forms)
            is_name[number] = not (term.isalpha() and is_small) and small.isdisjoint(forms)
        return is_name

    @cached_property
    def shares_beside_names(self) -> tuple[float, float]:
        """The share of the words beside the names that passages about these have: of row, of text.

        Those are passages with all of the names, or whose title is in one: "the phone of the keeper
        of K-17". The row of a table says with its labels and its file's name all that it is about,
        while text may use other words, so rows are evidence of their own. Words just before the
        name of a row, as in "the yacht Saffron", or its code belong to it.

        Returns:
            The share if the first passage is a row with the names, and if not. The other is NaN, or
            both are: where there is no name, no passage with the names, or no word beside these.
        """
        if not self.is_name.any():
            return math.nan, math.nan
        has_term = self.has_any_form.copy()
        of_rows = []
        for id_, cells in zip(self.ids, self.cells, strict=True):
            labels = (word for label, _ in cells for word in between_blanks(label).split())
            of_file, abbreviations = content_terms(id_), tuple(w for w in labels if len(w) > 2)
            of_rows.append([t in of_file or t.startswith(abbreviations) for t in self.terms])
        has_term |= np.array(of_rows)
        holders: Mask = np.atleast_1d(has_term[:, self.is_name].all(axis=1))
        if not holders.any():
            return math.nan, math.nan
        without = {*content_terms(" ".join(words_not_repeated(self.source.question)))}
        rest: Mask = np.logical_and(~self.is_name, [term not in without for term in self.terms])
        is_row = bool(holders[0] and self.cells[0])
        of_codes = content_terms(" ".join(code.text for code in self.codes))
        for at, (before, number) in reversed([*enumerate(pairwise(self._order()))] * is_row):
            if min(before, number) >= 0 and not rest[number]:
                is_kind = at and self.terms[number] in of_codes
                rest[before] &= not (is_kind or (has_term[:, before] & has_term[:, number]).any())
        of_names = [text for (_, text), holds in zip(self.texts, holders, strict=True) if holds]
        holders |= [bool(t) and any(t in text for text in of_names) for t, _ in self.texts]
        covered: Mask = np.atleast_1d(has_term[holders].any(axis=0))
        share = float(share_of(covered[None], self.weights * rest)[0])
        return (share, math.nan) if is_row else (math.nan, share)

    def _order(self) -> list[int]:
        """Number of each term in the order of the question; -1 for other words and for marks."""
        number_of = {form: n for n, term in enumerate(self.terms) for form in words_of(term)}
        return [
            number_of.get(word, -1)
            for piece in self.source.question.split()
            for word in (*words_before_stemming(piece), *filter(_MARKS.count, piece[-1]))
        ]


def share_of(has_term: Mask, weights: Float64) -> Float64:
    """(n,) the share of the weights of the terms that each row has; NaN if they are all 0."""
    total = weights.sum()
    return has_term @ weights / total if total > 0 else np.full(len(has_term), np.nan)


def has_piece(word: str, text: str) -> bool:
    """Whether a text between blanks has a word with nothing but marks between it and blanks."""
    sides = pairwise(text.split(word))
    return any(
        not before.rpartition(" ")[2].strip(_MARKS) and not after.partition(" ")[0].strip(_MARKS)
        for before, after in sides
        if " " in before and " " in after
    )
