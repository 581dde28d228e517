"""Whether a text contains an answer, word for word."""

import re
import unicodedata
from collections.abc import Sequence

_WORD = re.compile(r"\w+")


def words(text: str) -> str:
    """Words of a text in order, without case, with a blank around each.

    Words rather than characters: "Ur" is no part of "Uruguay".
    """
    found = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return f" {' '.join(found)} "


def contains_any(text: str, answers: Sequence[str]) -> bool:
    """Whether one of the answers stands in a text, word for word, whatever the case.

    The measure that retrieval for open-domain questions is judged by: Karpukhin et al., Dense
    Passage Retrieval (EMNLP 2020), section 5.1. An answer without a word is in no text.

    Args:
        text: Prepared by `words`.
        answers: Prepared by `words`.
    """
    return any(answer.strip() and answer in text for answer in answers)
