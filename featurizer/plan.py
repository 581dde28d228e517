"""The plan of a question: which descriptions in it to resolve first, innermost first.

"Who leads the country where the composer of Finlandia was born?" has two: "the composer of
Finlandia", and around it "the country where … was born". A name found for the inner one replaces
it, and the question has one hop less. Questions that compare, or ask what two things have in
common, have parallel parts. The plan is derived from the dependencies alone, which need no further
model.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from wye.featurizer.plan_phrases import (
    ASKING,
    ORDERS,
    POLITE,
    RELATIVE,
    Node,
    ParsedSentence,
    Phrase,
    descriptions,
    type_of_noun,
)
from wye.featurizer.question import words
from wye.featurizer.types import Span, Token

LEVELS = 3
STEPS = 6
LONG = 14

_OR = re.compile(r",? or (?:the |an? )?", re.IGNORECASE)
_ARTICLE = re.compile(r"\b(?:the|an?) $", re.IGNORECASE)

_DO = words("do does did 's")
_AUXILIARIES = words(
    "is are was were do does did has have had can could will would should may might"
)
_TYPES_BY_LABEL = {
    "PERSON": "person",
    **dict.fromkeys(("GPE", "LOC", "FAC"), "place"),
    "ORG": "organisation",
    "WORK_OF_ART": "work",
}
_COMPARING = words("both same share common either alike different difference")


@dataclass(frozen=True, slots=True)
class Step:
    """A phrase of a question that can be resolved by itself.

    Attributes:
        kind: "bridge", a description by a preposition or a clause; "possessive"; "comparison" or
            "intersection", one of several parallel parts.
    """

    span: Span  # character offsets of the phrase in the question
    kind: str
    wanted: str  # the type of its answer: a key of `plan_phrases.TYPES`, or "free"
    named: bool = False  # whether it is a name already, which needs no replacement
    inside: tuple["Step", ...] = ()  # steps within its phrase, in order

    @property
    def level(self) -> int:
        """Levels of nesting from the innermost step to this one, at least 1."""
        return 1 + max((step.level for step in self.inside), default=0)


@dataclass(frozen=True, slots=True)
class Plan:
    """The outermost steps of a question, in order; none if there is nothing to resolve.

    There are at most `STEPS` in all, in at most `LEVELS` levels.

    Attributes:
        open: Whether a question of `LONG` tokens or more has no step: it describes something
            without a name, and a search for the whole question finds that.
    """

    steps: tuple[Step, ...] = ()
    open: bool = False

    def levels(self) -> tuple[tuple[Step, ...], ...]:
        """All steps by level, the innermost first."""
        steps = sorted(walk(self.steps), key=lambda step: (step.level, step.span))
        return tuple(tuple(group) for _, group in groupby(steps, key=lambda step: step.level))


def walk(steps: Sequence[Step]) -> Iterator[Step]:
    """All steps, including those inside others, outer before inner."""
    for step in steps:
        yield step
        yield from walk(step.inside)


def filled(question: str, replacements: Iterable[tuple[Span, str]], span: Span) -> str:
    """A span of a question with replaced phrases, which are in order and do not overlap."""
    text, position = "", span[0]
    for (start, end), name in replacements:
        text += question[position:start] + name
        position = end
    return text + question[position : span[1]]


def plan_by_dependencies(tokens: Sequence[Token], sentences: Sequence[Span]) -> Plan:
    """The plan of a question by its dependencies, without trees; sentences are token ranges."""
    steps: list[Step] = []
    for start, end in sentences:
        sentence = ParsedSentence(tokens[start:end], dependency_nodes(tokens[start:end], start))
        parts = parallel_parts(sentence)
        phrases = [p for p in descriptions(sentence) if not _joins(p, parts)]
        steps += _nest(sentence.tokens, parts, phrases)
    is_long = sum(end - start for start, end in sentences) >= LONG
    return Plan(tuple(_within_bounds(steps)), open=not steps and is_long)


_LABELS_BY_POS = {"NOUN": "NP", "PROPN": "NP", "VERB": "VP", "AUX": "VP", "ADP": "PP"}


def dependency_nodes(tokens: Sequence[Token], start: int) -> list[Node]:
    """The nodes of a tree over a sentence from a token on, parents first, from left to right.

    Each noun, and each token with dependents, has a phrase: the token and its dependents' nodes in
    the order of the sentence. Where arcs cross, so that a phrase would not be contiguous, there is
    one phrase of all tokens.
    """
    dependents: list[list[int]] = [[] for _ in tokens]
    roots: list[int] = []
    for position, token in enumerate(tokens):
        head = token.head - start
        (roots if head == position else dependents[head]).append(position)
    root = Node("ROOT", 0, len(tokens))
    nodes = [root]
    order: list[int] = []

    def add(label: str, parent: Node) -> Node:
        node = Node(label, len(order))
        nodes.append(node)
        parent.children.append(node)
        return node

    def add_word(position: int, parent: Node) -> None:
        node = add(tokens[position].tag, parent)
        order.append(position)
        node.end = len(order)

    def add_phrase(position: int, parent: Node) -> None:
        token = tokens[position]
        label = "SBAR" if token.dep == "relcl" else _LABELS_BY_POS.get(token.pos, "X")
        if not dependents[position] and label != "NP":
            add_word(position, parent)
            return
        node = add(label, parent)
        for item in sorted([*dependents[position], position]):
            (add_word if item == position else add_phrase)(item, node)
        node.end = len(order)

    for position in roots:
        add_phrase(position, root)
    words = [(token.text, token.tag) for token in tokens]
    return nodes if [words[position] for position in order] == words else _flat_nodes(tokens)


def _flat_nodes(tokens: Sequence[Token]) -> list[Node]:
    leaves = [Node(token.tag, position, position + 1) for position, token in enumerate(tokens)]
    phrase = Node("X", 0, len(tokens), leaves)
    return [Node("ROOT", 0, len(tokens), [phrase]), phrase, *leaves]


def with_names(plan: Plan, question: str, names: Sequence[Span]) -> Plan:
    """The plan with its phrases fitted to known names, by spans, which a parser may cut.

    In "Which is older, Kingdom in the Clouds or The Witch's Curse?" it may find "Kingdom" and "The
    Witch". A phrase grows by a name that it cuts, and is dropped where it is part of one. Two names
    with "or" between them are compared.
    """
    names = [(start, _end_with_bracket(question, start, end)) for start, end in names]
    steps = [fitted for step in plan.steps if (fitted := _fit_to_names(step, names))]
    for pair in pairwise(names):
        if not _OR.fullmatch(question[pair[0][1] : pair[1][0]]) or _compares(steps, pair):
            continue
        spans = [(_start_with_article(question, start), end) for start, end in pair]
        wanted = next((step.wanted for step in steps if step.kind == "comparison"), "free")
        beside = spans[0][0], spans[1][1]
        steps = [
            *(s for s in steps if s.kind != "comparison" and not _overlap(s.span, beside)),
            *(Step(span, "comparison", wanted, named=True) for span in spans),
        ]
    steps.sort(key=lambda step: step.span)
    return plan if _cross(steps) else Plan(tuple(_within_bounds(steps)), plan.open and not steps)


def _fit_to_names(step: Step, names: Sequence[Span]) -> Step | None:
    """The step, grown by the names that it cuts; None where it is part of one."""
    start, end = step.span
    for first, last in names:
        within = first <= start and end <= last
        if within and (first, last) != step.span and step.kind != "comparison":
            return None
        if _overlap((first, last), (start, end)):
            start, end = min(start, first), max(end, last)
    inside = tuple(fitted for inner in step.inside if (fitted := _fit_to_names(inner, names)))
    return replace(step, span=(start, end), inside=inside)


def _compares(steps: Sequence[Step], names: Sequence[Span]) -> bool:
    """Whether each name is in a different part of a comparison."""
    parts = [step.span for step in steps if step.kind == "comparison"]
    part_of_name = [next((p for p in parts if _overlap(name, p)), None) for name in names]
    return None not in part_of_name and len({*part_of_name}) == len(names)


def _overlap(left: Span, right: Span) -> bool:
    return left[0] < right[1] and right[0] < left[1]


def _cross(steps: Sequence[Step]) -> bool:
    """Whether any two steps that stand side by side overlap, at any level."""
    overlap = any(_overlap(left.span, right.span) for left, right in pairwise(steps))
    return overlap or any(_cross(step.inside) for step in steps)


def _end_with_bracket(question: str, start: int, end: int) -> int:
    """The end of a name, behind the bracket that it lacks."""
    is_open = question.count("(", start, end) > question.count(")", start, end)
    return end + (is_open and question[end : end + 1] == ")")


def _start_with_article(question: str, start: int) -> int:
    """The start of a name, with the article before it."""
    article = _ARTICLE.search(question, 0, start)
    return article.start() if article else start


def _nest(
    tokens: Sequence[Token], parts: Sequence[Phrase], phrases: Sequence[Phrase]
) -> list[Step]:
    """Phrases as nested steps; of two that cross, a parallel part wins, then the shorter one."""
    chosen: list[Phrase] = []
    for phrase in (*parts, *sorted(phrases, key=lambda p: (p.end - p.start, p.start))):
        if not any(_crosses(phrase, other) for other in chosen):
            chosen.append(phrase)
    # Innermost first: a later step takes in the earlier ones within it.
    outermost: list[tuple[Phrase, Step]] = []
    for phrase in sorted(chosen, key=lambda p: (p.end - p.start, p.start)):
        inner = [pair for pair in outermost if phrase.start <= pair[0].start < phrase.end]
        outermost = [pair for pair in outermost if pair not in inner]
        span = tokens[phrase.start].span[0], tokens[phrase.end - 1].span[1]
        inside = tuple(step for _, step in sorted(inner, key=lambda pair: pair[0].start))
        outermost.append((phrase, Step(span, phrase.kind, phrase.wanted, phrase.named, inside)))
    return [step for _, step in sorted(outermost, key=lambda pair: pair[0].start)]


def _joins(phrase: Phrase, parts: Sequence[Phrase]) -> bool:
    """Whether a phrase contains all compared parts, as if they were one thing."""
    return len(parts) > 1 and all(
        part.kind == "comparison" and phrase.start <= part.start and part.end <= phrase.end
        for part in parts
    )


def _crosses(phrase: Phrase, other: Phrase) -> bool:
    """Whether two phrases are equal, or overlap without one containing the other."""
    if (phrase.start, phrase.end) == (other.start, other.end):
        return True
    inside = other.start <= phrase.start and phrase.end <= other.end
    around = phrase.start <= other.start and other.end <= phrase.end
    return phrase.start < other.end and other.start < phrase.end and not inside and not around


def _within_bounds(steps: Sequence[Step]) -> list[Step]:
    """The innermost `LEVELS` levels, and of those the first `STEPS` steps."""
    ordered = sorted(walk(steps), key=lambda step: (step.level, step.span))
    chosen = {step for step in ordered[:STEPS] if step.level <= LEVELS}
    # Inner steps come first, so every chosen step has all of its inner steps.
    inner = {below for step in chosen for below in step.inside}
    return sorted(chosen - inner, key=lambda step: step.span)


def parallel_parts(sentence: ParsedSentence) -> list[Phrase]:
    """The parallel parts of a sentence, in order; empty if it has none."""
    subject, type_ = _subject(sentence)
    return _two_predicates(sentence, subject, type_) or _compared_parts(sentence, type_)


def _subject(sentence: ParsedSentence) -> tuple[int, str]:
    """Position of the verb of the thing that is asked for (0 if none), and the thing's type."""
    lower, last = sentence.lower, len(sentence.tokens) - 1
    start = 0
    while start < last and lower[start] in ORDERS | POLITE:
        start += 1
    if start >= last or (not start and lower[0] not in ("who", "which", "what")):
        return 0, "free"
    first = start + 1
    if lower[start] == "who":
        return first, "person"
    while first < last and sentence.tags[first][:2] in ("NN", "JJ"):
        first += 1
    type_ = type_of_noun(sentence.lemma(first - 1))
    if not start:
        return first, type_
    return (first + 1 if lower[first] in RELATIVE else 0), type_


