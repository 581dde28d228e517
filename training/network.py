"""The attention-MLP as a torch module; `router.network` says what it computes, and serves it."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from router.layers import Floats


class AttentionMlpModule(nn.Module):
    """Trains what `router.network.AttentionMlp` runs; tensors have the same names in both."""

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
