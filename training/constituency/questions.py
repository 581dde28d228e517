"""Makes questions by rules, since treebanks of prose hold few and a router reads little else.

`questions.txt` is a small grammar of bracketed templates. `<symbol>` is replaced by one of the
symbol's alternatives at random, and `<np>` by a short noun phrase of the training treebank. The
trees follow the treebank's conventions: the copula of "who is …" heads a VP, and an inverted
auxiliary is a sibling of its subject under SQ.
"""

import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from featurizer.constituency.tree import Tree, parse_brackets

_SLOT = re.compile(r"<([a-z_]+)>")


def _read(text: str) -> dict[str, list[str]]:
    """Symbol -> alternatives: the words on its line, or the indented lines below it."""
    grammar: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith(" "):
            grammar[name].append(line.strip())
        else:
            name, _, alternatives = line.partition(":")
            grammar[name] = alternatives.split()
    return grammar


_GRAMMAR = _read(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8"))


def make_questions(trees: Sequence[Tree], number: int, seed: int) -> list[Tree]:
    """Make distinct questions.

    Args:
        trees: The training treebank, for noun phrases.
    """
    choose = random.Random(seed)
    phrases = [str(phrase) for phrase in short_phrases(trees, "NP", most_words=6)]
    made: dict[str, None] = {}
    while len(made) < number:
        made[_expand("(ROOT <question>)", phrases, choose)] = None
    return [_flatten(parse_brackets(text)) for text in made]


def short_phrases(trees: Sequence[Tree], label: str, most_words: int) -> Iterator[Tree]:
    """Yield short phrases of a label that contain no subordinate clause and no punctuation."""
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
    """Remove phrases whose only child has the same label, as the treebank does."""
    children = tuple(_flatten(child) for child in node.children)
    if len(children) == 1 and children[0].label == node.label and not node.is_preterminal:
        return children[0]
    return Tree(node.label, children)
