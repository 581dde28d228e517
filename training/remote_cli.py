"""Helpers of the commands that ask remote arms."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from training.errors import TrainingError

if TYPE_CHECKING:
    from backends.progress import Progress
    from router.remote_arms import OpenArms
    from router.settings import Settings
    from training.data.remote import Estimate, RemoteAnswers
    from training.data.sources import QuestionSource
    from training.refine import Extent

_SPLITS = ("train", "dev", "test")


@dataclass(frozen=True, slots=True)
class AskingTerms:
    """The options for asking remote arms.

    Attributes:
        ms_per_price: Milliseconds that a unit of price counts as.
        per_second: Most questions in a second; 0 sets no limit.
        yes: Agree to the calls without being asked.
    """

    collection: str
    ms_per_price: float
    per_second: float
    yes: bool


@contextmanager
def remote_answers(  # noqa: PLR0917 - of two commands
    open_arms: "OpenArms",
    path: Path,
    settings: "Settings",
    sources: "Sequence[QuestionSource]",
    terms: AskingTerms,
    cache: Path,
    progress: "Callable[[], Progress]",
    *,
    splits: Sequence[str] = _SPLITS,
) -> "Iterator[RemoteAnswers]":
    """Ask remote arms what is missing in the cache, once the user agreed to it.

    Raises:
        TrainingError: The user did not agree, or only some of the sources have an index.
    """
    from training.data.dataset import read_dataset
    from training.data.remote import KeptAnswers, RemoteAnswers

    has_index = {source.index is not None for source in sources}
    if len(has_index) > 1:
        raise TrainingError("Some datasets have an index and some have none; train one by one.")
    kept = KeptAnswers(answers_file(cache))
    with open_arms(path, collection=terms.collection, has_index=has_index == {True}) as asker:
        found = RemoteAnswers(asker, kept, settings.fusion, terms.ms_per_price, terms.per_second)
        missing = found.missing(
            read_dataset(source.dataset, split)
            for source in sources
            for split in splits
            if source.has(split)
        )
        confirmed(found.estimate(missing), yes=terms.yes)
        found.collect(missing, progress())
        if failed := found.failures():
            typer.echo(failed, err=True)
        yield found


def confirmed(estimate: "Estimate | Extent", *, yes: bool) -> None:
    """Print an estimate, and have the user agree to it; calls without a known price may cost too.

    Raises:
        TrainingError: The user did not agree.
    """
    if not estimate:
        return
    typer.echo(str(estimate), err=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise TrainingError("There is no terminal to confirm at; agree with --yes.")
    if not typer.confirm("Go on?", err=True):
        raise TrainingError("Nothing was asked.")


def answers_file(cache: Path) -> Path:
    """The file that keeps remote arms' answers."""
    return cache / "remote" / "answers.jsonl"


def told_weight(weight: float, remote: "RemoteAnswers", measure: str) -> str:
    """Explain the price of a call in milliseconds, and the quality that a millisecond is worth."""
    others = [arm for arm in remote.asker.arms if not arm.is_simple]
    price = sum(arm.price for arm in others)
    whose = (
        ", so that asking for every question is worth .01" if weight == remote.usual_weight else ""
    )
    return (
        f"A price of {price:g} counts as {price * remote.ms_per_price:g} ms (--ms-per-price); a "
        f"millisecond is worth {weight:.2g} of {measure}{whose} (--latency-weight)."
    )
