"""A parsed sentence as plans use it, and the descriptions in it that contain a name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from wye.featurizer.question import words
from wye.featurizer.types import Token

OFFICES = words(
    "ambassador archbishop bishop captain ceo chairman chairwoman chancellor chief coach emperor "
    "empress governor head king leader manager mayor minister monarch owner pope premier president "
    "principal queen ruler secretary senator sultan tsar"
)
MAKERS = words(
    "animator architect artist author builder composer creator designer developer director "
    "discoverer drummer editor engineer explorer founder guitarist illustrator inventor librettist "
    "lyricist musician narrator novelist painter performer photographer playwright poet producer "
    "protagonist sculptor singer songwriter screenwriter translator vocalist writer"
)
_PEOPLE = words(
    "aunt brother child cousin daughter father grandfather grandmother grandson husband mother "
    "nephew niece parent partner sibling sister son spouse stepfather stepmother uncle widow "
    "widower wife actor actress astronaut athlete bassist boxer character comedian cyclist dancer "
    "driver figure footballer friend general girl boy heir host historian killer lady lawyer man "
    "mentor model murderer person philosopher physicist pianist player politician predecessor "
    "prince princess professor pupil rapper rival runner scholar scientist soldier star student "
    "successor swimmer teacher violinist winner woman victim chemist mathematician economist "
    "golfer"
)
TYPES: Mapping[str, frozenset[str]] = {
    "person": OFFICES | MAKERS | _PEOPLE,
    "place": words(
        "archipelago area arena beach birthplace border borough bridge building canal canyon "
        "capital castle cathedral cemetery church city coast colony commune continent country "
        "county desert district homeland hometown hospital house island isle lake location "
        "mountain "
        "municipality museum nation neighborhood neighbourhood ocean palace park peak peninsula "
        "place port prison province region republic resort river sea seat settlement site stadium "
        "state station strait street suburb temple territory theater theatre tower town township "
        "valley venue village volcano waterfall"
    ),
    "date": words("century date day decade month season year"),
    "work": words(
        "adaptation album anthem autobiography ballet biography book cartoon comic documentary "
        "drama essay fairytale film franchise game journal magazine manga movie musical newspaper "
        "novel novella opera painting picture play poem prequel program programme sculpture sequel "
        "series show single sitcom song soundtrack story symphony tale track work"
    ),
    "organisation": words(
        "academy agency airline army association band bank brand broadcaster channel choir "
        "club college company conglomerate corporation distributor employer ensemble firm "
        "foundation group institute institution label league maker manufacturer mater network "
        "orchestra organisation organization party publisher school society studio "
        "subsidiary team troupe university"
    ),
    "number": words("age amount height length number population size weight"),
}
"""Nouns by the type of thing that they ask for. A noun of two types has the first."""

# "The island of Oahu": with these nouns, "of" and a name is no description but the name itself.
APPOSED = words(
    "archipelago battle bay borough church city commune continent county desert district duchy "
    "gulf island isle kingdom lake month mount municipality peninsula port province region "
    "republic state strait territory town township university valley village year college house "
    "museum order sea street"
)
# Nouns of things without a name of their own.
EMPTY = words(
    "case end beginning fact kind lot meaning middle moment name number one other part people "
    "reason rest side sort thing time title top type way age amount height length population size "
    "weight border season"
)
# Prepositions that can describe a thing of a type; clauses can describe any.
PREPOSITIONS: Mapping[str, frozenset[str]] = {
    "person": words("of for in at behind to from on"),
    "place": words("of"),
    "date": words("of"),
    "work": words("of by from to"),
    "organisation": words("of behind"),
}
UNNAMED = words("CARDINAL ORDINAL DATE TIME PERCENT MONEY QUANTITY NORP LANGUAGE")

BE = words("is are was were 's be")
ASKING = words("who whom whose what which where when how")
RELATIVE = words("who which that")
ORDERS = words("tell name list give find state show identify describe define mention")
POLITE = words("please me us about can could you i want to know would like the of and")

_QUOTES = {'"': '"', "“": "”", "\u2018": "\u2019", "``": "''", "«": "»", "„": "“"}
_CLOSING = frozenset({*_QUOTES.values(), ")"})
_AFTER = words("PP SBAR VP CC")  # labels that end the base of a noun phrase
_STRANDED = ("IN", "RP", "TO")
_BEFORE_OFFICES = (["the"], ["prime"], ["vice"], ["first"])
_NAMING = words("name kind title type sort")
_NO_ARTICLE = words("any every each some all no which what whose his her its their this that")


def type_of_noun(noun: str) -> str:
    """The type that a noun asks for, given its lemma in lower case; "free" if it is unknown."""
    return next((name for name, nouns in TYPES.items() if noun in nouns), "free")


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


class ParsedSentence:
    """One sentence; all positions are among its own tokens.

    Attributes:
        end: Where the sentence ends without final punctuation.
        quoted: Whether each token is in quotation marks.
        named: Whether each token is part of a name.
    """

    def __init__(self, tokens: Sequence[Token], nodes: Sequence[Node]) -> None:
        self.tokens, self.nodes = tokens, nodes
        self.lower = [token.text.lower() for token in tokens]
        self.tags = [token.tag for token in tokens]
        self.end = self.trimmed(len(tokens))
        self.quoted = _quoted(tokens)
        self.named = [self._is_named(position) for position in range(len(tokens))]
        if any(self.named):
            self._join_titles()
        else:
            self._name_plain_nouns()

    def lemma(self, position: int) -> str:
        """Lemma of a token, in lower case."""
        return self.tokens[position].lemma.lower()

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

    def _is_named(self, position: int) -> bool:
        token, word = self.tokens[position], self.lower[position]
        if self.quoted[position]:
            return True
        if token.tag == "POS" or (position == 0 and word in ORDERS | ASKING | BE):
            return False
        before, after = self.lower[position - 1 : position], self.lower[position + 1 : position + 2]
        if word == "ceo" or (word in OFFICES and before in _BEFORE_OFFICES and after == ["of"]):
            return False
        if token.entity and token.entity not in UNNAMED and token.tag not in ("DT", "JJ"):
            return True
        if not token.text[0].isupper() or (token.tag == "JJ" and token.entity == "NORP"):
            return False
        return token.tag in ("NNP", "NNPS") or (position > 0 and token.tag[0] in "NFVRM")

    def _join_titles(self) -> None:
        """Extend names by what belongs to them: "The" of "The Silent Orchard", "(1984 Film)"."""
        for position in range(len(self.tokens) - 2, 0, -1):
            token = self.tokens[position]
            beside = self.named[position + 1] or self.named[position - 1]
            capital = token.text[0].isupper() and self.lower[position] not in OFFICES
            self.named[position] |= capital and beside and token.entity != "NORP"
            if token.text == "(" and self.named[position - 1] and ")" in self.lower[position:]:
                end = self.lower.index(")", position) + 1
                self.named[position:end] = [True] * (end - position)

    def _name_plain_nouns(self) -> None:
        """Take nouns without an article for names, in a sentence that has no other names."""
        for node in self.nodes:
            if node.label == "NP" and all(
                self.tags[position] in ("NN", "NNP", "FW", "CD")
                and self.lemma(position) not in EMPTY
                and type_of_noun(self.lemma(position)) == "free"
                for position in range(node.start, node.end)
            ):
                self.named[node.start : node.end] = [True] * (node.end - node.start)


def _quoted(tokens: Sequence[Token]) -> list[bool]:
    """Whether each token is in quotation marks, the marks included."""
    quoted = [False] * len(tokens)
    opened: dict[str, int] = {}
    for position, token in enumerate(tokens):
        if token.text in opened:
            start = opened[token.text]
            quoted[start : position + 1] = [True] * (position + 1 - start)
            opened.clear()
        elif token.text in _QUOTES:
            opened.setdefault(_QUOTES[token.text], position)
    return quoted


def descriptions(sentence: ParsedSentence) -> list[Phrase]:
    """Phrases that describe something by a name, in no particular order."""
    ends: dict[Base, set[int]] = {}
    for node in sentence.nodes:
        if node.label == "NP" and (base := _base(sentence, node)):
            ends.setdefault(base, set()).add(node.end)
    for base in _nouns_with_owner(sentence):
        if all(base.head != other.head for other in ends):
            ends[base] = {base.end}
    phrases = [*_clauses_without_pronoun(sentence)]
    for base, node_ends in ends.items():
        node_ends.update(node.end for node in sentence.nodes if _modifies(sentence, node, base))
        cut_ends = {_cut(sentence, base, sentence.trimmed(end)) for end in node_ends}
        candidates = (_description(sentence, base, end) for end in sorted(cut_ends))
        phrases += [phrase for phrase in candidates if phrase][-1:]
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
    return Base(_start_of_name(sentence, node.start), end, end - 1)


def _start_of_name(sentence: ParsedSentence, start: int) -> int:
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


def _nouns_with_owner(sentence: ParsedSentence) -> Iterator[Base]:
    """Nouns that a name owns, whatever the parser says: "Which country is Tuva's father from?"."""
    for mark in range(1, sentence.end - 1):
        if sentence.tags[mark] == "POS" and sentence.named[mark - 1]:
            end = mark + 1
            while end < sentence.end and sentence.tags[end] in ("JJ", "JJS", "NN"):
                end += 1
            if sentence.tags[end - 1] == "NN" and sentence.whole(end) == end:
                yield Base(_start_of_name(sentence, mark - 1), end, end - 1)


def _clauses_without_pronoun(sentence: ParsedSentence) -> Iterator[Phrase]:
    """Nouns with a clause without pronoun, which parsers misread: "the city Tuva lives in"."""
    for head in range(1, sentence.end - 2):
        type_ = type_of_noun(sentence.lemma(head))
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


def _modifies(sentence: ParsedSentence, node: Node, base: Base) -> bool:
    """Whether a clause, participle or "of" directly after a noun modifies it.

    Parsers sometimes attach these too high. A participle may be the question's own verb, as in
    "When was the novel written by …?", unless there is another verb.
    """
    if node.start != base.end or node.label not in ("VP", "SBAR", "PP"):
        return False
    tags, lower = sentence.tags, sentence.lower
    if node.label == "PP":
        return lower[node.start] == "of"
    if node.label == "SBAR":
        return True
    if any(n.label == "NP" and n.start <= base.start and n.end == node.end for n in sentence.nodes):
        return True
    outside = [*range(base.start), *range(node.end, len(tags))]
    return tags[node.start] in ("VBN", "VBG") and any(
        (tags[p].startswith("VB") and sentence.lemma(p) not in ("be", "do"))
        or (p > 0 and tags[p] in ("JJ", "RB") and lower[p - 1] == "how")
        for p in outside
    )


def _cut(sentence: ParsedSentence, base: Base, end: int) -> int:
    """The end of a description without the words of the outer question that the parser included.

    These begin with the outer verb or predicate, after a name or a complete clause: "did the state
    where Oslo is located | become", "was the author of Brand | a citizen".
    """
    tags, lower, named = sentence.tags, sentence.lower, sentence.named
    has_do = any(word in ("do", "does", "did") for word in lower[: base.start])
    stranded = end == sentence.end and tags[end - 1] in _STRANDED
    # "Where was the author of Brand | born?"
    predicate = sentence.end - 1 if base.start and lower[base.start - 1] in BE else -1
    for position in range(base.end + 1, end):
        if not any(named[base.start : position]) or named[position]:
            continue
        word, tag, tag_before = lower[position], tags[position], tags[position - 1]
        after_name = named[position - 1]
        is_last = has_do and position == sentence.end - 1 and tag in ("NN", "VB", "VBP")
        if (
            (word == "," and not any(named[position + 1 : position + 2]))
            or (word == "as" and after_name)
            or (tag == "VBN" and after_name and (stranded or predicate == position))
            or (tag == "VB" and tag_before not in ("MD", "TO", "VB"))
            or (tag.startswith("VB") and tag_before == "VBN")
            or ((tag_before == "VBN" or after_name) and (is_last or word in ("a", "an")))
        ):
            return sentence.trimmed(position)
    while named[end - 1] and end < sentence.end and named[end]:
        end += 1
    return end


def _description(sentence: ParsedSentence, base: Base, end: int) -> Phrase | None:
    """The phrase as a description, unless it is none, or is what the whole question asks for."""
    start, head, tag = base.start, base.head, sentence.tags[base.head]
    noun = sentence.lemma(head)
    type_ = type_of_noun(noun)
    article = sentence.lower[start] in ("the", "a", "an")
    owner = "POS" in sentence.tags[start:head]
    if (
        end <= head
        or sentence.named[head]
        or noun in EMPTY
        or sentence.lower[start] in _NO_ARTICLE
        or (tag != "NN" and (type_ != "person" or not (owner or article)))
        or _is_predicate(sentence, start, end)
        or _is_whole_question(sentence, start, end, noun)
    ):
        return None
    if owner:
        names_owner = type_ != "free" and any(sentence.named[start:head])
        return Phrase(start, end, "possessive", type_) if names_owner else None
    if end <= base.end:
        # "the Nokia founder", "the French president"
        first = start + (sentence.lower[start] == "the")
        describes = noun in OFFICES and sentence.tokens[head - 1].entity == "NORP"
        describes |= noun in OFFICES | MAKERS and all(sentence.named[first:head])
        return Phrase(start, end, "bridge", type_) if describes and first < head else None
    if any(sentence.named[base.end : end]):
        type_ = _described_type(sentence, base, end, type_)
        return Phrase(start, end, "bridge", type_) if type_ else None
    return None


def _described_type(sentence: ParsedSentence, base: Base, end: int, type_: str) -> str:
    """The type of a description by a preposition, participle or clause; "" if it is none."""
    link, tag = sentence.lower[base.end], sentence.tags[base.end]
    article = sentence.lower[base.start] in ("the", "a", "an")
    describes = article or type_ not in ("free", "person")
    if any(node.label == "SBAR" and node.start == base.end for node in sentence.nodes):
        if link == "when":
            describes = type_ == "date"
        elif link == "where":
            describes &= type_ not in ("person", "date", "work")
        elif link in ("who", "whose", "whom") and type_ == "free":
            type_ = "person"
    elif tag in ("IN", "TO"):
        describes = link in PREPOSITIONS.get(type_, ()) and (article or link == "of")
        describes |= link in ("in", "of") and "JJS" in sentence.tags[base.start : base.head]
        is_apposed = link == "of" and sentence.lemma(base.head) in APPOSED
        describes &= not is_apposed or not sentence.is_name(base.end + 1, end)
    else:
        describes &= tag.startswith("VB")
    describes &= type_ != "free" or sentence.lower[base.start] == "the"
    return type_ if describes else ""


def _is_predicate(sentence: ParsedSentence, start: int, end: int) -> bool:
    """Whether a phrase is a predicate of something else, or contains what is asked for.

    "Tuva, who was the founder of …", "known as the founder of …", "plays the mother of …".
    """
    if start and sentence.lemma(start - 1) in ("play", "portray", "voice", "as"):
        return True
    if start > 2 and sentence.lower[start - 1] in BE:
        subject = start - 2
        if sentence.named[subject] or sentence.lower[subject] in RELATIVE | {","}:
            return True
    return sentence.lower[end - 1] in ASKING or any(
        word in ("which", "what") and tag[:2] in ("NN", "JJ") and tag not in ("NNP", "NNPS")
        for word, tag in zip(
            sentence.lower[start + 1 : end - 1], sentence.tags[start + 2 : end], strict=True
        )
    )


def _is_whole_question(sentence: ParsedSentence, start: int, end: int, noun: str) -> bool:
    """Whether a phrase is what the whole question asks for, so that resolving it gains nothing."""
    if end < len(sentence.tokens) and sentence.tags[end] == "POS":
        return False
    before = [word for word in sentence.lower[:start] if word[0].isalnum() or word == "'s"]
    if before[-3:-2] in (["the"], ["a"]) and before[-2] in _NAMING and before[-1] == "of":
        before = before[:-3]
    later = [node for node in sentence.nodes if node.start >= end and node.label in ("NP", "SBAR")]
    covered = {position for node in later for position in range(node.start, node.end)}
    verbs = (sentence.tags[p][:2] == "VB" for p in range(end, sentence.end) if p not in covered)
    if any(verbs) or sentence.tags[sentence.end - 1] in _STRANDED:
        return False
    if all(word in ORDERS or word in POLITE for word in before):
        return True
    follows_name = before[0] in BE and len(before) > 1 and sentence.named[start - 1]
    if follows_name or (before[0] == "where" and noun == "place"):
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
        preposition = mark - 1
        while preposition > 1 and sentence.is_name(preposition, mark):
            preposition -= 1
        owned = mark + 1
        while owned + 1 < sentence.end and sentence.tags[owned + 1][:2] == "NN":
            owned += 1
        if (
            sentence.lower[preposition] == "of"
            and preposition > 0
            and sentence.lemma(preposition - 1) in MAKERS
            and type_of_noun(sentence.lemma(owned)) not in ("work", "organisation")
        ):
            phrases = [p for p in phrases if not preposition < p.start < mark < p.end]
            phrases.append(Phrase(sentence.article(preposition - 1), mark, "bridge", "person"))
    return phrases
