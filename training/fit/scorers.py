"""Fits the members of a scorer: attention-MLPs, taught by extremely randomised trees."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.model_selection import PredefinedSplit, cross_val_predict
from torch import Tensor, nn

from wye.backends.types import Float64, Int64
from wye.router.scorer import Floats
from wye.training.errors import FitError


@dataclass(frozen=True, slots=True)
class RouterRecipe:
    """Hyper-parameters of a router, which its manifest records; EA-GraphRAG's where it states them.

    Attributes:
        seeds: One network is trained for each, and their logits are averaged.
        hidden: Widths of the network's hidden layers. A residual connection needs equal widths; EA-
            GraphRAG's 256, 128 and 64 have none.
        pieces: Pieces of the encoding of each feature; 0 for z-scores themselves, as published.
        taught: Share of the trees' scores in what a network learns; 0 for labels alone. The trees
            that score a question did not learn from it.
        unfamiliar: Share of the questions that count as unlike all others; with 0, none does.
    """

    among: tuple[str, ...] | None = None  # names of the features that may be kept; None for all
    features: int = 85  # most features to keep, by mutual information
    clip: float = 5.0  # largest absolute z-score; larger ones are clipped
    seeds: tuple[int, ...] = (0, 1, 2)
    hidden: tuple[int, ...] = (64, 64)
    pieces: int = 8
    dropout: float = 0.3
    smoothing: float = 0.1  # labels y become (1 - smoothing) y + smoothing / 2
    taught: float = 0.5
    learning_rate: float = 2e-3  # AdamW's first learning rate; it falls to 0 along a cosine
    weight_decay: float = 1e-3
    clip_norm: float = 1.0  # largest norm of a gradient; larger ones are scaled down
    batch: int = 128
    epochs: int = 30
    trees: int = 100
    leaves: int = 128
    leaf: int = 5
    tried: float = 0.6  # share of the features that each split of a tree chooses among
    unfamiliar: float = 0.0


@dataclass(frozen=True, slots=True)
class LearningData:
    """What a member learns from."""

    inputs: Float64  # (n, d) z-scores
    targets: Float64  # (n,) from 0 to 1
    weights: Float64  # (n,) weights in the loss, 1 on average


class AttentionMlpModule(nn.Module):
    """The trainable form of `router.scorer.AttentionMlp`; tensors have the same names in both."""

    def __init__(
        self, inputs: int, hidden: Sequence[int], dropout: float, pieces: tuple[Tensor, Tensor]
    ) -> None:
        """Make layers with torch's default initialisation.

        Args:
            hidden: Widths of the hidden layers, at least one.
            dropout: Share of units that training drops after each hidden layer.
            pieces: Lower ends and 1 / widths of the features' pieces, (inputs, t); with t = 0,
                features are not encoded.
        """
        super().__init__()
        self.low, self.scale = pieces
        widths = [inputs * max(1, self.low.shape[1]), *hidden]
        self.features = nn.Linear(inputs, inputs)
        self.hidden = nn.ModuleList(nn.Linear(before, after) for before, after in pairwise(widths))
        self.output = nn.Linear(widths[-1], widths[-1])
        self.head = nn.Linear(widths[-1], 1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(n, inputs) z-scores to (n,) logits."""
        encoded = x[:, :, None]
        if self.low.shape[1]:
            encoded = ((encoded - self.low) * self.scale).clamp(0, 1)
        hidden = (encoded * torch.sigmoid(self.features(x))[:, :, None]).flatten(1)
        for layer in self.hidden:
            activations = nn.functional.silu(layer(hidden))
            activations = activations + hidden if activations.shape == hidden.shape else activations
            hidden = self.dropout(activations)
        attended = hidden * torch.sigmoid(self.output(hidden))
        logits: Tensor = self.head(attended)[:, 0]
        return logits

    def tensors(self) -> dict[str, Floats]:
        """Copies of all weights, by name."""
        weights = {
            name: np.array(each.detach().numpy()) for name, each in self.state_dict().items()
        }
        if self.low.shape[1]:
            weights |= {"pieces.low": self.low.numpy(), "pieces.scale": self.scale.numpy()}
        return weights


