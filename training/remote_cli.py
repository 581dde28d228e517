"""Helpers of the commands that ask remote arms."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from wye.training.errors import TrainingError

if TYPE_CHECKING:
    from wye.backends.progress import Progress
    from wye.router.remote import RemoteAsker
    from wye.router.settings import Settings
    from wye.training.data.remote import RemoteAnswers
    from wye.training.data.sources import QuestionSource


def remote_answers(
    arms: "RemoteAsker",
    settings: "Settings",
    sources: "Sequence[QuestionSource]",
    cache: Path,
    progress: "Progress",
    *,
    ms_per_price: float,
    yes: bool,
) -> "RemoteAnswers":
    """Ask remote arms what is missing in the cache, once the user agreed to it.

    Args:
        ms_per_price: Milliseconds that a unit of price counts as.
        yes: Agree to the calls without being asked.

    Raises:
        TrainingError: The user did not agree.
    """
    from wye.training.data.remote import AnswerCache, RemoteAnswers

    saved = AnswerCache(cache / "remote" / "answers.jsonl")
    remote = RemoteAnswers(arms, saved, settings.fusion, ms_per_price)
    missing = remote.missing(
        source.read(split)
        for source in sources
        for split in ("train", "dev", "test")
        if source.has(split)
    )
    confirm(remote.announcement(missing), yes=yes)
    remote.collect(missing, progress)
    if failures := remote.failures():
        typer.echo(failures, err=True)
    return remote


def confirm(announcement: str, *, yes: bool) -> None:
    """Print what calls will cost, and have the user agree; those of no known price may cost too.

    Raises:
        TrainingError: The user did not agree.
    """
    if not announcement:
        return
    typer.echo(announcement, err=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise TrainingError("There is no terminal to confirm at; agree with --yes.")
    if not typer.confirm("Go on?", err=True):
        raise TrainingError("Nothing was asked.")
