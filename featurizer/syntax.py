"""From a parse with tokens to the syntax of a question, within a bound on time.

- Of a question, the first `parser.QUESTION_CHARACTERS` characters are parsed.
- Of its tokens, the first `TOKENS` are described; heads beyond them are no heads.
- A sentence of more than `SENTENCE_TOKENS` tokens gets a flat tree, and so does one for which the
  model finds none: (ROOT (X (tag word) …)), which holds no clause and no phrase but X.
- A text without a word or mark (empty, or nothing but white space) has no sentence and no tree.

`Syntax.flat` says which trees are flat, and `Syntax.unread` what was left out.
"""

from collections.abc import Sequence
from dataclasses import replace

from featurizer.errors import ParseError
from featurizer.tree import Tree
from featurizer.tree_parser import TreeParser
from featurizer.types import Parse, Span, Syntax, Token

# Raise when a change here or in `tokens` alters the syntax of some question.
SYNTAX_VERSION = "1"
TOKENS = 400
# Twice the longest sentence that the shipped model saw in training.
SENTENCE_TOKENS = 80


def syntax_of(parse: Parse, trees: TreeParser) -> Syntax:
    """The syntax of a question.

    Args:
        parse: With its tokens.
        trees: Parses tagged words.
    """
    tokens, sentences = bounded(parse.tokens, parse.token_sentences)
    found = [tree_of(tokens[start:end], trees) for start, end in sentences]
    left_out = len(parse.tokens) > len(tokens)
    return Syntax(
        tokens,
        sentences,
        tuple(tree for tree, _ in found),
        tuple(flat for _, flat in found),
        len(parse.text) - tokens[-1].span[1] if left_out else parse.unread,
    )


def bounded(
    tokens: Sequence[Token], sentences: Sequence[Span]
) -> tuple[tuple[Token, ...], tuple[Span, ...]]:
    """The first `TOKENS` tokens, and the sentences that these make."""
    if len(tokens) <= TOKENS:
        return tuple(tokens), tuple(sentences)
    kept = tuple(
        token if token.head < TOKENS else replace(token, head=place)
        for place, token in enumerate(tokens[:TOKENS])
    )
    return kept, tuple((start, min(end, TOKENS)) for start, end in sentences if start < TOKENS)


def tree_of(tokens: Sequence[Token], trees: TreeParser) -> tuple[Tree, bool]:
    """A sentence's tree, and whether it is flat for want of a better one."""
    words = [(token.text, token.tag) for token in tokens]
    if len(words) <= SENTENCE_TOKENS:
        try:
            return trees.parse(words), False
        except ParseError:
            pass
    return flat_tree(words), True


def flat_tree(words: Sequence[tuple[str, str]]) -> Tree:
    """The tree that says nothing: all words under one X (Penn's label of the unknown)."""
    return Tree("ROOT", (Tree("X", tuple(Tree(tag, (Tree(word),)) for word, tag in words)),))
