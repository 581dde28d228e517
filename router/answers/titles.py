"""Normal forms of texts and titles, for comparing them."""

import re

from backends.words import PARENTHETICAL

_WORD = re.compile(r"\w+")
_SECTION = re.compile(r" - .*$| -$")


def plain(text: str) -> str:
    """The words of a text in lower case, separated by blanks.

    The text is split first: the lower case of "İ" has two characters, of which one is in no word.
    """
    return " ".join(_WORD.findall(text)).lower()


def head(title: str) -> str:
    """`plain` of a title without its section and without words in brackets."""
    return plain(PARENTHETICAL.sub("", _SECTION.sub("", title)))
