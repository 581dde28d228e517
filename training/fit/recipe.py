"""The hyper-parameters of a router, which its manifest records."""

from dataclasses import dataclass

from wye.router.scorer import AttentionMlp


@dataclass(frozen=True, slots=True)
class RouterRecipe:
    """Hyper-parameters of a router; EA-GraphRAG's where it states them.

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
