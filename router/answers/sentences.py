"""The sentences of a passage that an answer is looked for in."""

import re

from wye.backends.documents import split_sentences

LONGEST = 2_000
"""Characters of a sentence beyond which it is cut: a table or a list may have no full stop. Chunks
of usual length are shorter."""
_PIECE = re.compile(rf"\S.{{0,{LONGEST - 1}}}(?!\S)|\S{{{LONGEST}}}", re.DOTALL)


_BLANK_LINE = re.compile(r"\n\s*\n")


def sentences_of(text: str) -> list[str]:
    """Sentences of a text in order; too long ones in pieces, cut between words if possible.

    A blank line ends a sentence too: a heading has no full stop.
    """
    found = []
    for sentence in (one for part in _BLANK_LINE.split(text) for one in split_sentences(part)):
        if len(sentence) <= LONGEST:
            found.append(sentence)
        else:
            found += [piece.strip() for piece in _PIECE.findall(sentence)]
    return found
