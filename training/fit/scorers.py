"""Fits the members of a scorer: attention-MLPs, extremely randomised trees, logistic regression."""

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from wye.backends.types import Float32, Float64, Int64
from wye.router.scorer import AttentionMlp, Floats, Linear, Member, Trees
from wye.training.errors import FitError
from wye.training.fit.calibration import nll

_ROUNDS = 5_000


@dataclass(frozen=True, slots=True)
class RouterRecipe:
    """Hyper-parameters of a router, which its manifest records; EA-GraphRAG's where it states them.

    Attributes:
        kind: "attention-mlp", "linear" or "extra-trees".
        among: Names of the features that may be kept; None for all.
        features: Most features to keep, by mutual information.
        clip: Largest absolute z-score; larger ones are clipped.
        seeds: One network is trained for each, and their logits are averaged. Trees and logistic
            regression use the first.
        hidden: Widths of the network's hidden layers. A residual connection needs equal widths;
            EA-GraphRAG's 256, 128 and 64 have none.
        smoothing: Labels become smoothing / 2 and 1 - smoothing / 2.
        learning_rate: AdamW's first learning rate; it falls to 0 along a cosine.
        clip_norm: Largest norm of a gradient; larger ones are scaled down.
        epochs: Most epochs; the cosine is as long.
        patience: Training ends after so many epochs without a lower loss on dev.
        strengths: Penalties of logistic regression, 1 / C; the best on dev is kept.
        l1_ratio: Share of the L1 norm in that penalty; 0.5 is an elastic net.
        tried: Share of the features that each split of a tree chooses among.
        unfamiliar: Share of dev questions that count as unlike all of training; with 0, no question
            ever does.
    """

    kind: str = AttentionMlp.kind
    among: tuple[str, ...] | None = None
    features: int = 85
    clip: float = 5.0
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    hidden: tuple[int, ...] = (64, 64)
    dropout: float = 0.3
    smoothing: float = 0.1
    learning_rate: float = 2e-3
    weight_decay: float = 1e-3
    clip_norm: float = 1.0
    batch: int = 64
    epochs: int = 60
    patience: int = 15
    strengths: tuple[float, ...] = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
    l1_ratio: float = 0.5
    trees: int = 100
    leaves: int = 128
    leaf: int = 5
    tried: float = 0.6
    unfamiliar: float = 0.0


@dataclass(frozen=True, slots=True)
class SplitData:
    """The training data of one split.

    Attributes:
        inputs: (n, d) z-scores.
        labels: (n,) 0 or 1.
        weights: (n,) weights in the loss; unused for dev.
    """

    inputs: Float64
    labels: Int64
    weights: Float64


def fit_members(train: SplitData, dev: SplitData, recipe: RouterRecipe) -> tuple[Member, ...]:
    """Fit the members of a scorer of the recipe's kind.

    Args:
        dev: Chooses a network's epoch and the strength of logistic regression.

    Raises:
        FitError: A loss is not finite, or a fit does not converge.
    """
    if recipe.kind == Trees.kind:
        return (Trees(grow(train, recipe)),)
    if recipe.kind == Linear.kind:
        return (Linear(_fit_linear(train, dev, recipe)),)
    return tuple(AttentionMlp(fit_network(train, dev, recipe, seed)) for seed in recipe.seeds)


