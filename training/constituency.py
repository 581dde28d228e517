"""`python -m wye.training.constituency --data DIR --out models/NAME`: train, export, evaluate.

DIR has train.mrg, dev.mrg, test.mrg and questions-eval.mrg, one bracketed tree a line. Stanza
trains the compact constituency model that ships, without the Java program that its own training
calls.
"""

import hashlib
import importlib.metadata
import importlib.util
import json
import random
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from numpy.typing import NDArray
from rich import print as say
from safetensors.numpy import load_file
from sklearn.decomposition import PCA
from spacy.tokens import Doc

from wye.featurizer.constituency.checkpoint import VECTORS, StanzaFiles, read_safetensors
from wye.featurizer.constituency.decoder import Decoder
from wye.featurizer.constituency.parser import MODEL_FILE
from wye.featurizer.constituency.tree import Tree, parse_brackets
from wye.featurizer.encoder_files import DEFAULT_ENCODER, locate_model
from wye.featurizer.errors import how_to_install
from wye.featurizer.spacy.pipeline import DEFAULT_PIPELINE, load_pipeline
from wye.training.errors import TrainingError

# As the usual scorer, EVALB, does: the root is always right, punctuation is no matter of syntax.
ROOT_LABELS = frozenset({"ROOT", "TOP"})
PUNCTUATION = frozenset({",", ":", ".", "``", "''"})
# Stanza's reserved entries, in its order: padding, unknown, empty, root.
RESERVED = ("<PAD>", "<UNK>", "<EMPTY>", "<ROOT>")
# E-mail addresses, handles and telephone numbers in the treebank are kept out of the vocabulary.
_PERSONAL = re.compile(r"@|^#\w|://|www\.|(?:\d\D?){7}")
STANZA: Mapping[str, object] = {
    "lang": "en",
    "shorthand": "en_gum",
    "transition_scheme": "in_order",
    "num_lstm_layers": 1,
    "num_output_layers": 2,
    "hidden_size": 224,
    "transition_hidden_size": 32,
    "transition_embedding_dim": 20,
    "delta_embedding_dim": 32,
    "tag_embedding_dim": 24,
    "word_dropout": 0.3,
    "predict_dropout": 0.2,
    "lstm_input_dropout": 0.2,
    "rare_word_threshold": 0.5,
    # Stanza's default, 2 % of few words, leaves the unknown word's vector untrained, and one word
    # in ten of a new text is unknown.
    "rare_word_unknown_frequency": 0.25,
    "optim": "adamw",
    "learning_rate": 2e-3,
    "learning_weight_decay": 0.01,
    "device": "cpu",
}
"""Arguments of Stanza's command line that are always the same."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a constituency model is trained, beside `STANZA`; `manifest.json` records both."""

    pipeline: str = DEFAULT_PIPELINE  # spaCy pipeline whose tags the model is trained on
    encoder: str = DEFAULT_ENCODER  # encoder whose input embeddings become the word vectors
    vector_size: int = 128  # dimensions of the word vectors
    most_words: int = 40  # longer sentences are left out of training
    batch: int = 30  # trees per step
    epochs: int = 18
    epoch_trees: int = 6000  # trees per epoch
    warm_up: int = 200  # steps until the learning rate is highest; then it falls linearly to 0
    average: float = 0.995  # decay per step of the running mean of the weights; the mean is kept
    seed: int = 7  # seed of data, initial weights and order

    def stanza_arguments(self, pretrain: str, save_dir: str) -> list[str]:
        """The recipe as arguments of Stanza's command line; Stanza may write to `save_dir`."""
        values = {
            **STANZA,
            "wordvec_pretrain_file": pretrain,
            "save_dir": save_dir,
            "train_batch_size": self.batch,
            "epochs": self.epochs,
            "epoch_size": self.epoch_trees,
            "seed": self.seed,
        }
        flags = ["--no_retag", "--no_multistage", "--no_strict_check_constituents"]
        pairs = ((f"--{name}", str(value)) for name, value in values.items())
        return ["--mode", "train", *flags, *(text for pair in pairs for text in pair)]


