"""A spaCy document's tokens as our own, without those of white space."""

from typing import TYPE_CHECKING

from featurizer.types import Span, Token

if TYPE_CHECKING:
    from spacy.tokens import Doc
    from spacy.tokens import Token as SpacyToken


def tokens_of(doc: "Doc") -> tuple[Token, ...]:
    """The tokens in order.

    What stands under white space in the dependency tree moves up to the next head that is a word;
    where there is none, it has no head.
    """
    kept = [token for token in doc if not token.is_space]
    places = {token.i: place for place, token in enumerate(kept)}
    return tuple(_token(token, places) for token in kept)


def sentence_ranges(doc: "Doc") -> tuple[Span, ...]:
    """Where each sentence that has any of those tokens begins and ends among them."""
    ranges: list[Span] = []
    start = 0
    for sentence in doc.sents:
        end = start + sum(not token.is_space for token in sentence)
        if end > start:
            ranges.append((start, end))
        start = end
    return tuple(ranges)


def _token(token: "SpacyToken", places: dict[int, int]) -> Token:
    head = token.head
    while head.i not in places and head.head.i != head.i:
        head = head.head
    place = places[token.i]
    return Token(
        text=token.text,
        lemma=token.lemma_,
        tag=token.tag_,
        pos=token.pos_,
        dep=token.dep_,
        head=places.get(head.i, place),
        span=(token.idx, token.idx + len(token)),
        entity=token.ent_type_,
        begins_entity=token.ent_iob_ == "B",
        is_stop=token.is_stop,
        like_num=token.like_num,
    )
