"""Trains Stanza's constituency parser, without the Java program that its own training calls.

The parser builds a tree by a sequence of actions. Stanza makes the batches and its "dynamic oracle"
says which action is best after a mistake. Our own loop replaces Stanza's, which lowers the learning
rate when a score that Java computes stops rising: here the rate rises over the first steps, then
falls linearly, and a running mean of the weights is what is written.
"""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from stanza.models import constituency_parser
from stanza.models.common.foundation_cache import FoundationCache
from stanza.models.common.utils import set_random_seed
from stanza.models.constituency import parser_training
from stanza.models.constituency.in_order_oracle import InOrderOracle
from stanza.models.constituency.parse_tree import Tree as StanzaTree

from wye.featurizer.constituency.tree import Tree
from wye.training.constituency.model_files import Recipe

Trainer = Any  # Stanza has no types


def fit(
    recipe: Recipe,
    train: Sequence[Tree],
    dev: Sequence[Tree],
    *,
    pretrain: Path,
    out: Path,
    report: Callable[[str], None],
) -> None:
    """Train, and write the mean weights.

    Args:
        train: Trees with a tagger's parts of speech, since the parser gets those when it serves.
        dev: Likewise; Stanza takes the parser's labels and actions from both.
        pretrain: Word vectors in Stanza's format.
        out: The file to write, in Stanza's format.
        report: Called with a line for each epoch.
    """
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
    left_over: list[Any] = []
    for epoch in range(1, recipe.epochs + 1):
        left_over, items = parser_training.next_epoch_data(left_over, data, recipe.epoch_trees)
        # Batches of equal length waste no steps on finished trees.
        items.sort(key=lambda item: len(item.gold_sequence))
        loss = _epoch(trainer, epoch, items, args=args, scheduler=scheduler, mean=mean)
        report(f"epoch {epoch:2}  loss {loss:9.1f}")
    trainer.model.load_state_dict(mean.module.state_dict())
    trainer.best_epoch = trainer.epochs_trained = recipe.epochs
    trainer.save(str(out), save_optimizer=False)


def _epoch(
    trainer: Trainer,
    epoch: int,
    items: Sequence[Any],
    *,
    args: dict[str, Any],
    scheduler: torch.optim.lr_scheduler.LambdaLR,
    mean: torch.optim.swa_utils.AveragedModel,
) -> float:
    """Take a step for each batch; returns the mean loss of a tree."""
    trainer.train()
    tensors = {t: torch.tensor([i]) for i, t in enumerate(trainer.transitions)}
    loss_function = torch.nn.CrossEntropyLoss(reduction="sum")
    oracle = InOrderOracle(trainer.root_labels, None, None, None)
    starts = list(range(0, len(items), args["train_batch_size"]))
    random.shuffle(starts)
    total = 0.0
    for number, start in enumerate(starts):
        batch = items[start : start + args["train_batch_size"]]
        stats = parser_training.train_model_one_batch(
            epoch, number, trainer.model, batch, tensors, lambda x: x, loss_function, oracle, args
        )
        # A batch whose loss overflowed is skipped, as Stanza does.
        if stats.nans == 0:
            trainer.optimizer.step()
        trainer.optimizer.zero_grad()
        scheduler.step()
        mean.update_parameters(trainer.model)
        total += stats.epoch_loss
    return total / len(items)


def to_stanza(tree: Tree) -> StanzaTree:
    """Convert a tree to Stanza's type."""
    if tree.is_leaf:
        return StanzaTree(tree.label)
    return StanzaTree(tree.label, [to_stanza(child) for child in tree.children])
