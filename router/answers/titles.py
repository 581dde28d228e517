"""Texts and titles as they are told apart."""

import re

_WORD = re.compile(r"\w+")
_BRACKETS = re.compile(r"\s*\([^()]*\)\s*$")
_SECTION = re.compile(r" - .*$| -$")


def plain(text: str) -> str:
    """Words of a text in lower case, with blanks between them."""
    return " ".join(_WORD.findall(text.lower()))


def head(title: str) -> str:
    """What a title names, as `plain` has it: without a section, and without words in brackets."""
    return plain(_BRACKETS.sub("", _SECTION.sub("", title)))