def _two_predicates(sentence: ParsedSentence, subject: int, type_: str) -> list[Phrase]:
    """Two verb phrases about the thing that is asked for: "was born in … and directed …"."""
    lower, tags, named = sentence.lower, sentence.tags, sentence.named
    if not 0 < subject < sentence.end or tags[subject][:2] != "VB" or lower[subject] in _DO:
        return []
    for position in range(subject + 1, sentence.end - 1):
        if lower[position] in RELATIVE:
            break
        if (
            lower[position] == "and"
            and not named[position]
            and tags[position + 1][:2] == "VB"
            and any(named[subject:position])
            and any(named[position:])
        ):
            spans = (subject, position), (position + 1, sentence.end)
            return [Phrase(*span, "intersection", type_) for span in spans]
    return []


def _compared_parts(sentence: ParsedSentence, type_: str) -> list[Phrase]:
    """Things that are compared, or that have something in common."""
    lower = sentence.lower
    yes_no = bool(lower) and lower[0] in _AUXILIARIES
    if not yes_no and ASKING.isdisjoint(lower):
        return []
    if yes_no and (spans := _measured_pair(sentence)):
        return _with_types(sentence, spans, "comparison", "")
    if spans := _list_items(sentence, "and" if yes_no else "or"):
        # "Are both towns, A and B, …?"
        common = type_of_noun(sentence.lemma(spans[0][0] - 2)) if yes_no else type_
        return _with_types(sentence, spans, "comparison", common)
    for node in sentence.nodes:
        spans, link = _coordination(sentence, node)
        if not spans:
            continue
        before = lower[: spans[0][0]]
        choice = before[-1:] == ["between"] or before[-2:] in (["which", "of"], ["out", "of"])
        both = not yes_no and "both" in lower
        if link == "and" and both and not choice:
            return _with_types(sentence, spans, "intersection", type_)
        if link == "or" or choice or not _COMPARING.isdisjoint(lower) or spans[0][0] <= 2 * yes_no:
            return _with_types(sentence, spans, "comparison", type_ if link == "or" else "")
    return []


