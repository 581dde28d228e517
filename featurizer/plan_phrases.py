"""A parsed sentence as plans use it, and the descriptions in it that contain a name."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from wye.featurizer.constituency.tree import Tree
from wye.featurizer.feature import words
from wye.featurizer.plan_nouns import (
    APPOSED,
    EMPTY,
    MAKERS,
    OFFICES,
    PREPOSITIONS,
    UNNAMED,
    wanted,
)
from wye.featurizer.types import Token

BE = words("is are was were 's be")
ASKING = words("who whom whose what which where when how")
RELATIVE = words("who which that")
ORDERS = words("tell name list give find state show identify describe define mention")
POLITE = words("please me us about can could you i want to know would like the of and")

_QUOTES = {'"': '"', "“": "”", "\u2018": "\u2019", "``": "''", "«": "»", "„": "“"}
_CLOSING = frozenset({*_QUOTES.values(), ")"})
# Labels that end the base of a noun phrase.
_AFTER = words("PP SBAR VP S PRN CC ADVP WHNP SINV SQ")
_STRANDED = ("IN", "RP", "TO")
_BEFORE_OFFICES = (["the"], ["prime"], ["vice"], ["first"])
_NAMING = words("name kind title type sort")
_NO_ARTICLE = words("any every each some all no which what whose his her its their this that")


@dataclass(slots=True)
class Node:
    """A node of a tree, over the tokens from `start` to `end`."""

    label: str
    start: int
    end: int = 0
    children: list["Node"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Phrase:
    """A future step, over the tokens from `start` to `end`; see `plan.Step`."""

    start: int
    end: int
    kind: str
    wanted: str
    named: bool = False


@dataclass(frozen=True, slots=True)
class Base:
    """A noun phrase without what modifies its noun from behind; `head` is the noun's position."""

    start: int
    end: int
    head: int


def flattened(tree: Tree) -> list[Node]:
    """All nodes above the words, parents first, from left to right."""
    found: list[Node] = []
    place = 0
    # A stack instead of recursion: a node is pushed again, without its tree, to set its end.
    pending: list[tuple[Tree | None, Node]] = [(tree, Node("", 0))]
    while pending:
        tree_, node = pending.pop()
        if tree_ is None:
            node.end = place
            continue
        made = Node(tree_.label, place)
        node.children.append(made)
        found.append(made)
        pending.append((None, made))
        if tree_.is_preterminal:
            place += 1
        else:
            pending.extend((child, made) for child in reversed(tree_.children))
    return found


class ParsedSentence:
    """One sentence; all positions are among its own tokens.

    Attributes:
        lower: Tokens in lower case.
        tags: Tags of the tokens.
        end: Where the sentence ends without final punctuation.
        quoted: Whether each token is in quotation marks.
        named: Whether each token is part of a name.
    """

    def __init__(self, tokens: Sequence[Token], tree: Tree) -> None:
        self.tokens = tokens
        self.nodes = flattened(tree)
        self.lower = [token.text.lower() for token in tokens]
        self.tags = [token.tag for token in tokens]
        self.end = self.trimmed(len(tokens))
        self.quoted = _quoted(tokens)
        self.named = [self._is_named(place) for place in range(len(tokens))]
        if any(self.named):
            self._join_titles()
        else:
            self._name_plain_nouns()

    def lemma(self, place: int) -> str:
        """Lemma of a token, in lower case."""
        return self.tokens[place].lemma.lower()

    def trimmed(self, end: int) -> int:
        """The end of a phrase without final punctuation and possessive mark."""
        while end and (self.tokens[end - 1].pos == "PUNCT" or self.tags[end - 1] == "POS"):
            if self.tokens[end - 1].text in _CLOSING:
                break
            end -= 1
        return end

    def whole(self, end: int) -> int:
        """The end of a hyphenated word, given the end of one of its parts."""
        while (
            end < len(self.tokens) - 1
            and self.tokens[end].text == "-"
            and self.tokens[end].span[0] == self.tokens[end - 1].span[1]
        ):
            end += 2
        return end

    def is_name(self, start: int, end: int) -> bool:
        """Whether a span is nothing but a name, apart from "the", "both" or "either" before it."""
        start += start < end and self.lower[start] in ("the", "both", "either")
        return start < end and all(self.named[start:end])

    def article(self, head: int) -> int:
        """The start of the words that precede a noun and belong to it."""
        while head and self.tags[head - 1] in ("DT", "JJ", "JJS", "NN"):
            head -= 1
        return head

    def _is_named(self, place: int) -> bool:
        token, word = self.tokens[place], self.lower[place]
        if self.quoted[place]:
            return True
        if token.tag == "POS" or (place == 0 and word in ORDERS | ASKING | BE):
            return False
        before, after = self.lower[place - 1 : place], self.lower[place + 1 : place + 2]
        if word == "ceo" or (word in OFFICES and before in _BEFORE_OFFICES and after == ["of"]):
            return False
        if token.entity and token.entity not in UNNAMED and token.tag not in ("DT", "JJ"):
            return True
        if not token.text[0].isupper() or (token.tag == "JJ" and token.entity == "NORP"):
            return False
        return token.tag in ("NNP", "NNPS") or (place > 0 and token.tag[0] in "NFVRM")

    def _join_titles(self) -> None:
        """Extend names by what belongs to them: "The" of "The Silent Orchard", "(1984 Film)"."""
        for place in range(len(self.tokens) - 2, 0, -1):
            token = self.tokens[place]
            beside = self.named[place + 1] or self.named[place - 1]
            capital = token.text[0].isupper() and self.lower[place] not in OFFICES
            self.named[place] |= capital and beside and token.entity != "NORP"
            if token.text == "(" and self.named[place - 1] and ")" in self.lower[place:]:
                end = self.lower.index(")", place) + 1
                self.named[place:end] = [True] * (end - place)

    def _name_plain_nouns(self) -> None:
        """Take nouns without an article for names, in a sentence that has no other names."""
        for node in self.nodes:
            if node.label == "NP" and all(
                self.tags[place] in ("NN", "NNP", "FW", "CD")
                and self.lemma(place) not in EMPTY
                and wanted(self.lemma(place)) == "free"
                for place in range(node.start, node.end)
            ):
                self.named[node.start : node.end] = [True] * (node.end - node.start)