class AttentionMlpModule(nn.Module):
    """The trainable form of `router.scorer.AttentionMlp`; tensors have the same names in both."""

    def __init__(self, inputs: int, hidden: Sequence[int], dropout: float) -> None:
        """Make layers with torch's default initialisation.

        Args:
            hidden: Widths of the hidden layers, at least one.
            dropout: Share of units that training drops after each hidden layer.
        """
        super().__init__()
        widths = [inputs, *hidden]
        self.features = nn.Linear(inputs, inputs)
        self.hidden = nn.ModuleList(nn.Linear(before, after) for before, after in pairwise(widths))
        self.output = nn.Linear(widths[-1], widths[-1])
        self.head = nn.Linear(widths[-1], 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(n, inputs) z-scores to (n,) logits."""
        hidden = x * torch.sigmoid(self.features(x))
        for layer in self.hidden:
            activations = nn.functional.silu(layer(hidden))
            activations = activations + hidden if activations.shape == hidden.shape else activations
            hidden = self.dropout(activations)
        attended = hidden * torch.sigmoid(self.output(hidden))
        logits: Tensor = self.head(attended)[:, 0]
        return logits

    def tensors(self) -> dict[str, Floats]:
        """Copies of all weights, by name."""
        return {
            name: np.array(tensor.detach().numpy()) for name, tensor in self.state_dict().items()
        }


def fit_network(
    train: SplitData, dev: SplitData, recipe: RouterRecipe, seed: int
) -> dict[str, Floats]:
    """Train one network, and return the weights of its best epoch by name.

    The same seed gives the same bits on the same machine. torch's global generator is left
    unchanged.

    Args:
        dev: Chooses the epoch; must have both labels.

    Raises:
        FitError: The loss is not finite.
    """
    inputs, dev_inputs = (torch.tensor(data.inputs, dtype=torch.float32) for data in (train, dev))
    smooth = recipe.smoothing / 2 + train.labels * (1 - recipe.smoothing)
    targets, weights = (torch.tensor(row, dtype=torch.float32) for row in (smooth, train.weights))
    # The matrices are too small to gain from threads, whose number would change the last bits.
    with threads(1), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = AttentionMlpModule(train.inputs.shape[1], recipe.hidden, recipe.dropout)
        optimizer = torch.optim.AdamW(
            module.parameters(), recipe.learning_rate, weight_decay=recipe.weight_decay
        )
        steps = recipe.epochs * math.ceil(len(train.labels) / recipe.batch)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)

        def step(rows: Tensor) -> float:
            optimizer.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(
                module(inputs[rows]), targets[rows], weights[rows]
            )
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(module.parameters(), recipe.clip_norm)
            optimizer.step()
            schedule.step()
            return float(loss.detach())

        best, least, best_weights = 0, math.inf, module.state_dict()
        for epoch in range(recipe.epochs):
            module.train()
            order = torch.randperm(len(targets))
            batch_losses = [(step(rows), len(rows)) for rows in torch.split(order, recipe.batch)]
            loss = sum(loss * size for loss, size in batch_losses) / len(order)
            module.eval()
            with torch.no_grad():
                logits = np.asarray(module(dev_inputs).numpy(), np.float64)
            if not (math.isfinite(loss) and np.isfinite(logits).all()):
                raise FitError(
                    f"After epoch {epoch + 1} the loss is {loss} or a logit is not a number; lower "
                    "the learning rate."
                )
            dev_loss = nll(logits, dev.labels)
            if dev_loss < least:
                least, best, best_weights = dev_loss, epoch, deepcopy(module.state_dict())
            if epoch - best >= recipe.patience:
                break
    module.load_state_dict(best_weights)
    return module.tensors()


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch compute with so many threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def grow(train: SplitData, recipe: RouterRecipe) -> dict[str, Floats]:
    """Grow extremely randomised trees, as padded arrays for `wye.router.scorer.Trees`."""
    forest = ExtraTreesClassifier(
        recipe.trees,
        max_leaf_nodes=recipe.leaves,
        min_samples_leaf=recipe.leaf,
        max_features=recipe.tried,
        random_state=recipe.seeds[0],
    ).fit(train.inputs, train.labels, sample_weight=train.weights)
    grown = [tree.tree_ for tree in forest.estimators_]
    shape = len(grown), max(tree.node_count for tree in grown)
    node_ids = np.broadcast_to(np.arange(shape[1]), shape)
    left, right = node_ids.astype(np.int16), node_ids.astype(np.int16)
    feature, value = np.zeros(shape, np.int16), np.zeros(shape, np.float32)
    threshold = np.zeros(shape, np.float32)
    for row, tree in enumerate(grown):
        splits = np.flatnonzero(tree.children_left >= 0)
        left[row, splits] = tree.children_left[splits]
        right[row, splits] = tree.children_right[splits]
        feature[row, splits] = tree.feature[splits]
        threshold[row, splits] = _floor(tree.threshold[splits])
        shares = tree.value[:, 0, :]
        value[row, : tree.node_count] = shares[:, 1] / shares.sum(axis=1)
    return {
        "feature": feature,
        "threshold": threshold,
        "left": left,
        "right": right,
        "value": value,
    }


def _floor(values: Float64) -> Float32:
    """Round down to float32; a float32 compares with the result as with the original."""
    rounded = values.astype(np.float32)
    below: Float32 = np.where(rounded > values, np.nextafter(rounded, np.float32(-np.inf)), rounded)
    return below


def _fit_linear(train: SplitData, dev: SplitData, recipe: RouterRecipe) -> dict[str, Floats]:
    """Logistic regression with an elastic net, with the strength that is best on dev."""
    fitted, losses = [], []
    for strength in recipe.strengths:
        model = LogisticRegression(
            C=1 / strength,
            l1_ratio=recipe.l1_ratio,
            solver="saga",
            max_iter=_ROUNDS,
            random_state=recipe.seeds[0],
        )
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            try:
                model.fit(train.inputs, train.labels, sample_weight=train.weights)
            except ConvergenceWarning:
                raise FitError(
                    f"Logistic regression of strength {strength:g} does not converge in {_ROUNDS} "
                    "rounds; use higher strengths."
                ) from None
        fitted.append(model)
        losses.append(nll(model.decision_function(dev.inputs), dev.labels))
    best = fitted[int(np.argmin(losses))]
    return {"head.weight": best.coef_, "head.bias": best.intercept_}