def read_trees(path: Path) -> list[Tree]:
    """Read a treebank, `(ROOT (NP (NN rain)))` on each line; a `TrainingError` without a file."""
    if not path.is_file():
        raise TrainingError(f"No treebank at {path}: expected one bracketed tree a line.")
    lines = path.read_text(encoding="utf-8").splitlines()
    return [parse_brackets(line) for line in lines if line.strip()]


def retag(tree: Tree, tags: Sequence[str]) -> Tree:
    """The same phrases and words with other parts of speech, one for each word in order."""
    remaining = iter(tags)

    def rebuild(node: Tree) -> Tree:
        if node.is_preterminal:
            return Tree(next(remaining), node.children)
        return Tree(node.label, tuple(rebuild(child) for child in node.children))

    return rebuild(tree)


class Tagger:
    """A spaCy pipeline's tagger, `name`, for sentences that are already divided into words."""

    def __init__(self, pipeline: str) -> None:
        """Load a pipeline by package or folder, or raise a `ModelError`."""
        self._nlp = load_pipeline(pipeline)
        wanted = {"tok2vec", "transformer", "tagger"}
        self._pipes = [pipe for name, pipe in self._nlp.pipeline if name in wanted]
        self.name = "{lang}_{name} {version}".format_map(self._nlp.meta)

    def retag(self, tree: Tree) -> Tree:
        """The tree with the tagger's parts of speech (Penn Treebank tags), as a parser sees it."""
        doc = Doc(self._nlp.vocab, words=[*tree.words()])
        for pipe in self._pipes:
            pipe(doc)
        return retag(tree, [token.tag_ for token in doc])


def brackets(tree: Tree) -> Counter[tuple[str, int, int]]:
    """Count the phrases below the root as (label, first word, word after the last one).

    Punctuation counts neither as a phrase nor as a word.
    """
    counts: Counter[tuple[str, int, int]] = Counter()

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


def score(pairs: Iterable[tuple[Tree, Tree]]) -> float:
    """F1 in percent, over the phrases of all (predicted, gold) pairs of trees; 0 without any.

    Both trees of a pair should carry the gold tags, since tags decide what punctuation is.
    """
    matched = total = 0
    for predicted, gold in pairs:
        ours, theirs = brackets(predicted), brackets(gold)
        matched += (ours & theirs).total()
        total += ours.total() + theirs.total()
    return 200 * matched / max(1, total)


def evaluate(model: Path, data: Path, tagger: Tagger) -> dict[str, float]:
    """F1 of each part of a treebank, `dev.mrg` and so on, parsed as served with the tagger's tags.

    A `TrainingError` if a part is missing, or a sentence gets no tree.
    """
    decoder, scores = Decoder.read(model / MODEL_FILE), {}
    for name in ("dev", "test", "questions-eval"):
        gold = read_trees(data / f"{name}.mrg")
        pairs = []
        for tree in gold:
            parsed = decoder.parse(tagger.retag(tree).tagged_words())
            if parsed is None:
                excerpt = " ".join(tree.words())[:80]
                raise TrainingError(f"The constituency model finds no tree for '{excerpt}'.")
            pairs.append((retag(parsed, [tag for _, tag in tree.tagged_words()]), tree))
        scores[name] = score(pairs)
    return scores


def compress(encoder: str, dimensions: int) -> tuple[list[str], NDArray[np.float16]]:
    """Word vectors for the parser: an encoder's own input vectors of words, with fewer dimensions.

    These are the first principal components, scaled to a root mean square of 0.3 as the parser's
    other inputs are, and rounded to float16 before anything is trained with them. Returns n words,
    Stanza's reserved entries first, and their (n, dimensions) vectors.
    """
    folder = locate_model(encoder)
    vocabulary: dict[str, int] = json.loads((folder / "tokenizer.json").read_text("utf-8"))[
        "model"
    ]["vocab"]
    tensors = load_file(str(folder / "model.safetensors"))
    name = next(n for n in tensors if n.endswith("embeddings.word_embeddings.weight"))
    words = [
        word
        for word in sorted(vocabulary, key=vocabulary.__getitem__)
        if not word.startswith(("##", "[unused", "[CLS", "[SEP", "[MASK", "[PAD", "[UNK"))
    ]
    rows = tensors[name][[vocabulary[word] for word in words]].astype(np.float64)
    reduced = PCA(dimensions, svd_solver="covariance_eigh").fit_transform(rows)
    reduced *= 0.3 / np.sqrt(np.mean(reduced**2))
    vectors = np.vstack([np.zeros((len(RESERVED), dimensions)), reduced])
    return [*RESERVED, *words], vectors.astype(np.float16)


