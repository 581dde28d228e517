"""Features of the words: how many, of which kinds, and how varied."""

from collections.abc import Callable
from functools import partial

from wye.featurizer.question import Feature, View, ratio

_POS = "Universal POS"

_TAGS = (
    ("nouns", "Common nouns.", ("NOUN",)),
    ("names", "Words of proper names.", ("PROPN",)),
    ("verbs", "Verbs other than auxiliaries.", ("VERB",)),
    ("adjectives", "Adjectives.", ("ADJ",)),
    ("adverbs", "Adverbs.", ("ADV",)),
    ("pronouns", "Pronouns, question words among them.", ("PRON",)),
    ("prepositions", "Prepositions.", ("ADP",)),
    ("determiners", "Articles and other determiners.", ("DET",)),
    ("numbers", "Numbers, in digits or words.", ("NUM",)),
    ("coordinators", "Markers of coordination: and, or, but.", ("CCONJ",)),
    ("subordinators", "Markers of subordination: that, if, while.", ("SCONJ",)),
)


def _pos(tags: tuple[str, ...]) -> Callable[[View], float]:
    return lambda view: sum(view.pos[tag] for tag in tags)


def _function_words(view: View) -> int:
    return len(view.words) - len(view.content)


def _content_lemmas(view: View) -> int:
    return len({token.lemma.lower() for token in view.content})


def _capitalised(view: View) -> float:
    later = view.words[1:]
    return ratio(sum(token.text[0].isupper() for token in later), len(later))


def _marks(marks: str) -> Callable[[View], float]:
    listed = frozenset(marks)
    return lambda view: sum(token.text in listed for token in view.tokens)


_feature = partial(Feature, group="lexical", source="tokens")

FEATURES = (
    _feature("tokens", "tokens", "Tokens, punctuation included.", lambda view: len(view.tokens)),
    _feature(
        "punctuation",
        "tokens",
        "Tokens without a letter or digit.",
        lambda view: len(view.tokens) - len(view.words),
    ),
    _feature("commas", "tokens", "Commas and semicolons.", _marks(",;")),
    _feature(
        "quotation_marks",
        "tokens",
        "Quotation marks.",
        _marks("\"'`\u201c\u201d\u2018\u2019\u00ab\u00bb"),
    ),
    _feature(
        "word_length_mean",
        "characters",
        "Mean length of a word; 0 without a word.",
        lambda view: ratio(sum(len(token.text) for token in view.words), len(view.words)),
    ),
    _feature(
        "word_length_max",
        "characters",
        "Length of the longest word.",
        lambda view: max((len(token.text) for token in view.words), default=0),
    ),
    _feature(
        "type_token_ratio",
        "share",
        "Different words among all, whatever their case; 0 without a word.",
        lambda view: ratio(len(set(view.lower)), len(view.words)),
        source="Johnson 1944",
    ),
    _feature(
        "content_words",
        "words",
        "Nouns, names, verbs, adjectives, adverbs and numbers.",
        lambda view: len(view.content),
    ),
    _feature("function_words", "words", "All other words.", _function_words),
    _feature(
        "content_to_function",
        "words per word",
        "Content words for each function word; 0 without a function word.",
        lambda view: ratio(len(view.content), _function_words(view)),
    ),
    _feature(
        "lexical_density",
        "share",
        "Content words among all; 0 without a word.",
        lambda view: ratio(len(view.content), len(view.words)),
        source="Ure 1971",
    ),
    _feature(
        "information_density",
        "share",
        "Different content words, by lemma, for each token; 0 without a token.",
        lambda view: ratio(_content_lemmas(view), len(view.tokens)),
    ),
    _feature(
        "stop_word_share",
        "share",
        "Stop words of the pipeline among all words; 0 without a word.",
        lambda view: ratio(sum(token.is_stop for token in view.words), len(view.words)),
    ),
    _feature(
        "number_like_words",
        "words",
        "Words that stand for a number.",
        lambda view: sum(token.like_num for token in view.words),
    ),
    _feature(
        "capitalised_share",
        "share",
        "Words with a capital among those after the first; 0 without any.",
        _capitalised,
    ),
    _feature(
        "unread_characters",
        "characters",
        "Characters at the end of the question that are not read.",
        lambda view: view.syntax.unread,
        source="Wye",
    ),
    *(_feature(name, "words", doc, _pos(parts), source=_POS) for name, doc, parts in _TAGS),
)