def _quoted(tokens: Sequence[Token]) -> list[bool]:
    """Whether each token is in quotation marks, the marks included."""
    found = [False] * len(tokens)
    opened: dict[str, int] = {}
    for place, token in enumerate(tokens):
        if token.text in opened:
            start = opened[token.text]
            found[start : place + 1] = [True] * (place + 1 - start)
            opened.clear()
        elif token.text in _QUOTES:
            opened.setdefault(_QUOTES[token.text], place)
    return found


def descriptions(sentence: ParsedSentence) -> list[Phrase]:
    """Phrases that describe something by a name, in no particular order."""
    ends: dict[Base, set[int]] = {}
    for node in sentence.nodes:
        if node.label == "NP" and (base := _base(sentence, node)):
            ends.setdefault(base, set()).add(node.end)
    for base in _owned(sentence):
        if all(base.head != other.head for other in ends):
            ends[base] = {base.end}
    phrases = [*_reduced(sentence)]
    for base, found in ends.items():
        found.update(node.end for node in sentence.nodes if _tells(sentence, node, base))
        cut = {_cut(sentence, base, sentence.trimmed(end)) for end in found}
        made = (_description(sentence, base, end) for end in sorted(cut))
        phrases += [phrase for phrase in made if phrase][-1:]
    return _with_owners(sentence, phrases)


def _base(sentence: ParsedSentence, node: Node) -> Base | None:
    while (
        node.children
        and node.children[0].label == "NP"
        and sentence.tags[node.children[0].end - 1] != "POS"
    ):
        node = node.children[0]
    end = node.start
    for child in node.children:
        owner = child.label == "POS" and child is node.children[-1]
        if owner or child.label in _AFTER or sentence.tokens[child.start].pos == "PUNCT":
            break
        end = child.end
    if end == node.start or sentence.tags[end - 1][:2] != "NN" or sentence.whole(end) != end:
        return None
    return Base(_whole(sentence, node.start), end, end - 1)


def _whole(sentence: ParsedSentence, start: int) -> int:
    """The start of a phrase, moved to the start of a name that it would cut."""
    while start > 0 and sentence.named[start]:
        before = sentence.tokens[start - 1]
        if sentence.named[start - 1]:
            start -= 1
        elif before.text == "-" and before.span[1] == sentence.tokens[start].span[0] and start > 1:
            start -= 2
        else:
            break
    return start


def _owned(sentence: ParsedSentence) -> Iterator[Base]:
    """Nouns that a name owns, whatever the tree says: "Which country is Tuva's father from?"."""
    for mark in range(1, sentence.end - 1):
        if sentence.tags[mark] == "POS" and sentence.named[mark - 1]:
            end = mark + 1
            while end < sentence.end and sentence.tags[end] in ("JJ", "JJS", "NN"):
                end += 1
            if sentence.tags[end - 1] == "NN" and sentence.whole(end) == end:
                yield Base(_whole(sentence, mark - 1), end, end - 1)


