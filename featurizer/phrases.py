"""Noun phrases in the one form under which two passages can share them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spacy.tokens import Span

MAX_WORDS = 5
_DROPPED = frozenset({"DET", "PRON", "PUNCT", "SPACE"})


def noun_phrase_key(chunk: "Span") -> str:
    """Lower-cased words of a spaCy noun chunk with its head lemmatised, or "" to skip it.

    Determiners, pronouns and possessive marks are dropped; what is headed by a pronoun or has
    more than five words left names nothing that recurs.
    """
    if chunk.root.pos_ == "PRON":
        return ""
    words = [t for t in chunk if t.pos_ not in _DROPPED and t.tag_ != "POS"]
    if not words or len(words) > MAX_WORDS:
        return ""
    return " ".join([t.lower_ for t in words[:-1]] + [words[-1].lemma_.lower()])
