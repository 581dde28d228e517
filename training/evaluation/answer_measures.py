"""Measures of an answer against the right ones, as question answering is judged in papers."""

import re
import string
from collections import Counter
from collections.abc import Sequence

from training.data.replaying import contains_any, words

_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(text: str) -> list[str]:
    """An answer's words as SQuAD compares them: without case, punctuation and articles.

    Rajpurkar et al., SQuAD (EMNLP 2016), section 6.1.
    """
    return _ARTICLE.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split()


def exact_match(answer: str, right: Sequence[str]) -> float:
    """1.0 if an answer equals a right one, both normalised, else 0.0."""
    own = normalised(answer)
    return float(any(own == normalised(one) for one in right))


def token_f1(answer: str, right: Sequence[str]) -> float:
    """The best F1, 0 to 1, of an answer's words against a right one's, both normalised."""
    own = Counter(normalised(answer))
    return max((_f1(own, Counter(normalised(one))) for one in right), default=0.0)


def _f1(own: Counter[str], right: Counter[str]) -> float:
    shared = (own & right).total()
    if not shared:
        return float(own == right)
    return 2 * shared / (own.total() + right.total())


def contained(answer: str, right: Sequence[str]) -> float:
    """1.0 if the text contains a right answer, word for word without case, else 0.0."""
    return float(contains_any(words(answer), [words(one) for one in right]))
