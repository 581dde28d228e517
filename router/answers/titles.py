"""Normal forms of texts and titles, for comparing them."""

import re

_WORD = re.compile(r"\w+")
_BRACKETS = re.compile(r"\s*\([^()]*\)\s*$")
_SECTION = re.compile(r" - .*$| -$")


def plain(text: str) -> str:
    """The words of a text in lower case, separated by blanks."""
    return " ".join(_WORD.findall(text.lower()))


def head(title: str) -> str:
    """`plain` of a title without its section and without words in brackets."""
    return plain(_BRACKETS.sub("", _SECTION.sub("", title)))