def _measured_pair(sentence: ParsedSentence) -> list[Span]:
    """A and B in "Is A larger than B?" or "Does A have the same … as B?"."""
    link = "as" if "same" in sentence.lower else "than"
    if link not in sentence.lower:
        return []
    position = sentence.lower.index(link)
    ends = (p for p in range(1, position) if sentence.tags[p] in ("JJR", "RBR", "VB", "VBP"))
    spans = [(1, next(ends, 1)), (position + 1, sentence.end)]
    return spans if _all_named(sentence, spans) else []


def _list_items(sentence: ParsedSentence, link: str) -> list[Span]:
    """The items in "…, A or B?", "…, A, B or C?" or "Are both towns, A and B, in …?".

    The items may be titles, in which any word may occur, so the parse does not help here.
    """
    positions = [p for p, token in enumerate(sentence.tokens) if token.text == link]
    commas = [p for p, word in enumerate(sentence.lower) if word == "," and not sentence.quoted[p]]
    if not positions or not commas or sentence.quoted[positions[-1]]:
        return []
    last = positions[-1] if link == "or" else positions[0]
    later = [comma for comma in commas if comma > last] if link == "and" else []
    commas = [comma for comma in commas if comma < last - 1]
    if not commas:
        return []
    spans = [(commas[-1] + 1, last), (last + 1, (*later, sentence.end)[0])]
    while len(commas) > 1 and sentence.is_name(commas[-2] + 1, commas[-1]):
        spans.insert(0, (commas[-2] + 1, commas[-1]))
        commas.pop()
    first = sentence.tags[spans[0][0]]
    return spans if _all_named(sentence, spans) and first[:2] not in ("VB", "IN") else []


