"""Loads treebanks with predicted tags, and adds typed copies and rule-made questions."""

from collections.abc import Sequence
from pathlib import Path

from featurizer.constituency.tree import Tree, parse_brackets
from featurizer.spacy_pipeline import load_pipeline
from training.constituency.questions import make_questions
from training.constituency.recipe import Recipe
from training.errors import TrainingError

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


def as_typed(tree: Tree) -> Tree | None:
    """The tree with its words as typed into a search box: lower case, no question mark.

    None if nothing is left.
    """
    if tree.is_preterminal:
        word = tree.children[0].label
        return None if word == "?" else Tree(tree.label, (Tree(word.lower()),))
    kept = tuple(new for child in tree.children if (new := as_typed(child)) is not None)
    return Tree(tree.label, kept) if kept else None


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


def load_corpus(folder: Path, recipe: Recipe, tagger: Tagger) -> tuple[list[Tree], list[Tree]]:
    """Load training and dev trees, with predicted tags, from `train.mrg` and `dev.mrg`.

    Training trees are the treebank's, typed copies of its questions, and rule-made questions.

    Raises:
        TrainingError: A file is missing.
    """
    train = [
        tree for tree in read_trees(folder / "train.mrg") if len(tree.words()) <= recipe.most_words
    ]
    made = make_questions(train, recipe.made_questions, recipe.seed)
    typed = [
        small
        for tree in train + made
        if is_question(tree) and (small := as_typed(tree)) is not None
    ]
    # Typed copies of only half of the rule-made questions, so prose stays the majority.
    whole = [tree for tree in train if is_question(tree)]
    typed = typed[: len(whole)] + typed[len(whole) :: 2]
    dev = read_trees(folder / "dev.mrg")
    return (with_predicted_tags(train + typed + made, tagger), with_predicted_tags(dev, tagger))


def with_predicted_tags(trees: Sequence[Tree], tagger: Tagger) -> list[Tree]:
    """The trees with the tagger's tags."""
    tags = tagger.tag([tree.words() for tree in trees])
    return [retag(tree, row) for tree, row in zip(trees, tags, strict=True)]
