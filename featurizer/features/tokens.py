"""Features of tokens: arcs, words, entities and chains of facts, and combinations of these.

Distances: H. Liu, "Dependency distance as a metric of language comprehension difficulty", 2008.
Relations have ClearNLP's labels, entities OntoNotes'. Type-token ratio: W. Johnson, 1944. Lexical
density: J. Ure, 1971.

A link is an arc from one thing to another: a possessive, a preposition between nouns, a relative
clause, or a participle that modifies a noun. "The father of the director of Alien" is a chain of
two.
"""

from collections.abc import Callable, Mapping
from functools import partial
from math import log2

from wye.featurizer.features.trees import phrase_count, unit_count
from wye.featurizer.question import Feature, View, mean, ratio, words

_dependency = partial(Feature, group="dependency")
_lexical = partial(Feature, group="lexical")
_semantic = partial(Feature, group="semantic")
_relation = partial(Feature, group="relation")
_interaction = partial(Feature, group="interaction")

LONG = 5

_RELATIONS = (
    ("objects", "Objects of verbs, direct and indirect.", ("dobj", "dative", "oprd")),
    ("prepositional_objects", "Objects of prepositions.", ("pobj",)),
    ("adverbial_modifiers", "Adverbs and noun phrases used as adverbs.", ("advmod", "npadvmod")),
    ("compounds", "Nouns or names before nouns.", ("compound", "nmod")),
    ("appositions", "Appositions.", ("appos",)),
    ("attributes", "Complements of copulas.", ("attr", "acomp")),
)


def arc_count(*labels: str) -> Callable[[View], float]:
    """How many arcs have one of the labels."""
    return lambda view: sum(view.arcs.labels[label] for label in labels)


def _entropy(view: View) -> float:
    labels = view.arcs.labels
    total = labels.total()
    return -sum(count / total * log2(count / total) for count in labels.values()) + 0.0


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


_WORKS = frozenset({"WORK_OF_ART", "PRODUCT", "LAW", "EVENT"})
_LOCATIVE = words("in at near where within inside between across beneath under above")


def _entity_words(view: View) -> int:
    return sum(end - start for start, end in view.naming.entities)


def most(name: str) -> Callable[[View], float]:
    """The largest value of a list of `Arcs`."""
    return lambda view: max(getattr(view.arcs, name), default=0)


def _links(view: View) -> float:
    """Number of arcs that are links: those where the number of links to the root increases."""
    links, tokens = view.arcs.links, view.tokens
    return sum(links[position] - links[token.head] for position, token in enumerate(tokens))


def _entity_links(view: View) -> list[int]:
    return [view.arcs.links[position] for position in view.naming.heads]


def _pairwise(view: View) -> float:
    heads = view.naming.heads[:8]
    steps = [
        view.arcs.steps(view.tokens, head, other)
        for position, head in enumerate(heads)
        for other in heads[:position]
    ]
    return mean(steps)


def _offset(view: View) -> float:
    position = view.question_word
    if position < 0:
        return 0.0
    return min((abs(head - position) for head in view.naming.heads), default=0)


_OF_TREES: Mapping[str, Callable[[View], float]] = {
    "clauses": unit_count("clauses"),
    "levels": lambda view: view.shape.depth,
    "noun phrases": phrase_count("NP"),
}
_COUNTS: Mapping[str, Callable[[View], float]] = {
    **_OF_TREES,
    "tokens": lambda view: len(view.tokens),
    "entities": lambda view: len(view.naming.entities),
    "descriptions": lambda view: view.naming.descriptions,
    "links": most("links"),
    "arcs": most("depth"),
}
"""Quantity that features divide or multiply -> its value. "links" are those of the longest chain,
"arcs" and "levels" the depths of the dependency and of the constituency tree."""
_RATIOS = (
    ("tokens_per_clause", "Tokens per clause", "tokens", "clauses"),
    ("entities_per_token", "Named entities per token", "entities", "tokens"),
    ("entities_per_clause", "Named entities per clause", "entities", "clauses"),
    ("tree_depth_per_token", "Depth of the constituency tree for each token", "levels", "tokens"),
    ("dependency_depth_per_token", "Depth of the dependency tree for each token", "arcs", "tokens"),
    ("noun_phrases_per_clause", "Noun phrases per clause", "noun phrases", "clauses"),
    ("noun_phrases_per_entity", "Noun phrases for each named entity", "noun phrases", "entities"),
    ("links_per_entity", "Links of the longest chain for each named entity", "links", "entities"),
    ("links_per_token", "Links of the longest chain for each token", "links", "tokens"),
    (
        "descriptions_per_entity",
        "Definite descriptions without a name for each named entity",
        "descriptions",
        "entities",
    ),
)
_WITHOUT = {"tokens": "a token", "clauses": "a clause", "entities": "an entity"}