def save_vectors(
    words: Sequence[str], vectors: NDArray[np.float16], out: Path, *, lower: bool = True
) -> None:
    """Write words, looked up in lower case if `lower`, and their (n, d) vectors as Stanza does."""
    numbers = {word: number for number, word in enumerate(words)}
    vocabulary = {"_id2unit": list(words), "_unit2id": numbers, "lower": lower}
    vocabulary |= {"lang": "en", "idx": 0, "cutoff": 0}
    torch.save({"vocab": vocabulary, "emb": torch.tensor(vectors)}, out)


def fit(
    recipe: Recipe, train: Sequence[Tree], dev: Sequence[Tree], *, pretrain: Path, out: Path
) -> None:
    """Train Stanza's parser on trees with a tagger's parts of speech, and write the mean weights.

    The parser builds a tree by a sequence of actions. Stanza makes the batches and its "dynamic
    oracle" says which action is best after a mistake. Our own loop replaces Stanza's, which lowers
    the learning rate when a score that Java computes stops rising: here the rate rises over the
    first steps, then falls linearly, and a running mean of the weights is what is written. Stanza
    takes the parser's labels and actions from `train` and `dev`.
    """
    from stanza.models import constituency_parser
    from stanza.models.common.foundation_cache import FoundationCache
    from stanza.models.common.utils import set_random_seed
    from stanza.models.constituency import parser_training
    from stanza.models.constituency.in_order_oracle import InOrderOracle
    from stanza.models.constituency.parse_tree import Tree as StanzaTree

    def to_stanza(tree: Tree) -> StanzaTree:
        return StanzaTree(tree.label, [to_stanza(child) for child in tree.children] or None)

    args = constituency_parser.parse_args(recipe.stanza_arguments(str(pretrain), str(out.parent)))
    set_random_seed(recipe.seed)
    trees = [to_stanza(tree) for tree in train]
    trainer, sequences, _, _ = parser_training.build_trainer(
        args, trees, [to_stanza(tree) for tree in dev], [], FoundationCache(), str(out)
    )
    data = parser_training.compose_train_data(trees, sequences)
    steps = recipe.epochs * -(-recipe.epoch_trees // recipe.batch)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        trainer.optimizer,
        lambda step: min((step + 1) / recipe.warm_up, (steps - step) / (steps - recipe.warm_up)),
    )
    # The mean of the weights averages out the noise of the last steps. With a fixed decay, the
    # initial weights would dominate early on.
    mean = torch.optim.swa_utils.AveragedModel(
        trainer.model,
        avg_fn=lambda mean, weights, step: torch.lerp(
            weights, mean, min(recipe.average, (step + 1) / (step + 11))
        ),
    )
    tensors = {t: torch.tensor([i]) for i, t in enumerate(trainer.transitions)}
    entropy = torch.nn.CrossEntropyLoss(reduction="sum")
    oracle = InOrderOracle(trainer.root_labels, None, None, None)
    left_over: list[Any] = []
    for epoch in range(1, recipe.epochs + 1):
        left_over, items = parser_training.next_epoch_data(left_over, data, recipe.epoch_trees)
        # Batches of equal length waste no steps on finished trees.
        items.sort(key=lambda item: len(item.gold_sequence))
        starts = list(range(0, len(items), recipe.batch))
        random.shuffle(starts)
        trainer.train()
        loss = 0.0
        for number, start in enumerate(starts):
            batch = items[start : start + recipe.batch]
            stats = parser_training.train_model_one_batch(
                epoch, number, trainer.model, batch, tensors, lambda x: x, entropy, oracle, args
            )
            # A batch whose loss overflowed is skipped, as Stanza does.
            if stats.nans == 0:
                trainer.optimizer.step()
            trainer.optimizer.zero_grad()
            scheduler.step()
            mean.update_parameters(trainer.model)
            loss += stats.epoch_loss
        say(f"epoch {epoch:2}  loss {loss / len(items):9.1f}")
    trainer.model.load_state_dict(mean.module.state_dict())
    trainer.best_epoch = trainer.epochs_trained = recipe.epochs
    trainer.save(str(out), save_optimizer=False)


