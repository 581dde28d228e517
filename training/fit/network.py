"""The attention-MLP as a torch module; `router.scorer` says what it computes, and serves it."""

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from backends.types import Float64, Int64
from router.scorer import Floats
from training.errors import FitError
from training.fit.calibration import nll
from training.fit.recipe import RouterRecipe


class AttentionMlpModule(nn.Module):
    """Trains what `router.scorer.AttentionMlp` runs; tensors have the same names in both."""

    def __init__(self, inputs: int, hidden: Sequence[int], dropout: float) -> None:
        """Make layers with torch's default initialisation.

        Args:
            inputs: How many features.
            hidden: Widths of the hidden layers; at least one.
            dropout: Share of hidden units dropped in training, after each hidden layer.
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
            made = nn.functional.silu(layer(hidden))
            made = made + hidden if made.shape == hidden.shape else made
            hidden = self.dropout(made)
        attended = hidden * torch.sigmoid(self.output(hidden))
        logits: Tensor = self.head(attended)[:, 0]
        return logits

    def tensors(self) -> dict[str, Floats]:
        """Copies of all weights, by the names that the router reads."""
        return {
            name: np.array(tensor.detach().numpy()) for name, tensor in self.state_dict().items()
        }


@dataclass(frozen=True, slots=True)
class SplitData:
    """Questions of a split, as a network sees them.

    Attributes:
        inputs: (n, d) z-scores.
        labels: (n,) 0 or 1.
        weights: (n,) of the questions in the loss; of no effect on dev.
    """

    inputs: Float64
    labels: Int64
    weights: Float64


def dev_loss(logits: Float64, labels: Int64, recipe: RouterRecipe) -> float:
    """What the recipe's criterion makes of dev; the lower the better."""
    if recipe.criterion == "nll":
        return nll(logits, labels)
    return -float(roc_auc_score(labels, logits))


def fit_network(
    train: SplitData,
    dev: SplitData,
    recipe: RouterRecipe,
    seed: int,
    advance: Callable[[int], None],
) -> dict[str, Floats]:
    """Train one network and keep its best epoch; its weights by name.

    The same seed gives the same bits on the same machine with the same number of threads. torch's
    own generator is left as it was.

    Args:
        dev: To choose the epoch on; both labels must be there.
        seed: Of initial weights, order and dropout.
        advance: Told of epochs done; in the end it was told of all of the recipe's.

    Raises:
        FitError: The loss is no number any more.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        run = _Run(train, dev, recipe)
        for epoch in range(recipe.epochs):
            run.epoch(epoch)
            advance(1)
            if epoch - run.best_epoch >= recipe.patience:
                advance(recipe.epochs - epoch - 1)
                break
    run.module.load_state_dict(run.kept)
    return run.module.tensors()


class _Run:
    """A network on its way."""

    def __init__(self, train: SplitData, dev: SplitData, recipe: RouterRecipe) -> None:
        self.recipe = recipe
        self.dev = dev
        self.inputs = torch.tensor(train.inputs, dtype=torch.float32)
        smooth = recipe.smoothing / 2 + train.labels * (1 - recipe.smoothing)
        self.targets = torch.tensor(smooth, dtype=torch.float32)
        self.weights = torch.tensor(train.weights, dtype=torch.float32)
        self.dev_inputs = torch.tensor(dev.inputs, dtype=torch.float32)
        self.module = AttentionMlpModule(train.inputs.shape[1], recipe.hidden, recipe.dropout)
        self.optimizer = torch.optim.AdamW(
            self.module.parameters(), recipe.learning_rate, weight_decay=recipe.weight_decay
        )
        steps = recipe.epochs * math.ceil(len(train.labels) / recipe.batch)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, steps)
        self.best_epoch = 0
        self.least = math.inf
        self.kept: dict[str, Tensor] = {}

    def epoch(self, number: int) -> None:
        """One pass over the questions, then a look at dev."""
        self.module.train()
        order = torch.randperm(len(self.targets))
        parts = [(self._step(rows), len(rows)) for rows in torch.split(order, self.recipe.batch)]
        loss = sum(loss * size for loss, size in parts) / len(order)
        self.module.eval()
        with torch.no_grad():
            logits = np.asarray(self.module(self.dev_inputs).numpy(), np.float64)
        if not (math.isfinite(loss) and np.isfinite(logits).all()):
            raise FitError(
                f"After epoch {number + 1} the loss is {loss} or a logit is no "
                "number; lower the learning rate."
            )
        found = dev_loss(logits, self.dev.labels, self.recipe)
        if found < self.least:
            self.least, self.best_epoch = found, number
            self.kept = deepcopy(self.module.state_dict())

    def _step(self, rows: Tensor) -> float:
        self.optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(
            self.module(self.inputs[rows]), self.targets[rows], self.weights[rows]
        )
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.module.parameters(), self.recipe.clip_norm)
        self.optimizer.step()
        self.schedule.step()
        return float(loss.detach())
