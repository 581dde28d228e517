"""What decides a trained router beside its data; the manifest has all of it."""

from dataclasses import dataclass

from router.scorer import KINDS, AttentionMlp, Linear, Trees
from training.errors import FitError

BALANCES = ("none", "label", "group")
CRITERIA = ("nll", "auc")


@dataclass(frozen=True, slots=True)
class RouterRecipe:
    """Hyper-parameters of a router; EA-GraphRAG's where it states them.

    Attributes:
        kind: "attention-mlp", "linear" or "extra-trees".
        among: Names of the features that may be kept; None for all.
        features: Most features to keep, by mutual information.
        clip: z-scores beyond it are pulled back to it.
        balance: "label" weighs both labels the same, "group" does so within each dataset.
        seeds: One network for each; their logits are averaged. Logistic regression needs none.
        hidden: Widths of the network's hidden layers. Residual connections need neighbours of one
            width; EA-GraphRAG's 256, 128 and 64 have none.
        dropout: Share of hidden units dropped in training.
        smoothing: Labels become smoothing / 2 and 1 - smoothing / 2.
        learning_rate: AdamW's, falling to 0 along a cosine.
        weight_decay: AdamW's.
        clip_norm: Longer gradients are shortened to it.
        batch: Questions a step.
        epochs: Most passes over the questions; the cosine is as long.
        patience: Passes without a better dev split after which training ends.
        criterion: What is better on dev: a lower "nll", or a higher "auc".
        strengths: Of logistic regression's penalty, 1 / C; the best on dev is kept.
        l1_ratio: Share of the L1 norm in that penalty; 0.5 is an elastic net.
        trees: How many.
        leaves: Most leaves of a tree.
        leaf: Fewest questions in a leaf.
        tried: Share of the features that a split is drawn from.
        unfamiliar: Share of dev questions that may count as unlike all of training, where this is
            asked for; 0 for none, whatever they are like.
    """

    kind: str = AttentionMlp.kind
    among: tuple[str, ...] | None = None
    features: int = 85
    clip: float = 5.0
    balance: str = "none"
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
    criterion: str = "nll"
    strengths: tuple[float, ...] = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
    l1_ratio: float = 0.5
    trees: int = 100
    leaves: int = 128
    leaf: int = 5
    tried: float = 0.6
    unfamiliar: float = 0.0

    def __post_init__(self) -> None:
        for name, value, known in (
            ("kind", self.kind, tuple(KINDS)),
            ("balance", self.balance, BALANCES),
            ("criterion", self.criterion, CRITERIA),
        ):
            if value not in known:
                raise FitError(f"There is no {name} '{value}'; take {' or '.join(known)}.")
        if not (self.seeds and self.hidden and self.strengths):
            raise FitError("A recipe needs at least one seed, one hidden layer and one strength.")
        if len(set(self.seeds)) < len(self.seeds):
            raise FitError("A seed is there twice; it would train the same network again.")
        if min(*self.hidden, self.batch, self.epochs, self.patience, self.features) < 1:
            raise FitError("Widths, batch, epochs, patience and features are at least 1.")
        if not (0 <= self.dropout < 1 and 0 <= self.smoothing < 1 and self.clip > 0):
            raise FitError("Dropout and smoothing go from 0 to below 1, and clip is above 0.")

    @property
    def planted(self) -> bool:
        """Whether trees are asked for."""
        return self.kind == Trees.kind

    @property
    def linear(self) -> bool:
        """Whether logistic regression is asked for."""
        return self.kind == Linear.kind