def export(checkpoint: Path, vectors: Path, out: Path) -> None:
    """Convert Stanza's .pt files to a safetensors file, without paths and personal data."""
    content = torch.load(checkpoint, map_location="cpu", weights_only=True)
    pretrain = torch.load(vectors, map_location="cpu", weights_only=True)
    params = content["params"]
    tensors = {name: tensor.numpy() for name, tensor in params.pop("model").items()}
    tensors[VECTORS] = np.asarray(pretrain["emb"])
    public = [i for i, word in enumerate(params["words"]) if not _PERSONAL.search(word)]
    # Two reserved rows come first.
    rows = [0, 1, *(i + 2 for i in public)]
    tensors["delta_embedding.weight"] = tensors["delta_embedding.weight"][rows]
    tensors["delta_tensors"] = np.arange(len(rows))
    params["words"] = [params["words"][i] for i in public]
    params["rare_words"] = []  # only training uses them
    params["config"] = {
        key: Path(value).name if isinstance(value, str) and "/" in value else value
        for key, value in params["config"].items()
    } | dict.fromkeys(("save_dir", "data_dir", "wordvec_dir"), "")
    vocabulary = pretrain["vocab"]
    StanzaFiles(content, tensors, vocabulary["_id2unit"], vocabulary["lower"]).write(out)


def write_manifest(out: Path, recipe: Recipe, scores: Mapping[str, float], tagger: str) -> None:
    """Write `manifest.json` beside the model in `out`: its recipe, epoch and F1 scores."""
    model = out / MODEL_FILE
    packages = ("stanza", "torch", "spacy")
    manifest = {
        "name": out.name,
        "format": "stanza constituency, safetensors",
        "files": {MODEL_FILE: hashlib.sha256(model.read_bytes()).hexdigest()},
        "tagger": tagger,
        "recipe": {**asdict(recipe), **STANZA},
        "epoch": read_safetensors(model).content["best_epoch"],
        "bracket_f1": {name: round(score, 2) for name, score in scores.items()},
        "trained_with": {package: importlib.metadata.version(package) for package in packages},
    }
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    (out / "manifest.json").write_text(text, encoding="utf-8")


Folder = Annotated[Path, typer.Option(file_okay=False)]


def main(data: Folder, out: Folder) -> None:
    """Train a constituency parser, write it, and evaluate it."""
    if importlib.util.find_spec("stanza") is None:
        needed = "Training a constituency model needs Stanza"
        raise TrainingError(f"{needed}; {how_to_install('stanza')}.")
    recipe = Recipe()
    tagger = Tagger(recipe.pipeline)
    # One thread fixes the order of sums, so runs are repeatable; the matrices are too small to
    # gain from more.
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    train, dev = (
        [tagger.retag(tree) for tree in read_trees(data / f"{split}.mrg")]
        for split in ("train", "dev")
    )
    train = [tree for tree in train if len(tree.words()) <= recipe.most_words]
    say(f"{len(train)} training trees, {len(dev)} for dev")
    with tempfile.TemporaryDirectory() as scratch:
        checkpoint, vectors = Path(scratch) / "checkpoint.pt", Path(scratch) / "vectors.pt"
        save_vectors(*compress(recipe.encoder, recipe.vector_size), vectors)
        fit(recipe, train, dev, pretrain=vectors, out=checkpoint)
        export(checkpoint, vectors, out / MODEL_FILE)
    scores = evaluate(out, data, tagger)
    write_manifest(out, recipe, scores, tagger.name)
    for name, f1 in scores.items():
        say(f"{name:20} F1 {f1:.2f}")


if __name__ == "__main__":
    typer.run(main)
