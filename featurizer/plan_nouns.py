"""Tables of the nouns that plans of questions use."""

from collections.abc import Mapping

from wye.featurizer.feature import words

KIN = words(
    "aunt brother child cousin daughter father grandfather grandmother grandson husband mother "
    "nephew niece parent partner sibling sister son spouse stepfather stepmother uncle widow "
    "widower wife"
)
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
    "actor actress astronaut athlete bassist boxer character comedian cyclist dancer driver figure "
    "footballer friend general girl boy heir host historian killer lady lawyer man mentor "
    "model murderer person philosopher physicist pianist player politician predecessor prince "
    "princess professor pupil rapper rival runner scholar scientist soldier star student successor "
    "swimmer teacher violinist winner woman victim chemist mathematician economist golfer"
)
TYPES: Mapping[str, frozenset[str]] = {
    "person": KIN | OFFICES | MAKERS | _PEOPLE,
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
UNNAMED = frozenset(
    {"CARDINAL", "ORDINAL", "DATE", "TIME", "PERCENT", "MONEY", "QUANTITY", "NORP", "LANGUAGE"}
)
LABELS = {
    "PERSON": "person",
    **dict.fromkeys(("GPE", "LOC", "FAC"), "place"),
    "ORG": "organisation",
    "WORK_OF_ART": "work",
}
"""Types by label of the tagger."""


def wanted(noun: str) -> str:
    """The type that a noun asks for, given its lemma in lower case; "free" if it is unknown."""
    return next((name for name, nouns in TYPES.items() if noun in nouns), "free")