def _coordination(sentence: ParsedSentence, node: Node) -> tuple[list[Span], str]:
    """The parts of a coordination, if all of them contain a name, and its conjunction."""
    links = [child.start for child in node.children if child.label == "CC"]
    links = [p for p in links if sentence.lower[p] in ("and", "or") and not sentence.quoted[p]]
    spans: list[Span] = []
    start = node.start
    for child in (*node.children, Node("CC", node.end)):
        if child.label in ("CC", ","):
            if start < child.start:
                spans.append((start, child.start))
            start = child.end
    spans = [span for span in spans if sentence.lower[span[0]] != "both" or span[1] > span[0] + 1]
    if not links or len(spans) < 2 or not _all_named(sentence, spans):
        return [], ""
    # "the maker of A and the maker of B", where the parser has "A and the maker of B".
    first, end = spans[0]
    nouns = {sentence.lemma(position) for position in range(*spans[-1])}
    if first > 1 and sentence.lower[first - 1] == "of" and sentence.lemma(first - 2) in nouns:
        spans[0] = (sentence.article(first - 2), end)
    return spans, sentence.lower[links[-1]]


def _all_named(sentence: ParsedSentence, spans: Sequence[Span]) -> bool:
    return all(any(sentence.named[start:end]) for start, end in spans)


def _with_types(
    sentence: ParsedSentence, spans: Sequence[Span], kind: str, common_type: str
) -> list[Phrase]:
    """The parts, names or descriptions, as phrases with types, the common one if there is one."""
    phrases: list[Phrase] = []
    for first, last in spans:
        start = first + (sentence.lower[first] in ("both", "either"))
        end = sentence.whole(sentence.trimmed(last))
        nouns = [p for p in range(start, end) if sentence.tags[p] == "NN" and not sentence.named[p]]
        if nouns:
            type_ = type_of_noun(sentence.lemma(nouns[0]))
        elif common_type not in ("", "free"):
            type_ = common_type
        else:
            labels = (sentence.tokens[position].entity for position in range(start, end))
            type_ = next(filter(None, map(_TYPES_BY_LABEL.get, labels)), "free")
        if start < end:
            phrases.append(Phrase(start, end, kind, type_, named=not nouns))
    # Compared things are usually of one type.
    default = next((phrase.wanted for phrase in phrases if phrase.wanted != "free"), "free")
    return [replace(p, wanted=default) if p.wanted == "free" else p for p in phrases]
