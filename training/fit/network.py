"""The attention-MLP as a torch module; `wye.router.scorer` documents and serves it."""

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from wye.backends.types import Float64, Int64
from wye.router.scorer import Floats
from wye.training.errors import FitError
from wye.training.fit.calibration import nll
from wye.training.fit.recipe import RouterRecipe


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


def fit_network(
    train: SplitData,
    dev: SplitData,
    recipe: RouterRecipe,
    seed: int,
    advance: Callable[[int], None],
) -> dict[str, Floats]:
    """Train one network, and return the weights of its best epoch by name.

    The same seed gives the same bits on the same machine with the same number of threads. torch's
    global generator is left unchanged.

    Args:
        dev: Chooses the epoch; must have both labels.
        advance: Called with numbers of finished epochs, which add up to the recipe's.

    Raises:
        FitError: The loss is not finite.
    """
    inputs, dev_inputs = (torch.tensor(data.inputs, dtype=torch.float32) for data in (train, dev))
    smooth = recipe.smoothing / 2 + train.labels * (1 - recipe.smoothing)
    targets, weights = (torch.tensor(row, dtype=torch.float32) for row in (smooth, train.weights))
    with torch.random.fork_rng(devices=[]):
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
            advance(1)
            if epoch - best >= recipe.patience:
                advance(recipe.epochs - epoch - 1)
                break
    module.load_state_dict(best_weights)
    return module.tensors()
