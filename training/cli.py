"""`wye eval`: how good and how fast the routes are on a judged dataset."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from training.errors import EvaluationError, TrainingError
from training.train_cli import CACHE
from training.train_cli import register as register_training
from training.tune_cli import register as register_tuning

if TYPE_CHECKING:
    from backends.progress import Progress
    from router.types import Route

UNANSWERED = 1


def register(app: typer.Typer, progress: Callable[[], "Progress"]) -> type[TrainingError]:
    """Add this folder's commands to the `wye` command.

    Args:
        app: The command.
        progress: Makes what long work is shown with.

    Returns:
        The base of the errors that are the user's to put right.
    """

    @app.command(name="eval")
    def evaluate(
        dataset: Annotated[Path, typer.Argument(help="A folder in BEIR's layout.")],
        *,
        index: Annotated[
            Path | None,
            typer.Option(help="Folder of the index. Default: WYE_INDEX.", show_default=False),
        ] = None,
        routes: Annotated[
            str,
            typer.Option(
                help="Routes to ask, with commas between them: auto, dense, lexical, hybrid, "
                "graph, fusion; and, to compare auto with, random, tfidf-svm, embedding-lr and "
                "oracle."
            ),
        ] = "dense,lexical,graph,fusion,auto",
        split: Annotated[str, typer.Option(help="Which judgements.")] = "test",
        k: Annotated[int, typer.Option("-k", min=1, help="Passages to ask for; 10 or more.")] = 10,
        limit: Annotated[
            int | None, typer.Option(min=1, help="Ask only the first so many questions.")
        ] = None,
        batch: Annotated[int, typer.Option(min=1, help="Questions asked together.")] = 32,
        seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
        run_dir: Annotated[
            Path | None,
            typer.Option(
                help="Write <route>.trec, metrics.json and latency.json here.", show_default=False
            ),
        ] = None,
        json: Annotated[
            Path | None, typer.Option(help="Write all numbers here.", show_default=False)
        ] = None,
        cache: Annotated[
            Path, typer.Option(help="Replays and features that baselines learn from.")
        ] = CACHE,
    ) -> None:
        """Ask every judged question over every route, and score the answers.

        Prints means with 95 % bootstrap intervals, paired differences, and latency. The exit code
        is 0 only when every question was answered.
        """
        from router.session import Session
        from router.settings import load_settings
        from training.data.dataset import read_dataset
        from training.data.sources import Source
        from training.evaluation.evaluate import as_markdown, latency, metrics, write_runs
        from training.evaluation.evaluate import evaluate as evaluate_routes
        from training.evaluation.measures import write_json
        from training.evaluation.systems import choose_routes
        from training.markdown import show
        from training.pipeline import Choices
        from training.run import Run

        asked, names = parse_routes(routes)
        questions = read_dataset(dataset, split, limit)
        settings = load_settings(index=index)
        if settings.index is None:
            raise EvaluationError("Which index? Give --index DIR, or set WYE_INDEX.")
        source = Source(dataset, settings.index)
        container = Session.open(settings, settings.index)
        try:
            systems = {}
            if names:
                policy = container.router.policy
                choices = Choices(simple=policy.simple, fusion=settings.fusion)
                run = Run(settings, [source], choices, cache, progress)
                systems = choose_routes(
                    names,
                    container.gateway,
                    policy,
                    questions,
                    lambda: run.baselines(split, policy),
                    batch=batch,
                    seed=seed,
                )
            found = evaluate_routes(
                container.gateway,
                questions,
                asked,
                systems=systems,
                k=k,
                batch=batch,
                seed=seed,
                progress=progress(),
            )
        finally:
            container.close()
        show(as_markdown(found))
        if run_dir is not None:
            write_runs(run_dir, found)
        if json is not None:
            write_json(json, {**metrics(found), "latency": latency(found)})
        if found.unanswered:
            ids = ", ".join(found.unanswered)
            typer.echo(f"{len(found.unanswered)} questions went unanswered: {ids}", err=True)
            raise typer.Exit(UNANSWERED)

    register_training(app, progress)
    register_tuning(app, progress)
    return TrainingError


def parse_routes(text: str) -> "tuple[list[Route], list[str]]":
    """Routes, and other systems, by name, each once, in the order given.

    Raises:
        EvaluationError: A name is neither, or there is none.
    """
    from router.types import Route
    from training.evaluation.systems import CHOSEN

    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    known = [*map(str, Route), *CHOSEN]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        said = f"There is no route '{unknown[0]}'" if unknown else "No route was named"
        raise EvaluationError(f"{said}; choose among {', '.join(known)}.")
    return (
        [Route(name) for name in names if name not in CHOSEN],
        [name for name in names if name in CHOSEN],
    )