def _reduced(sentence: ParsedSentence) -> Iterator[Phrase]:
    """Clauses without a pronoun, which trees take for appositions: "the city Tuva lives in"."""
    for head in range(1, sentence.end - 2):
        type_ = wanted(sentence.lemma(head))
        if (
            sentence.lower[head - 1] != "the"
            or sentence.tags[head] != "NN"
            or sentence.named[head]
            or type_ in ("person", "free", "number")
        ):
            continue
        verb = head + 1
        while verb < sentence.end and sentence.named[verb]:
            verb += 1
        if verb == head + 1 or sentence.tags[verb : verb + 1] not in (["VBZ"], ["VBD"]):
            continue
        end = verb + 1
        be = sentence.lower[verb] in BE
        if be and (sentence.tags[end : end + 1] == ["VBN"] or sentence.lower[end] == "part"):
            end += 1
        stranded = end < sentence.end and sentence.tags[end] == "IN"
        end += stranded
        around = [*sentence.tags[: head - 1], *sentence.tags[end:]]
        if end > verb + 1 and (be or stranded) and any(tag.startswith("VB") for tag in around):
            yield Phrase(head - 1, end, "bridge", type_)


def _tells(sentence: ParsedSentence, node: Node, base: Base) -> bool:
    """Whether a clause, participle or "of" directly after a noun modifies it.

    Trees sometimes attach these too high. A participle may be the question's own verb, as in "When
    was the novel written by …?", unless there is another verb.
    """
    if node.start != base.end or node.label not in ("VP", "SBAR", "PP"):
        return False
    if node.label == "PP":
        return sentence.lower[node.start] == "of"
    if node.label == "SBAR":
        return True
    if any(n.label == "NP" and n.start <= base.start and n.end == node.end for n in sentence.nodes):
        return True
    outside = [*range(base.start), *range(node.end, len(sentence.tokens))]
    return sentence.tags[node.start] in ("VBN", "VBG") and any(
        (sentence.tags[place].startswith("VB") and sentence.lemma(place) not in ("be", "do"))
        or (
            place > 0
            and sentence.tags[place] in ("JJ", "RB")
            and sentence.lower[place - 1] == "how"
        )
        for place in outside
    )


def _cut(sentence: ParsedSentence, base: Base, end: int) -> int:
    """The end of a description without the words of the outer question that the tree included.

    These begin with the outer verb or predicate, after a name or a complete clause: "did the state
    where Oslo is located | become", "was the author of Brand | a citizen".
    """
    asked = any(sentence.lower[place] in ("do", "does", "did") for place in range(base.start))
    stranded = end == sentence.end and sentence.tags[end - 1] in _STRANDED
    # "Where was the author of Brand | born?"
    before = sentence.lower[base.start - 1] if base.start else ""
    told = sentence.end - 1 if before in BE else -1
    for place in range(base.end + 1, end):
        if not any(sentence.named[base.start : place]) or sentence.named[place]:
            continue
        tag, before = sentence.tags[place], sentence.tags[place - 1]
        ended = before == "VBN" or sentence.named[place - 1]
        last = asked and place == sentence.end - 1 and tag in ("NN", "VB", "VBP")
        if (
            (sentence.lower[place] == "," and not any(sentence.named[place + 1 : place + 2]))
            or (sentence.lower[place] == "as" and sentence.named[place - 1])
            or (tag == "VBN" and sentence.named[place - 1] and (stranded or told == place))
            or (tag == "VB" and before not in ("MD", "TO", "VB"))
            or (tag.startswith("VB") and before == "VBN")
            or (ended and (last or sentence.lower[place] in ("a", "an")))
        ):
            return sentence.trimmed(place)
    while sentence.named[end - 1] and end < sentence.end and sentence.named[end]:
        end += 1
    return end


def _description(sentence: ParsedSentence, base: Base, end: int) -> Phrase | None:
    """The phrase as a description, unless it is none, or is what the whole question asks for."""
    start, head, tag = base.start, base.head, sentence.tags[base.head]
    noun = sentence.lemma(head)
    type_ = wanted(noun)
    article = sentence.lower[start] in ("the", "a", "an")
    owner = "POS" in sentence.tags[start:head]
    if (
        end <= head
        or sentence.named[head]
        or noun in EMPTY
        or sentence.lower[start] in _NO_ARTICLE
        or (tag != "NN" and (type_ != "person" or not (owner or article)))
        or _is_said(sentence, start, end)
        or _is_asked(sentence, start, end, noun)
    ):
        return None
    if owner:
        told = type_ != "free" and any(sentence.named[start:head])
        return Phrase(start, end, "possessive", type_) if told else None
    if end <= base.end:
        # "the Nokia founder", "the French president"
        first = start + (sentence.lower[start] == "the")
        told = noun in OFFICES and sentence.tokens[head - 1].entity == "NORP"
        told |= noun in OFFICES | MAKERS and all(sentence.named[first:head])
        return Phrase(start, end, "bridge", type_) if told and first < head else None
    if any(sentence.named[base.end : end]) and (type_ := _told(sentence, base, end, type_)):
        return Phrase(start, end, "bridge", type_)
    return None


