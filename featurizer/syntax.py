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

from featurizer.parser import Parser, SpacyParser
from featurizer.tree import Tree
from featurizer.tree_parser import ConstituencySettings, TreeParser, locate, open_tree_parser
from featurizer.types import Parse, Span, Syntax, Token

# Raise when a change here or in `tokens` alters the syntax of some question.
SYNTAX_VERSION = "1"
TOKENS = 400
# Twice the longest sentence that the shipped model saw in training.
SENTENCE_TOKENS = 80


class SyntaxParser:
    """A spaCy pipeline and a constituency model as one parser of questions."""

    def __init__(self, parser: Parser, trees: TreeParser) -> None:
        self._parser = parser
        self._trees = trees

    @property
    def fingerprint(self) -> dict[str, str]:
        """What the syntax of a question depends on."""
        return {
            **self._parser.fingerprint,
            "constituency": f"sha256:{self._trees.digest}",
            "syntax": SYNTAX_VERSION,
        }

    def parse(self, questions: Sequence[str]) -> list[Syntax]:
        """The syntax of each question, in order."""
        return self.build(self._parser.parse_questions(questions, tokens=True))

    def build(self, parses: Sequence[Parse]) -> list[Syntax]:
        """The same, given the parses with their tokens; all trees are built together."""
        parts = [bounded(parse.tokens, parse.token_sentences) for parse in parses]
        tagged = [
            [(token.text, token.tag) for token in tokens[start:end]]
            for tokens, sentences in parts
            for start, end in sentences
        ]
        short = [words for words in tagged if len(words) <= SENTENCE_TOKENS]
        found = iter(self._trees.parse_many(short))
        trees = iter(
            [(words, next(found) if len(words) <= SENTENCE_TOKENS else None) for words in tagged]
        )
        return [
            _syntax(parse, tokens, sentences, [next(trees) for _ in sentences])
            for parse, (tokens, sentences) in zip(parses, parts, strict=True)
        ]


def open_syntax_parser(pipeline: str, constituency: ConstituencySettings) -> SyntaxParser:
    """The parser of questions without the encoder, for those who want features alone.

    Raises:
        ModelError: A model is missing or damaged.
    """
    return SyntaxParser(SpacyParser(pipeline), open_tree_parser(*locate(constituency)))


def _syntax(
    parse: Parse,
    tokens: tuple[Token, ...],
    sentences: tuple[Span, ...],
    trees: Sequence[tuple[Sequence[tuple[str, str]], Tree | None]],
) -> Syntax:
    left_out = len(parse.tokens) > len(tokens)
    return Syntax(
        tokens,
        sentences,
        tuple(flat_tree(words) if tree is None else tree for words, tree in trees),
        tuple(tree is None for _, tree in trees),
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


def flat_tree(words: Sequence[tuple[str, str]]) -> Tree:
    """The tree that says nothing: all words under one X (Penn's label of the unknown)."""
    return Tree("ROOT", (Tree("X", tuple(Tree(tag, (Tree(word),)) for word, tag in words)),))
