"""The trees a model is trained on, and those it is judged by."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from featurizer.constituency.tree import Tree
from training.constituency.questions import make_questions
from training.constituency.recipe import Recipe
from training.constituency.tagging import Tagger
from training.constituency.treebank import as_typed, is_question, read_trees, retag


@dataclass(frozen=True, slots=True)
class Corpus:
    """Trees with predicted tags.

    Attributes:
        train: Treebank sentences, questions as typed, rule-made questions.
        dev: The treebank's; the only trees a choice may look at.
        made: How many of `train` are rule-made.
    """

    train: tuple[Tree, ...]
    dev: tuple[Tree, ...]
    made: int


def load_corpus(folder: Path, recipe: Recipe, tagger: Tagger) -> Corpus:
    """Training and dev trees of a folder with `train.mrg` and `dev.mrg`.

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
    # Half of the rule-made questions as typed keeps prose in the majority.
    whole = [tree for tree in train if is_question(tree)]
    typed = typed[: len(whole)] + typed[len(whole) :: 2]
    return Corpus(
        tuple(with_predicted_tags(train + typed + made, tagger)),
        tuple(with_predicted_tags(read_trees(folder / "dev.mrg"), tagger)),
        len(made),
    )


def with_predicted_tags(trees: Sequence[Tree], tagger: Tagger) -> list[Tree]:
    """The trees over the tagger's tags of their own words."""
    tags = tagger.tag([tree.words() for tree in trees])
    return [retag(tree, row) for tree, row in zip(trees, tags, strict=True)]