def pieces_of(inputs: Float64, count: int) -> tuple[Float64, Float64]:
    """Lower ends and 1 / widths of pieces between quantiles, (d, count) each.

    A feature with equal quantiles has fewer pieces; the rest have 1 / width 0 and are always 0.

    Source: Gorishniy, Rubachev and Babenko (NeurIPS 2022), section 3.2.1.
    """
    low, scale = np.zeros((2, inputs.shape[1], count))
    for row, column in enumerate(inputs.T):
        ends = np.unique(np.round(np.quantile(column, np.linspace(0, 1, count + 1)), 9))
        widths = np.diff(ends)
        low[row, : len(widths)], scale[row, : len(widths)] = ends[:-1], 1 / widths
    return low, scale


def fit_network(data: LearningData, recipe: RouterRecipe, seed: int) -> dict[str, Floats]:
    """Train one network, and return its weights by name.

    The same seed gives the same bits on the same machine. torch's global generator is left
    unchanged.

    Raises:
        FitError: The loss is not finite.
    """
    smooth = recipe.smoothing / 2 + data.targets * (1 - recipe.smoothing)
    inputs, targets, weights, low, scale = (
        torch.tensor(array, dtype=torch.float32)
        for array in (data.inputs, smooth, data.weights, *pieces_of(data.inputs, recipe.pieces))
    )
    # The matrices are too small to gain from threads, whose number would change the last bits.
    with threads(1), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = AttentionMlpModule(inputs.shape[1], recipe.hidden, recipe.dropout, (low, scale))
        optimizer = torch.optim.AdamW(
            module.parameters(), recipe.learning_rate, weight_decay=recipe.weight_decay
        )
        steps = recipe.epochs * math.ceil(len(targets) / recipe.batch)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        for _ in range(recipe.epochs):
            for rows in torch.split(torch.randperm(len(targets)), recipe.batch):
                optimizer.zero_grad()
                loss = nn.functional.binary_cross_entropy_with_logits(
                    module(inputs[rows]), targets[rows], weights[rows]
                )
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(module.parameters(), recipe.clip_norm)
                optimizer.step()
                schedule.step()
            if not math.isfinite(float(loss.detach())):
                raise FitError(f"The loss is {float(loss.detach())}; lower the learning rate.")
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


def _forest(recipe: RouterRecipe) -> ExtraTreesRegressor:
    """Extremely randomised trees: Geurts, Ernst and Wehenkel (Machine Learning 2006)."""
    return ExtraTreesRegressor(
        recipe.trees,
        max_leaf_nodes=recipe.leaves,
        min_samples_leaf=recipe.leaf,
        max_features=recipe.tried,
        random_state=recipe.seeds[0],
    )


def tree_scores(data: LearningData, inputs: Float64, recipe: RouterRecipe) -> Float64:
    """(m,) scores of inputs (m, d) by trees."""
    forest = _forest(recipe).fit(data.inputs, data.targets, sample_weight=data.weights)
    scores: Float64 = forest.predict(inputs)
    return scores


def taught(data: LearningData, fold: Int64, recipe: RouterRecipe) -> LearningData:
    """The data with targets that trees share in, each scored by trees that it did not teach.

    Source: Hinton, Vinyals and Dean (2015), distillation.

    Args:
        fold: (n,) each question's fold.
    """
    weights, folds = {"sample_weight": data.weights}, PredefinedSplit(fold)
    scores = cross_val_predict(_forest(recipe), data.inputs, data.targets, cv=folds, params=weights)
    return replace(data, targets=(1 - recipe.taught) * data.targets + recipe.taught * scores)
