"""Rule-made questions: treebanks of prose hold few, and a router reads little else.

A small grammar of bracketed templates. `<symbol>` is replaced by one of that symbol's
alternatives, chosen at random; `<np>` by a short noun phrase of the training treebank. The shapes
follow the treebank's own conventions: the copula of "who is …" heads a VP, an inverted auxiliary
stands beside its subject under SQ.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence

from featurizer.constituency.tree import Tree, parse_brackets


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_SLOT = re.compile(r"<([a-z_]+)>")

_QUESTIONS = (
    # Who, what, which as subject.
    "(SBARQ (WHNP (WP Who)) (SQ (VP (VBD <made>) <thing>)) (. ?))",
    "(SBARQ (WHNP (WP Who)) (SQ (VP (VBD <made>) <thing> <when>)) (. ?))",
    "(SBARQ (WHNP (WP Who)) (SQ (VP (VBZ plays) (NP <np> (PP (IN in) <thing>)))) (. ?))",
    "(SBARQ (WHNP (WP Who)) (SQ (VP (VBD was) (NP <role_of>))) (. ?))",
    "(SBARQ (WHNP (WP Who)) (SQ (VP (VBZ is) (NP <role_of>))) (. ?))",
    "(SBARQ (WHNP (WP Who)) (SQ (VP (VBZ is) <person>)) (. ?))",
    "(SBARQ (WHNP (WP Who)) (SQ (VP (VBD was) (NP (DT the) (JJ first) (NN <office>) "
    "(S (VP (TO to) (VP (VB visit) <place>)))))) (. ?))",
    "(SBARQ (WHNP (WP What)) (SQ (VP (VBZ is) (NP (NP (DT the) (NN <property>)) "
    "(PP (IN of) <thing>)))) (. ?))",
    "(SBARQ (WHNP (WP What)) (SQ (VP (VBZ is) <np>)) (. ?))",
    "(SBARQ (WHNP (WP What)) (SQ (VP (VBD caused) <np>)) (. ?))",
    "(SBARQ (WHNP (WDT <which>) (NN <kind>)) (SQ (VP (VBD <made>) <thing>)) (. ?))",
    "(SBARQ (WHNP (WDT <which>) (NN <work>)) (SQ (VP (VBZ has) (NP (NP (DT the) (NN director)) "
    "(SBAR (WHNP (WP who)) (S (VP (VBD was) (VP (VBN born) (ADVP (RBR <order>)))))))))"
    " (, ,) (NP <title> (CC or) <title>) (. ?))",
    "(SBARQ (WHNP (WDT <which>) (NN <work>)) (SQ (VP (VBD <came>) (ADVP (<order_tag>)))) (, ,) "
    "(NP <title> (CC or) <title>) (. ?))",
    "(SBARQ (WHNP (WP Who)) (SQ (VP (VBD was) (VP (VBN born) (ADVP (<order_tag>))))) (, ,) "
    "(NP <person> (CC or) <person>) (. ?))",
    "(SBARQ (WHNP (WP Who)) (SQ (VP (VBD <came>) (ADVP (<order_tag>)))) (, ,) "
    "(NP <person> (CC or) <person>) (. ?))",
    # Fronted objects and adjuncts, with an inverted auxiliary.
    "(SBARQ (WHNP (WP What)) (SQ (VBD did) <person> (VP (VB <act>))) (. ?))",
    "(SBARQ (WHNP (WDT <which>) (NN <kind>)) (SQ (VBD did) <person> (VP (VB <act>) <where>))"
    " (. ?))",
    "(SBARQ (WHNP (WDT <which>) (NN <kind>)) (SQ (VBZ is) <thing> (VP (VBN <done>) "
    "(PP (IN <prep>)))) (. ?))",
    "(SBARQ (WHNP (WP What)) (SQ (VBZ is) <np> (VP (VBN known) (PP (IN for)))) (. ?))",
    "(SBARQ (WHNP (WP What)) (SQ (VBZ does) <np> (VP (VB mean))) (. ?))",
    "(SBARQ (WHNP (WP What)) (SQ (VBZ does) <np> (VP (VB do) (PP (IN to) <np>))) (. ?))",
    "(SBARQ (WHADVP (WRB When)) (SQ (VBD did) <person> (VP (VB die))) (. ?))",
    "(SBARQ (WHADVP (WRB When)) (SQ (VBD did) <thing> (VP (VB come) (PRT (RP out)))) (. ?))",
    "(SBARQ (WHADVP (WRB When)) (SQ (VBD did) <np> (VP (VB begin))) (. ?))",
    "(SBARQ (WHADVP (WRB <wh_adverb>)) (SQ (VBD was) <person> (VP (VBN born))) (. ?))",
    "(SBARQ (WHADVP (WRB <wh_adverb>)) (SQ (VBD was) (NP <role_of>) (VP (VBN born))) (. ?))",
    "(SBARQ (WHADVP (WRB <wh_adverb>)) (SQ (VBD was) <thing> (VP (VBN <done>))) (. ?))",
    "(SBARQ (WHADVP (WRB <wh_adverb>)) (SQ (VBD was) <thing> (VP (VBN <done>) "
    "(PP (IN by) <person>))) (. ?))",
    "(SBARQ (WHADVP (WRB Where)) (SQ (VBD did) <person> (VP (VB <live>) <when>)) (. ?))",
    "(SBARQ (WHADVP (WRB Where)) (SQ (VBD did) (NP <role_of>) (VP (VB <live>))) (. ?))",
    "(SBARQ (WHADVP (WRB Where)) (SQ (VBZ is) <np>) (. ?))",
    "(SBARQ (WHADVP (WRB Why)) (SQ (VBD did) <person> (VP (VB leave) <place>)) (. ?))",
    "(SBARQ (WHADVP (WRB Why)) (SQ (VBZ is) <np> (ADJP (JJ <quality>))) (. ?))",
    "(SBARQ (WHADVP (WRB How)) (SQ (VBD did) <person> (VP (VB <act>) <np>)) (. ?))",
    "(SBARQ (WHADVP (WRB How)) (SQ (MD can) (NP (PRP I)) (VP (VB <act>) <np>)) (. ?))",
    "(SBARQ (WHADVP (WRB How) (JJ <degree>)) (SQ (VBZ is) <np>) (. ?))",
    "(SBARQ (WHADVP (WRB How) (RB long)) (SQ (VBD did) <np> (VP (VB last))) (. ?))",
    "(SBARQ (WHNP (WHADJP (WRB How) (JJ many)) (NNS <count>)) (SQ (VBZ does) <thing> "
    "(VP (VB have))) (. ?))",
    "(SBARQ (WHNP (WHADJP (WRB How) (JJ many)) (NNS <count>)) (SQ (VP (VBP are) "
    "(PP (IN in) <thing>))) (. ?))",
    "(SBARQ (WHNP (WHADJP (WRB How) (JJ many)) (NNS <count>)) (SQ (VP (VBD took) "
    "(NP (NN part)) (PP (IN in) <np>))) (. ?))",
    "(SBARQ (WHPP (IN In) (WHNP (WDT which) (NN <kind>))) (SQ (VBD was) <person> "
    "(VP (VBN born))) (. ?))",
    "(SBARQ (WHPP (IN In) (WHNP (WDT what) (NN <kind>))) (SQ (VBD did) <person> "
    "(VP (VB <live>))) (. ?))",
    "(SBARQ (WHNP (WP What) (NN <property>)) (SQ (VBZ is) <thing>) (. ?))",
    "(SBARQ (WHNP (WHNP (WP What) (NN <property>)) (PP (IN of) (NP (NN <work>)))) (SQ (VBD did) "
    "<person> (VP (VB <act>))) (. ?))",
    "(SBARQ (WHNP (WP$ Whose) (NN <property>)) (SQ (VP (VBD <made>) <thing>)) (. ?))",
    # Bridges: a clause or a participle inside the noun phrase that is asked about.
    "(SBARQ (WHADVP (WRB <wh_adverb>)) (SQ (VBD was) (NP (NP <the_role>) (SBAR (WHNP (WP who)) "
    "(S (VP (VBD <made>) <thing>)))) (VP (VBN born))) (. ?))",
    "(SBARQ (WHADVP (WRB Where)) (SQ (VBD did) (NP (NP <the_role>) (SBAR (WHNP (WP who)) "
    "(S (VP (VBD <made>) <thing>)))) (VP (VB <live>))) (. ?))",
    "(SBARQ (WHNP (WP Who)) (SQ (VP (VBD <made>) (NP (NP (DT the) (NN <work>)) "
    "(VP (VBN based) (PP (IN on) <thing>))))) (. ?))",
    "(SBARQ (WHNP (WP What)) (SQ (VP (VBZ is) (NP (NP (DT the) (NN <property>)) (PP (IN of) "
    "(NP (NP (DT the) (NN <kind>)) (SBAR (WHADVP (WRB where)) (S <person> (VP (VBD was) "
    "(VP (VBN born)))))))))) (. ?))",
    "(SBARQ (WHNP (WP What)) (SQ (VP (VBZ is) (NP (NP (DT the) (NN <property>)) (PP (IN of) "
    "(NP (NP (DT the) (NN <kind>)) (SBAR (WHNP (WDT that)) (S <person> (VP (VBD <made>)))))))))"
    " (. ?))",
    "(SBARQ (WHNP (WP Who)) (SQ (VP (VBD <made>) (NP (NP (DT the) (NN <kind>)) (SBAR "
    "(WHPP (IN in) (WHNP (WDT which))) (S <person> (VP (VBD <lived>))))))) (. ?))",
    "(SBARQ (WHNP (WP Who)) (SQ (VP (VBD <made>) (NP (NP (DT the) (NN <work>)) (SBAR "
    "(WHNP (WDT that)) (S (VP (VBD <came>) <when>)))))) (. ?))",
    # Yes and no.
    "(SQ (VBP Are) (NP (CC both) <title> (CC and) <title>) (PP (IN from) (NP (DT the) (JJ same) "
    "(NN <kind>))) (. ?))",
    "(SQ (VBP Are) (NP <person> (CC and) <person>) (PP (IN of) (NP (DT the) (JJ same) "
    "(NN nationality))) (. ?))",
    "(SQ (VBD Were) (NP (CC both) <person> (CC and) <person>) (VP (VBN born) <where>) (. ?))",
    "(SQ (VBD Did) (NP <person> (CC and) <person>) (VP (VB <live>) (PP (IN in) (NP (DT the) "
    "(JJ same) (NN <kind>)))) (. ?))",
    "(SQ (VBD Was) <person> (VP (VBN born) <where>) (. ?))",
    "(SQ (VBZ Is) <np> (ADJP (JJ <quality>)) (. ?))",
    "(SQ (VBZ Does) <np> (VP (VB have) <np>) (. ?))",
    "(SQ (VBD Did) <person> (VP (VB <act>) <thing>) (. ?))",
    "(SQ (MD Can) <np> (VP (VB <act>) <np>) (. ?))",
)

_GRAMMAR: Mapping[str, Sequence[str]] = {
    "question": _QUESTIONS,
    "person": (
        "(NP (NNP <given>) (NNP <family>))",
        "(NP (NNP <given>) (NNP <family>))",
        "(NP (NNP <given>) (NNP <letter>) (NNP <family>))",
        "(NP (NNP <family>))",
        "(NP (NP (NNP <given>) (NNP <family>) (POS 's)) (NN <relative>))",
    ),
    "title": (
        "<person>",
        "(NP (NNP <name_word>) (NNP <name_word>))",
        "(NP (DT The) (NNP <name_word>) (NNP <name_word>))",
        "(NP (NNP <name_word>))",
    ),
    "thing": (
        "<title>",
        "<title>",
        "<np>",
        "(NP (DT the) (NN <work>) (NNP <name_word>) (NNP <name_word>))",
        "(NP (NP (DT the) (NN <work>)) (PP (IN of) <place>))",
    ),
    "role_of": (
        "(NP (DT the) (NN <office>)) (PP (IN of) <thing>)",
        "(NP (DT the) (NN <office>)) (PP (IN of) <place>)",
        "(NP (DT the) (NN <relative>)) (PP (IN of) <person>)",
        "(NP (DT the) (NN <relative>)) (PP (IN of) (NP (NP (DT the) (NN <office>)) "
        "(PP (IN of) <thing>)))",
    ),
    "the_role": ("(DT the) (NN <office>)", "(DT the) (NN <relative>)"),
    "when": (
        "(PP (IN in) (NP (CD <year>)))",
        "(PP (IN after) <np>)",
        "(PP (IN before) (NP (DT the) (NN war)))",
    ),
    "where": ("(PP (IN in) <place>)", "(PP (IN near) <place>)"),
    "place": (
        "(NP (NNP <town>))",
        "(NP (NNP <town>))",
        "(NP (NP (NNP <town>)) (, ,) (NP (NNP <land>)))",
        "(NP (NNP <land>))",
    ),
    "order_tag": ("RB first", "RBR later", "RBR earlier"),
    "order": ("later", "earlier"),
    "wh_adverb": ("When", "Where"),
    "which": ("Which", "What"),
    "given": _words(
        "Ada Bruno Clara David Elena Felix Greta Hugo Irene Jonas Karim Lucia "
        "Mary Nils Olga Pablo Rosa Samuel Tariq Ursula Viktor Wanda Yusuf Zoe"
    ),
    "family": _words(
        "Abbott Berger Castillo Dunn Eriksen Ferrari Grant Hansen Ito Jensen "
        "Keller Lindqvist Moreau Novak Okafor Petrov Quinn Rossi Sharma Turner"
    ),
    "letter": ("A.", "E.", "J.", "M.", "R.", "T."),
    "name_word": _words(
        "Amber Bridge Crown Dawn Empire Forest Garden Harbor Island Jade "
        "King Lantern Midnight North Ocean Palace Queen River Storm Tower Winter"
    ),
    "town": _words("Lisbon Boston Kyoto Prague Nairobi Lima Oslo Cairo Vienna Seville"),
    "land": _words("Portugal Canada Japan Kenya Peru Norway Egypt Austria Spain India"),
    "office": _words(
        "director author founder composer mayor president captain editor "
        "performer producer creator architect king governor"
    ),
    "relative": _words("mother father wife husband son daughter brother grandfather spouse child"),
    "property": _words(
        "capital population name height date size cause color currency type "
        "nationality meaning birthplace origin"
    ),
    "work": _words("film novel song album book series game play painting magazine"),
    "kind": _words("country city year company band team university county language river"),
    "count": _words("people members episodes cities states players chapters songs"),
    "made": _words("wrote directed founded won built invented discovered designed sang led"),
    "came": ("died", "appeared", "started"),
    "lived": ("died", "studied", "lived", "worked"),
    "live": ("die", "study", "live", "work"),
    "act": _words("write direct found win build invent discover design remove find change"),
    "done": _words("built written published released founded made filmed located"),
    "prep": ("in", "on", "by", "from"),
    "quality": _words("important expensive famous red larger dangerous popular"),
    "degree": ("old", "tall", "big", "long", "far", "deep"),
    "year": ("1789", "1848", "1905", "1926", "1969", "1984", "2001", "2014"),
}


def make_questions(trees: Sequence[Tree], number: int, seed: int) -> list[Tree]:
    """Different questions, in the order they were made.

    Args:
        trees: Training treebank, for the noun phrases.
        number: Of questions.
        seed: Of the choices.
    """
    choose = random.Random(seed)
    phrases = [str(phrase) for phrase in short_phrases(trees, "NP", most_words=6)]
    made: dict[str, None] = {}
    while len(made) < number:
        made[_expand("(ROOT <question>)", phrases, choose)] = None
    return [_flatten(parse_brackets(text)) for text in made]


def short_phrases(trees: Sequence[Tree], label: str, most_words: int) -> Iterator[Tree]:
    """Phrases of that label with at most so many words, none of them a clause or punctuation."""
    for tree in trees:
        for node in tree.nodes():
            if node.label != label or len(node.words()) > most_words:
                continue
            below = list(node.nodes())
            if all(n.label[0].isalpha() and n.label != "SBAR" for n in below if not n.is_leaf):
                yield node


def _expand(text: str, phrases: Sequence[str], choose: random.Random) -> str:
    while slot := _SLOT.search(text):
        name = slot.group(1)
        filler = choose.choice(phrases if name == "np" else _GRAMMAR[name])
        text = text[: slot.start()] + filler + text[slot.end() :]
    return text


def _flatten(node: Tree) -> Tree:
    """Without a phrase whose only child has the same label, as the treebank has it."""
    children = tuple(_flatten(child) for child in node.children)
    if len(children) == 1 and children[0].label == node.label and not node.is_preterminal:
        return children[0]
    return Tree(node.label, children)