def _told(sentence: ParsedSentence, base: Base, end: int, type_: str) -> str:
    """The type of a description by a preposition, participle or clause; "" if it is none."""
    link, tag = sentence.lower[base.end], sentence.tags[base.end]
    article = sentence.lower[base.start] in ("the", "a", "an")
    told = article or type_ not in ("free", "person")
    if any(node.label == "SBAR" and node.start == base.end for node in sentence.nodes):
        if link == "when":
            told = type_ == "date"
        elif link == "where":
            told &= type_ not in ("person", "date", "work")
        elif link in ("who", "whose", "whom") and type_ == "free":
            type_ = "person"
    elif tag in ("IN", "TO"):
        told = link in PREPOSITIONS.get(type_, ()) and (article or link == "of")
        told |= link in ("in", "of") and "JJS" in sentence.tags[base.start : base.head]
        apposed = link == "of" and sentence.lemma(base.head) in APPOSED
        told &= not apposed or not sentence.is_name(base.end + 1, end)
    else:
        told &= tag.startswith("VB")
    told &= type_ != "free" or sentence.lower[base.start] == "the"
    return type_ if told else ""


def _is_said(sentence: ParsedSentence, start: int, end: int) -> bool:
    """Whether a phrase is a predicate of something else, or contains what is asked for.

    "Tuva, who was the founder of …", "known as the founder of …", "plays the mother of …".
    """
    if start and sentence.lemma(start - 1) in ("play", "portray", "voice", "as"):
        return True
    if start > 2 and sentence.lower[start - 1] in BE:
        subject = start - 2
        if sentence.named[subject] or sentence.lower[subject] in RELATIVE | {","}:
            return True
    within = range(start + 1, end)
    return any(
        sentence.lower[place] in ("which", "what") and sentence.tags[place + 1][:2] in ("NN", "JJ")
        for place in within
        if place + 1 < end and sentence.tags[place + 1] not in ("NNP", "NNPS")
    ) or (sentence.lower[end - 1] in ASKING)


def _is_asked(sentence: ParsedSentence, start: int, end: int, noun: str) -> bool:
    """Whether a phrase is what the whole question asks for, so that resolving it gains nothing."""
    if end < len(sentence.tokens) and sentence.tags[end] == "POS":
        return False
    before = [word for word in sentence.lower[:start] if word[0].isalnum() or word == "'s"]
    if before[-3:-2] in (["the"], ["a"]) and before[-2] in _NAMING and before[-1] == "of":
        before = before[:-3]
    later = [node for node in sentence.nodes if node.start >= end and node.label in ("NP", "SBAR")]
    covered = {place for node in later for place in range(node.start, node.end)}
    verbs = (sentence.tags[p][:2] == "VB" for p in range(end, sentence.end) if p not in covered)
    if any(verbs) or sentence.tags[sentence.end - 1] in _STRANDED:
        return False
    if all(word in ORDERS or word in POLITE for word in before):
        return True
    if before[0] in BE and len(before) > 1 and sentence.named[start - 1]:
        return True
    if before[0] == "where" and noun == "place":
        return True
    before = [word for word in before if word not in ORDERS and word not in POLITE]
    return len(before) == 2 and before[0] in ("who", "what", "which") and before[1] in BE


def _with_owners(sentence: ParsedSentence, phrases: list[Phrase]) -> list[Phrase]:
    """Add owners that are descriptions: "the director of Titanic" in "… of Titanic's wife".

    Only makers own in this way: "the mother of Harry's wife" stays as it is.
    """
    for mark in range(1, sentence.end - 1):
        if sentence.tags[mark] != "POS":
            continue
        of = mark - 1
        while of > 1 and sentence.is_name(of, mark):
            of -= 1
        owned = mark + 1
        while owned + 1 < sentence.end and sentence.tags[owned + 1][:2] == "NN":
            owned += 1
        if (
            sentence.lower[of] == "of"
            and of > 0
            and sentence.lemma(of - 1) in MAKERS
            and wanted(sentence.lemma(owned)) not in ("work", "organisation")
        ):
            phrases = [p for p in phrases if not of < p.start < mark < p.end]
            phrases.append(Phrase(sentence.article(of - 1), mark, "bridge", "person"))
    return phrases
