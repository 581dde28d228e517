"""Features of the words: how many, of which kinds, and how varied.

Type-token ratio: W. Johnson, 1944. Lexical density: J. Ure, 1971.
"""

from collections.abc import Callable
from functools import partial

from wye.featurizer.question import Feature, View, ratio

_TAGS = (
    ("nouns", "Common nouns.", "NOUN"),
    ("names", "Words of proper names.", "PROPN"),
    ("verbs", "Verbs other than auxiliaries.", "VERB"),
    ("adverbs", "Adverbs.", "ADV"),
    ("prepositions", "Prepositions.", "ADP"),
)


def _pos(tag: str) -> Callable[[View], float]:
    return lambda view: view.pos[tag]


def _function_words(view: View) -> int:
    return len(view.words) - len(view.content)


def _content_lemmas(view: View) -> int:
    return len({token.lemma.lower() for token in view.content})


def _capitalised(view: View) -> float:
    later = view.words[1:]
    return ratio(sum(token.text[0].isupper() for token in later), len(later))


_feature = partial(Feature, group="lexical")

FEATURES = (
    _feature("tokens", "Tokens, punctuation included.", lambda view: len(view.tokens)),
    _feature(
        "punctuation",
        "Tokens without a letter or digit.",
        lambda view: len(view.tokens) - len(view.words),
    ),
    _feature(
        "word_length_max",
        "Length of the longest word.",
        lambda view: max((len(token.text) for token in view.words), default=0),
    ),
    _feature(
        "type_token_ratio",
        "Different words among all, whatever their case; 0 without a word.",
        lambda view: ratio(len(set(view.lower)), len(view.words)),
    ),
    _feature(
        "content_words",
        "Nouns, names, verbs, adjectives, adverbs and numbers.",
        lambda view: len(view.content),
    ),
    _feature("function_words", "All other words.", _function_words),
    _feature(
        "content_to_function",
        "Content words for each function word; 0 without a function word.",
        lambda view: ratio(len(view.content), _function_words(view)),
    ),
    _feature(
        "lexical_density",
        "Content words among all; 0 without a word.",
        lambda view: ratio(len(view.content), len(view.words)),
    ),
    _feature(
        "information_density",
        "Different content words, by lemma, for each token; 0 without a token.",
        lambda view: ratio(_content_lemmas(view), len(view.tokens)),
    ),
    _feature(
        "stop_word_share",
        "Stop words of the pipeline among all words; 0 without a word.",
        lambda view: ratio(sum(token.is_stop for token in view.words), len(view.words)),
    ),
    _feature(
        "capitalised_share",
        "Words with a capital among those after the first; 0 without any.",
        _capitalised,
    ),
    *(_feature(name, doc, _pos(tag)) for name, doc, tag in _TAGS),
)
