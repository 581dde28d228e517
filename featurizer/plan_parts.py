"""Parallel parts of a question: things that it compares, or two descriptions of one thing."""

from collections.abc import Sequence

from wye.featurizer.feature import words
from wye.featurizer.plan_nouns import LABELS, wanted
from wye.featurizer.plan_phrases import (
    ASKING,
    ORDERS,
    POLITE,
    RELATIVE,
    Node,
    ParsedSentence,
    Phrase,
)
from wye.featurizer.types import Span

_DO = words("do does did 's")
_AUXILIARIES = words(
    "is are was were do does did has have had can could will would should may might"
)
_COMPARING = words("both same share common either alike different difference")


def parts(sentence: ParsedSentence) -> list[Phrase]:
    """The parallel parts of a sentence, in order; empty if it has none."""
    subject, type_ = _subject(sentence)
    return _told(sentence, subject, type_) or _compared(sentence, type_)


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
    type_ = wanted(sentence.lemma(first - 1))
    if not start:
        return first, type_
    return (first + 1 if lower[first] in RELATIVE else 0), type_


def _told(sentence: ParsedSentence, subject: int, type_: str) -> list[Phrase]:
    """Two verb phrases about the thing that is asked for: "was born in … and directed …"."""
    lower, tags, named = sentence.lower, sentence.tags, sentence.named
    if not 0 < subject < sentence.end or tags[subject][:2] != "VB" or lower[subject] in _DO:
        return []
    for place in range(subject + 1, sentence.end - 1):
        if lower[place] in RELATIVE:
            break
        if (
            lower[place] == "and"
            and not named[place]
            and tags[place + 1][:2] == "VB"
            and any(named[subject:place])
            and any(named[place:])
        ):
            spans = (subject, place), (place + 1, sentence.end)
            return [Phrase(*span, "intersection", type_) for span in spans]
    return []


def _compared(sentence: ParsedSentence, type_: str) -> list[Phrase]:
    """Things that are compared, or that have something in common."""
    lower = sentence.lower
    yes_no = bool(lower) and lower[0] in _AUXILIARIES
    if not yes_no and ASKING.isdisjoint(lower):
        return []
    if yes_no and (spans := _measured(sentence)):
        return _typed(sentence, spans, "comparison", "")
    if spans := _listed(sentence, "and" if yes_no else "or"):
        # "Are both towns, A and B, …?"
        of = wanted(sentence.lemma(spans[0][0] - 2)) if yes_no else type_
        return _typed(sentence, spans, "comparison", of)
    for node in sentence.nodes:
        spans, link = _coordinated(sentence, node)
        if not spans:
            continue
        before = lower[: spans[0][0]]
        choice = before[-1:] == ["between"] or before[-2:] in (["which", "of"], ["out", "of"])
        both = not yes_no and "both" in lower
        if link == "and" and both and not choice:
            return _typed(sentence, spans, "intersection", type_)
        if link == "or" or choice or not _COMPARING.isdisjoint(lower) or spans[0][0] <= 2 * yes_no:
            return _typed(sentence, spans, "comparison", type_ if link == "or" else "")
    return []


def _measured(sentence: ParsedSentence) -> list[Span]:
    """A and B in "Is A larger than B?" or "Does A have the same … as B?"."""
    link = "as" if "same" in sentence.lower else "than"
    if link not in sentence.lower:
        return []
    place = sentence.lower.index(link)
    ends = (p for p in range(1, place) if sentence.tags[p] in ("JJR", "RBR", "VB", "VBP"))
    spans = [(1, next(ends, 1)), (place + 1, sentence.end)]
    return spans if _all_named(sentence, spans) else []


def _listed(sentence: ParsedSentence, link: str) -> list[Span]:
    """The items in "…, A or B?", "…, A, B or C?" or "Are both towns, A and B, in …?".

    The items may be titles, in which any word may occur, so trees do not help here.
    """
    places = [p for p, token in enumerate(sentence.tokens) if token.text == link]
    commas = [p for p, word in enumerate(sentence.lower) if word == "," and not sentence.quoted[p]]
    if not places or not commas or sentence.quoted[places[-1]]:
        return []
    last = places[-1] if link == "or" else places[0]
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


def _coordinated(sentence: ParsedSentence, node: Node) -> tuple[list[Span], str]:
    """The parts of a coordination, if all of them contain a name, and its conjunction."""
    links = [
        child.start
        for child in node.children
        if child.label == "CC"
        and sentence.lower[child.start] in ("and", "or")
        and not sentence.quoted[child.start]
    ]
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
    # "the maker of A and the maker of B", where the tree has "A and the maker of B".
    first, end = spans[0]
    nouns = {sentence.lemma(place) for place in range(*spans[-1])}
    if first > 1 and sentence.lower[first - 1] == "of" and sentence.lemma(first - 2) in nouns:
        spans[0] = (sentence.article(first - 2), end)
    return spans, sentence.lower[links[-1]]


def _all_named(sentence: ParsedSentence, spans: Sequence[Span]) -> bool:
    return all(any(sentence.named[start:end]) for start, end in spans)


def _typed(sentence: ParsedSentence, spans: Sequence[Span], kind: str, type_: str) -> list[Phrase]:
    """The parts, which are names or descriptions, as phrases with types."""
    found: list[tuple[int, int, bool, str]] = []
    for first, last in spans:
        start = first + (sentence.lower[first] in ("both", "either"))
        end = sentence.whole(sentence.trimmed(last))
        nouns = [p for p in range(start, end) if sentence.tags[p] == "NN" and not sentence.named[p]]
        labels = (sentence.tokens[place].entity for place in range(start, end))
        own = next((LABELS[label] for label in labels if label in LABELS), "free")
        if nouns:
            own = wanted(sentence.lemma(nouns[0]))
        elif type_ not in ("", "free"):
            own = type_
        if start < end:
            found.append((start, end, not nouns, own))
    # Compared things are usually of one type.
    known = next((own for *_, own in found if own != "free"), "free")
    return [
        Phrase(start, end, kind, known if own == "free" else own, named)
        for start, end, named, own in found
    ]
