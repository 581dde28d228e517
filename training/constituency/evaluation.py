"""Reads treebanks, and measures a finished model's bracket F1 on them with the serving parser."""

import hashlib
import importlib.metadata
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from wye.featurizer.constituency.checkpoint import read_checkpoint, read_safetensors
from wye.featurizer.constituency.decoder import Decoder
from wye.featurizer.constituency.parser import MODEL_FILE
from wye.featurizer.constituency.tree import Tree, parse_brackets
from wye.featurizer.spacy.pipeline import load_pipeline
from wye.training.constituency.model_files import STANZA, Recipe
from wye.training.errors import TrainingError

# EVALB's customary exclusions: the root is always right, punctuation is not a matter of syntax.
ROOT_LABELS = frozenset({"ROOT", "TOP"})
PUNCTUATION = frozenset({",", ":", ".", "``", "''"})

QUESTION_LABELS = frozenset({"SBARQ", "SQ"})

Bracket = tuple[str, int, int]


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


@dataclass(frozen=True, slots=True)
class BracketScore:
    """Numbers of brackets, and ratios of them in percent.

    Attributes:
        matched: Brackets of both the parser and the treebank.
        predicted: Brackets of the parser.
        gold: Brackets of the treebank.
        exact: Sentences without a wrong or missing bracket.
        sentences: All sentences.
    """

    matched: int
    predicted: int
    gold: int
    exact: int
    sentences: int

    @property
    def precision(self) -> float:
        """Share of the parser's brackets that are right; 0 without any."""
        return 100 * self.matched / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """Share of the treebank's brackets that were found; 0 without any."""
        return 100 * self.matched / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 when nothing matched."""
        total = self.predicted + self.gold
        return 100 * 2 * self.matched / total if total else 0.0


def brackets(tree: Tree) -> Counter[Bracket]:
    """Count (label, first word, end word) of all phrases below the root, ignoring punctuation."""
    counts: Counter[Bracket] = Counter()

    def visit(node: Tree, start: int) -> int:
        if node.is_preterminal:
            return start + (node.label not in PUNCTUATION)
        end = start
        for child in node.children:
            end = visit(child, end)
        if end > start and node.label not in ROOT_LABELS:
            counts[node.label, start, end] += 1
        return end

    visit(tree, 0)
    return counts


def score(pairs: Iterable[tuple[Tree, Tree]]) -> BracketScore:
    """Corpus-level score of (predicted, gold) pairs of trees over the same words.

    Both trees of a pair should carry the gold tags, since tags decide what punctuation is.
    """
    matched = predicted = gold = exact = sentences = 0
    for one, other in pairs:
        ours, theirs = brackets(one), brackets(other)
        matched += (ours & theirs).total()
        predicted += ours.total()
        gold += theirs.total()
        exact += ours == theirs
        sentences += 1
    return BracketScore(matched, predicted, gold, exact, sentences)


@dataclass(frozen=True, slots=True)
class ModelEvaluation:
    """Figures of one model: scores by set of trees, and the epoch that was kept."""

    scores: dict[str, BracketScore]
    epoch: int


def evaluate(model: Path, data: Path, tagger: Tagger) -> ModelEvaluation:
    """Measure a model on the treebank's dev and test splits and on held-out questions.

    Args:
        data: Folder with `dev.mrg`, `test.mrg` and `questions-eval.mrg`.
        tagger: Gives the tags that the parser sees; gold tags decide what punctuation is.

    Raises:
        TrainingError: A treebank is missing, or a sentence has no tree.
    """
    file = model / MODEL_FILE
    decoder = Decoder(read_checkpoint(file))
    test = read_trees(data / "test.mrg")
    questions = read_trees(data / "questions-eval.mrg")
    sets = {
        "dev": read_trees(data / "dev.mrg"),
        "test": test,
        "test, questions": [tree for tree in test if is_question(tree)],
        "held-out questions": questions,
    }
    return ModelEvaluation(
        {name: bracket_score(decoder, trees, tagger) for name, trees in sets.items()},
        read_safetensors(file).content["best_epoch"],
    )


def bracket_score(decoder: Decoder, gold: Sequence[Tree], tagger: Tagger) -> BracketScore:
    """Score of the decoder's trees over the tagger's tags.

    Raises:
        TrainingError: The decoder finds no tree for a sentence.
    """
    words = [seen.tagged_words() for seen in with_predicted_tags(gold, tagger)]
    pairs = []
    for parsed, tree in zip(decoder.parse_many(words), gold, strict=True):
        if parsed is None:
            excerpt = " ".join(tree.words())[:80]
            raise TrainingError(f"The constituency model finds no tree for '{excerpt}'.")
        pairs.append((retag(parsed, [tag for _, tag in tree.tagged_words()]), tree))
    return score(pairs)


def write_manifest(out: Path, recipe: Recipe, evaluation: ModelEvaluation, tagger: str) -> None:
    """Write `manifest.json` beside the model in `out`: its recipe and its scores."""
    digest = hashlib.sha256((out / MODEL_FILE).read_bytes()).hexdigest()
    packages = ("stanza", "torch", "spacy")
    manifest = {
        "name": out.name,
        "format": "stanza constituency, safetensors",
        "files": {MODEL_FILE: digest},
        "tagger": tagger,
        "recipe": {**asdict(recipe), **STANZA},
        "epoch": evaluation.epoch,
        "bracket_f1": {name: round(score.f1, 2) for name, score in evaluation.scores.items()},
        "trained_with": {package: importlib.metadata.version(package) for package in packages},
    }
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    (out / "manifest.json").write_text(text, encoding="utf-8")
