"""Rules that bound the probability that a corpus has an answer, whatever the curves say of it.

Each rule is a small function of one `QuestionMatch`; `bounded` says what follows where one holds.
"""

import math
import re
from collections.abc import Callable, Iterable

import numpy as np

from wye.backends.text import content_terms, folded_words, looks_foreign
from wye.router import answer_types
from wye.router.match import FIRST, QuestionMatch
from wye.router.types import ABSTAIN_BELOW, SURE_FROM

Rule = Callable[[QuestionMatch], bool]
_ABSENT, _UNSURE = (math.nextafter(bound, 0) for bound in (ABSTAIN_BELOW, SURE_FROM))  # at most
_YEAR = re.compile(r"(?<![\w./-])(?:1[5-9]|20)\d\d(?![\w/-]|\.\d)")
_NEAR = 0.38  # cosine from which text has something to say to a question without a name
_FOLLOWED, _NEW_WORDS = 0.5, 2  # from this probability and so many words a hop says something


def bounded(answerability: float, match: QuestionMatch) -> float:
    """The probability within the bounds of the rules that hold; those from above are stronger.

    What would then be called absent is unsure if one of `LENIENT` holds. Those take longest.
    """

    def is_any(rules: Iterable[Rule]) -> bool:
        return any(holds(match) for holds in rules)

    least = SURE_FROM if is_any(SURE) else ABSTAIN_BELOW if is_any(NOT_ABSENT) else 0.0
    most = _ABSENT if is_any(ABSENT) else _UNSURE if is_any(NOT_SURE) else 1.0
    bound = min(max(answerability, least), most)
    is_absent = bound < ABSTAIN_BELOW and not is_any((lacks_code, lacks_year))
    return ABSTAIN_BELOW if is_absent and is_any(LENIENT) else bound


def has_only_codes(match: QuestionMatch) -> bool:
    """Surely answered where the question is codes alone, and one of the first passages has all."""
    return bool(match.has_all_codes[:FIRST].any())


def has_all_words(match: QuestionMatch) -> bool:
    """Never called absent while one of the first passages has all words of the question."""
    return bool(match.terms and match.has_term[:FIRST].all(axis=1).any())


def is_near(match: QuestionMatch) -> bool:
    """Never called absent while a first passage or sentence is near a question without a name."""
    cosine = np.fmax.reduce([*match.cosines[:FIRST], *match.source.sentences[:FIRST]])
    capitals = filter(str.istitle, match.source.question.split()[1:])
    is_big = np.isin(match.terms, content_terms(" ".join(capitals)))
    has_name = match.is_name.any() or is_big.sum() > 1 or (is_big & match.together).any()
    return bool(cosine >= _NEAR and not has_name)


def has_person_or_day(match: QuestionMatch) -> bool:
    """Never called absent while the first passage has the code that is asked who or when of."""
    question = match.source.question
    return _has_code(match) and answer_types.has_person_or_day(*match.texts[0], question)


def has_label(match: QuestionMatch) -> bool:
    """Never called absent while a row of the code or name has a label that means what is asked."""
    (title, text), question = match.texts[0], match.source.question
    texts = [text, *(other for head, other in match.texts[1:] if head == title != "")]
    is_about = _has_code(match) or _lacks_words(match)
    return is_about and any(answer_types.has_synonym(question, each) for each in texts)


def leads_on(match: QuestionMatch) -> bool:
    """Never called absent while a name in the first row leads to text with words the row lacks."""
    hops = np.array([match.source.hops.get(id_, 0.0) for id_ in match.ids])
    new = match.has_any_form & ~match.is_name & ~match.has_any_form[:1]
    return _lacks_words(match) and any(new[hops >= _FOLLOWED].sum(axis=1) >= _NEW_WORDS)


def lacks_code(match: QuestionMatch) -> bool:
    """Called absent where no first passage has a code of the question; wording puts those first."""
    is_spelt = np.array([bool(code.parts) for code in match.codes], bool)  # no number, no day
    return bool(is_spelt.any() and not match.has_code[:FIRST, is_spelt].any())


def lacks_year(match: QuestionMatch) -> bool:
    """Called absent where the first passages lack a year that the question names."""
    written = " ".join((*match.folded[:FIRST], *match.ids))
    return any(year not in written for year in _YEAR.findall(match.source.question))


def is_silent(match: QuestionMatch) -> bool:
    """Called absent where a row with the names leads, of which nothing else that is asked is said.

    Unless the row has the person or the day that is asked for, a label for it, or leads to it.
    """
    is_mute = _lacks_words(match) and not (has_label(match) or leads_on(match))
    return is_mute and not answer_types.has_person_or_day(*match.texts[0], match.source.question)


def lacks_value(match: QuestionMatch) -> bool:
    """Never surely answered where passages with most words have no value of the kind asked for."""
    of_value = content_terms(" ".join(answer_types.words_not_repeated(match.source.question)))
    counts = match.has_term[:FIRST, ~np.isin(match.terms, of_value)].sum(axis=1)
    best = np.flatnonzero(counts == counts.max(initial=0)).tolist()
    texts = (" ".join(match.texts[row]) for row in best)
    return answer_types.lacks_value(match.source.question, texts)


def lacks_relation(match: QuestionMatch) -> bool:
    """Never surely answered where none has the noun or verb by which the question asks."""
    relation = content_terms(answer_types.relation_of(match.source.question))
    terms = {*match.terms, "own"}.intersection(relation)
    words = [*" ".join(match.folded[:FIRST]).split(), *folded_words(" ".join(match.ids))]
    return not all(answer_types.has_word(term, words) for term in terms)


def lacks_cell(match: QuestionMatch) -> bool:
    """Never surely answered where the first row has no cell of the column that is asked for."""
    return answer_types.lacks_cell(match.source.question, match.ids, match.cells)


def lacks_date(match: QuestionMatch) -> bool:
    """Never surely answered where the first passages lack a day or month that is named."""
    return answer_types.lacks_date(match.source.question, (*map(" ".join, match.texts), *match.ids))


def label_fits(match: QuestionMatch) -> bool:
    """Unsure where the first row has a name or code, and a label that the encoder finds near."""
    fits, (title, text) = match.source.label_fits, match.texts[0]
    has_name = _has_code(match) or not math.isnan(match.shares_beside_names[0])
    codes = (each.text for each, has in zip(match.codes, match.has_code[0], strict=True) if has)
    return bool(fits and match.cells[0] and has_name and fits(next(codes, title), text))


def is_foreign(match: QuestionMatch) -> bool:
    """Unsure where a first passage that shares a word is in another language than English."""
    sharing = np.flatnonzero(match.has_any_form.any(axis=1)).tolist()
    return any(looks_foreign(match.texts[row][1]) for row in sharing)


SURE: tuple[Rule, ...] = (has_only_codes,)
NOT_ABSENT: tuple[Rule, ...] = (has_all_words, is_near, has_person_or_day, has_label, leads_on)
ABSENT: tuple[Rule, ...] = (lacks_code, lacks_year, is_silent)
NOT_SURE: tuple[Rule, ...] = (lacks_value, lacks_relation, lacks_cell, lacks_date)
LENIENT: tuple[Rule, ...] = (label_fits, is_foreign)


def _has_code(match: QuestionMatch) -> bool:
    """Whether the first passage has a code of the question."""
    return bool(match.has_code[:1].any())


def _lacks_words(match: QuestionMatch) -> bool:
    """Whether a row with the names leads, and no other word of the question is said of them."""
    return match.shares_beside_names[0] == 0
