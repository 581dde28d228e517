"""Measures a finished model's bracket F1 with the serving parser, and writes its card."""

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
from wye.featurizer.constituency.tree import Tree
from wye.training.constituency.recipe import Recipe
from wye.training.constituency.treebank import (
    Tagger,
    is_question,
    read_trees,
    retag,
    with_predicted_tags,
)
from wye.training.errors import TrainingError

# EVALB's customary exclusions: the root is always right, punctuation is not a matter of syntax.
ROOT_LABELS = frozenset({"ROOT", "TOP"})
PUNCTUATION = frozenset({",", ":", ".", "``", "''"})

Bracket = tuple[str, int, int]


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


def write_card(out: Path, recipe: Recipe, evaluation: ModelEvaluation, tagger: str) -> None:
    """Write `CARD.md` and `manifest.json` beside the model in `out`."""
    content = (out / MODEL_FILE).read_bytes()
    lines = [
        f"# Constituency parser: {out.name}",
        "",
        "| set | sentences | precision | recall | bracket F1 | exact |",
        "|---|---|---|---|---|---|",
        *(
            f"| {name} | {s.sentences} | {s.precision:.1f} | {s.recall:.1f} | {s.f1:.1f} "
            f"| {100 * s.exact / max(s.sentences, 1):.1f} % |"
            for name, s in evaluation.scores.items()
        ),
        "",
        "Labelled brackets are counted as by EVALB, without the root and punctuation. The parser",
        f"saw tags of {tagger}; gold tags only decided what punctuation is. Only dev was used to",
        f"choose the epoch. Sentences of at most {recipe.most_words} words were trained on. Size: "
        f"{len(content) / 1e6:.1f} MB.",
    ]
    (out / "CARD.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    manifest = {
        "name": out.name,
        "format": "stanza constituency, safetensors",
        "files": {MODEL_FILE: hashlib.sha256(content).hexdigest()},
        "tagger": tagger,
        "recipe": asdict(recipe),
        "epoch": evaluation.epoch,
        "bracket_f1": {name: round(s.f1, 2) for name, s in evaluation.scores.items()},
        "trained_with": {
            package: importlib.metadata.version(package) for package in ("stanza", "torch", "spacy")
        },
    }
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    (out / "manifest.json").write_text(text, encoding="utf-8")
