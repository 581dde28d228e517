"""Loads treebanks, with predicted tags."""

from collections.abc import Sequence
from pathlib import Path

from wye.featurizer.constituency.tree import Tree, parse_brackets
from wye.featurizer.spacy.pipeline import load_pipeline
from wye.training.errors import TrainingError

QUESTION_LABELS = frozenset({"SBARQ", "SQ"})


def read_trees(path: Path) -> list[Tree]:
    """Read the trees of a file with one bracketed tree a line.

    Raises:
        TrainingError: There is no such file.
    """
    if not path.is_file():
        raise TrainingError(f"No treebank at {path}: expected one bracketed tree a line.")
    lines = path.read_text(encoding="utf-8").splitlines()
    return [parse_brackets(line) for line in lines if line.strip()]


def is_question(tree: Tree) -> bool:
    """Whether the tree contains a direct question."""
    return any(node.label in QUESTION_LABELS for node in tree.nodes())


def retag(tree: Tree, tags: Sequence[str]) -> Tree:
    """The tree with other tags, one for each word in order."""
    remaining = iter(tags)

    def rebuild(node: Tree) -> Tree:
        if node.is_preterminal:
            return Tree(next(remaining), node.children)
        return Tree(node.label, tuple(rebuild(child) for child in node.children))

    return rebuild(tree)


class Tagger:
    """A spaCy pipeline's tagger, which takes tokens instead of text."""

    def __init__(self, pipeline: str) -> None:
        """Load a pipeline by package or folder.

        Raises:
            ModelError: There is no such pipeline.
        """
        self._nlp = load_pipeline(pipeline)
        wanted = {"tok2vec", "transformer", "tagger"}
        self._pipes = [pipe for name, pipe in self._nlp.pipeline if name in wanted]
        meta = self._nlp.meta
        self.name = f"{meta['lang']}_{meta['name']} {meta['version']}"

    def tag(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """Penn tags, one for each token, in order."""
        from spacy.tokens import Doc  # noqa: PLC0415 - a second that `--help` need not pay

        docs = (Doc(self._nlp.vocab, words=list(words)) for words in sentences)
        tags = []
        for doc in docs:
            for pipe in self._pipes:
                pipe(doc)
            tags.append([token.tag_ for token in doc])
        return tags


def with_predicted_tags(trees: Sequence[Tree], tagger: Tagger) -> list[Tree]:
    """The trees with the tagger's tags."""
    tags = tagger.tag([tree.words() for tree in trees])
    return [retag(tree, row) for tree, row in zip(trees, tags, strict=True)]
