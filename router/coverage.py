"""Which words of a question its first passages have, and whether what it asks for is not there.

Names and other words are told apart, since a passage that has only the name does not say what is
asked: "What is the salary of Amira?" is not answered where nothing beside her name fits.
"""

import re
from collections.abc import Sequence, Set
from functools import lru_cache
from itertools import chain, filterfalse

import numpy as np

from wye.backends.notations import Code, notations
from wye.backends.text import content_terms, title_names, words_before_stemming, words_of
from wye.backends.trigraph.definitions import cells_of
from wye.backends.types import Mask

ASKING_WORDS = frozenset(
    """about again all any anybody anyone away back before being both call called came can come
    could describe done each either else ever every everyone explain find get give go goes going
    gone got had happen happened he her here him his i it its just kind let lie lies list many
    may me mean meaning meant might more most much must my need never no now often one only or
    other our out own people person please put really said say several she should show since
    some somebody someone take taken tell thing through today too took until up us use used very
    vs want we went whatever whether whoever without would you your""".split()  # noqa: SIM905 - words read better as words
)
"""Words of a request, which an answer need not have."""
_FEW_WORDS = 2
"""A question with so many words beside its names asks for one thing about them."""
_NEAR = 0.3
"""Passages whose highest cosine is less above that of the end of the dense list are not near."""
_MARKS = ".,;:!?()[]{}\"'`*_|<>#-\u2018\u2019\u201c\u201d\u00ab\u00bb"


def is_only_codes(question: str, terms: Sequence[str], codes: Sequence[Code]) -> bool:
    """Whether a question has nothing but codes."""
    if any(word.isalpha() and word in terms for word in question.split()):
        return False  # an ordinary word
    of_codes = {term for code in codes for term in content_terms(code.text)}
    return bool(codes) and of_codes.issuperset(terms)


def having(codes: Sequence[Code], texts: Sequence[tuple[str, str]]) -> Mask:
    """(n, c) which passages have which codes, as a word or as their parts in a row."""
    has = np.zeros((len(texts), len(codes)), bool)
    for row, pair in enumerate(texts if codes else ()):
        words = words_before_stemming(text := "\n".join(pair))
        known, in_order = {*words, *notations(text)}, f" {' '.join(words)} "
        has[row] = [
            not known.isdisjoint(code.keys) or f" {' '.join(code.parts)} " in in_order
            for code in codes
        ]
    return has


@lru_cache(4096)
def _forms_of(term: str) -> re.Pattern[str] | None:
    """What finds words that begin or end like a term; None for a short term or a code."""
    if len(term) < 4 or not term.isalpha():
        return None
    ends = [rf"\w*{term}", *(term[at:] for at in range(2, len(term) - 4))]
    return re.compile(rf" (?:{term[: max(4, len(term) - 3)]}\w{{0,6}}|{'|'.join(ends)}) ")


def in_any_form(has_term: Mask, terms: Sequence[str], words: Sequence[Sequence[str]]) -> Mask:
    """(n, t) `has_term`, and words that texts have in other forms: "inspected" as "inspection"."""
    texts, has_any = [f" {' '.join(of_text)} " for of_text in words], has_term.copy()
    for row, term in np.argwhere(~has_term).tolist():
        form = _forms_of(terms[term])
        has_any[row, term] = bool(form and form.search(texts[row]))
    return has_any


def says_nothing(
    terms: Sequence[str],
    has_term: Mask,
    is_name: Mask,
    texts: Sequence[tuple[str, str]],
    nearest: float,
) -> bool:
    """Whether passages that have the names of a question seem to say nothing that it asks of them.

    The row of a table says with its labels all that it is about. If the first passage is a row with
    the names, a short question asks for what is in it, or in another passage with these names. Text
    may say it in other words, above all under a title that is the name.

    Args:
        has_term: (n, t) which passages have which terms.
        is_name: (t,) which terms are names.
        nearest: How far the highest cosine is above that of the end of the dense list.
    """
    names = [term for term, is_one in zip(terms, is_name, strict=True) if is_one]
    if is_name.all() or not any(map(str.isalpha, names)):
        return False
    has_names: Mask = np.atleast_1d(has_term[:, is_name].all(axis=1))
    if has_names[0] and cells_of(texts[0][1]) and len(terms) - len(names) <= _FEW_WORDS:
        return not has_term[has_names][:, ~is_name].any()
    heads = ({*content_terms(name)} for title, _ in texts for name in title_names(title))
    is_titled = any(head and head.issubset(names) for head in heads)
    return nearest < _NEAR and not is_titled and not has_term[:, ~is_name].any()


def are_names(
    terms: Sequence[str], together: Mask, texts: Sequence[tuple[str, str]], question: str
) -> Mask:
    """(t,) which terms are names: some of the passages have them, and all write them like names.

    A word is no name where a passage writes it with a small letter, except in an address, or labels
    the cell of a row with it, nor where only this word of a question lacks a capital.

    Args:
        together: (t,) which terms any of the passages has.
    """
    parts = [*chain.from_iterable(texts)]
    parts += (label.lower() for _, text in texts for label, _ in cells_of(text))
    asked = question.split()[1:]
    if any(piece[:1].isupper() for piece in asked):
        parts += words_before_stemming(" ".join(filter(str.islower, asked)))
    text = " ".join(parts)
    pieces = {*text.split()}
    beyond_ascii = () if text.isascii() else filterfalse(str.isascii, pieces)
    small = {
        word
        for piece in (each.strip(_MARKS) for each in beyond_ascii)
        if piece.isalpha() and piece[0].islower()
        for word in words_before_stemming(piece)
    }
    are_big = together.copy()
    for number in np.flatnonzero(together).tolist():
        forms = words_of(terms[number])
        is_plain = terms[number].isalpha() and (
            not pieces.isdisjoint(forms) or any(_is_marked(form, text, pieces) for form in forms)
        )
        are_big[number] = not is_plain and small.isdisjoint(forms)
    return are_big


def _is_marked(word: str, text: str, pieces: Set[str]) -> bool:
    """Whether a piece of a text is a word with marks around it."""
    return word in text and any(piece.strip(_MARKS) == word for piece in pieces if word in piece)