def _ratio(name: str, doc: str, above: str, below: str) -> Feature:
    over, under = _COUNTS[above], _COUNTS[below]
    doc = f"{doc}; 0 without {_WITHOUT[below]}."
    return _interaction(name, doc, lambda view: ratio(over(view), under(view)))


def _product(name: str, doc: str, left: str, right: str) -> Feature:
    one, other = _COUNTS[left], _COUNTS[right]
    return _interaction(name, doc, lambda view: one(view) * other(view))


FEATURES = (
    # Distances between words and their heads, and relations
    _dependency(
        "dependency_distance_mean",
        "Mean distance between a word and its head; 0 without an arc.",
        lambda view: mean(view.arcs.distances),
    ),
    _dependency(
        "dependency_distance_max",
        "Largest distance between a word and its head.",
        lambda view: max(view.arcs.distances, default=0),
    ),
    _dependency(
        "long_dependencies",
        f"Arcs over more than {LONG} tokens.",
        lambda view: sum(distance > LONG for distance in view.arcs.distances),
    ),
    _dependency(
        "dependency_depth",
        "Arcs between the root and the word farthest from it.",
        lambda view: max(view.arcs.depth, default=0),
    ),
    _dependency(
        "dependency_depth_mean",
        "Mean number of arcs between the root and a token; 0 without a token.",
        lambda view: mean(view.arcs.depth),
    ),
    _dependency(
        "dependency_branching_max",
        "Most dependents of one token, punctuation included.",
        lambda view: max(map(len, view.arcs.children), default=0),
    ),
    _dependency(
        "dependency_left_share",
        "Arcs whose dependent stands before its head, among all; 0 without an arc.",
        lambda view: ratio(view.arcs.left, len(view.arcs.distances)),
    ),
    _dependency(
        "dependency_label_entropy",
        "Entropy of the relations' frequencies, in bits; 0 without a relation.",
        _entropy,
    ),
    *(
        _dependency(f"dependency_{name}", doc, arc_count(*labels))
        for name, doc, labels in _RELATIONS
    ),
    # The words: how many, of which kinds, and how varied
    _lexical("tokens", "Tokens, punctuation included.", lambda view: len(view.tokens)),
    _lexical(
        "punctuation",
        "Tokens without a letter or digit.",
        lambda view: len(view.tokens) - len(view.words),
    ),
    _lexical(
        "word_length_max",
        "Length of the longest word.",
        lambda view: max((len(token.text) for token in view.words), default=0),
    ),
    _lexical(
        "type_token_ratio",
        "Different words among all, whatever their case; 0 without a word.",
        lambda view: ratio(len(set(view.lower)), len(view.words)),
    ),
    _lexical(
        "content_words",
        "Nouns, names, verbs, adjectives, adverbs and numbers.",
        lambda view: len(view.content),
    ),
    _lexical("function_words", "All other words.", _function_words),
    _lexical(
        "content_to_function",
        "Content words for each function word; 0 without a function word.",
        lambda view: ratio(len(view.content), _function_words(view)),
    ),
    _lexical(
        "lexical_density",
        "Content words among all; 0 without a word.",
        lambda view: ratio(len(view.content), len(view.words)),
    ),
    _lexical(
        "information_density",
        "Different content words, by lemma, for each token; 0 without a token.",
        lambda view: ratio(_content_lemmas(view), len(view.tokens)),
    ),
    _lexical(
        "stop_word_share",
        "Stop words of the pipeline among all words; 0 without a word.",
        lambda view: ratio(sum(token.is_stop for token in view.words), len(view.words)),
    ),
    _lexical(
        "capitalised_share",
        "Words with a capital among those after the first; 0 without any.",
        _capitalised,
    ),
    *(_lexical(name, doc, _pos(tag)) for name, doc, tag in _TAGS),
    # Entities, what is asked for, and semantic roles
    _semantic(
        "entities", "Named entities, numbers left out.", lambda view: len(view.naming.entities)
    ),
    _semantic(
        "entity_kinds", "Different labels among them.", lambda view: len(set(view.naming.labels))
    ),
    _semantic(
        "entity_density",
        "Named entities for each word; 0 without a word.",
        lambda view: ratio(len(view.naming.entities), len(view.words)),
    ),
    _semantic(
        "entity_token_share",
        "Tokens that are part of a named entity among all; 0 without a token.",
        lambda view: ratio(_entity_words(view), len(view.tokens)),
    ),
    _semantic(
        "entity_length_mean",
        "Mean number of tokens of a named entity; 0 without any.",
        lambda view: ratio(_entity_words(view), len(view.naming.entities)),
    ),
    _semantic(
        "entities_person",
        "Entities that are people.",
        lambda view: view.naming.labels.count("PERSON"),
    ),
    _semantic(
        "entities_work",
        "Entities that are works, products, laws or events.",
        lambda view: sum(label in _WORKS for label in view.naming.labels),
    ),
    _semantic(
        "target_place",
        "Whether the answer is a place, by question word and the noun beside it.",
        lambda view: view.asks_for_place,
    ),
    _semantic(
        "role_patient",
        "Patients: direct objects, and subjects of passive verbs.",
        arc_count("dobj", "nsubjpass"),
    ),
    _semantic(
        "role_locative",
        "Words that place something in space.",
        lambda view: sum(word in _LOCATIVE for word in view.lower),
    ),
    # A chain of facts, or a single one
    _relation("relation_links", "Links of any kind.", _links),
    _relation("relation_chain_max", "Links in the longest chain.", most("links")),
    _relation("of_chain_max", "The same, of links by of alone.", most("ofs")),
    _relation(
        "entity_chain_max",
        "Links between the root and the entity that is behind the most; 0 without an entity.",
        lambda view: max(_entity_links(view), default=0),
    ),
    _relation(
        "entity_chain_mean",
        "Mean number of links between the root and an entity; 0 without an entity.",
        lambda view: mean(_entity_links(view)),
    ),
    _relation(
        "entity_reach_min",
        "Arcs from what is asked to the nearest entity; 0 without an entity.",
        lambda view: min(view.reach, default=0),
    ),
    _relation(
        "entity_reach_max",
        "Arcs from what is asked to the farthest entity; 0 without an entity.",
        lambda view: max(view.reach, default=0),
    ),
    _relation(
        "entity_reach_mean",
        "Mean number of arcs from what is asked to an entity; 0 without an entity.",
        lambda view: mean(view.reach),
    ),
    _relation(
        "entity_offset_min",
        "Tokens from the question word to the nearest entity; 0 without either.",
        _offset,
    ),
    _relation(
        "entity_pair_distance",
        "Mean number of arcs between two of the first eight entities; 0 with fewer than two.",
        _pairwise,
    ),
    _relation(
        "descriptions_relational",
        "Definite descriptions without a name (the river) that a clause, participle or preposition "
        "modifies.",
        lambda view: view.naming.relational,
    ),
    _relation(
        "question_word_place",
        "Tokens before the question word: in the film of which director; 0 without one.",
        lambda view: max(view.question_word, 0),
    ),
    # Two aspects together
    *(_ratio(*row) for row in _RATIOS),
    _product(
        "entities_times_links",
        "Named entities times the links of the longest chain.",
        "entities",
        "links",
    ),
    _product(
        "descriptions_times_links",
        "Definite descriptions times the links of the longest chain.",
        "descriptions",
        "links",
    ),
    _product(
        "entities_times_depth",
        "Named entities times the depth of the dependency tree.",
        "entities",
        "arcs",
    ),
)
OF_TREES = frozenset(name for name, _, *counts in _RATIOS if {*_OF_TREES}.intersection(counts))
"""Features that need a constituency tree."""
