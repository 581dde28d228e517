"""The commands `wye eval` and `wye train`."""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from wye.training.errors import EvaluationError, FitError, TrainingError

if TYPE_CHECKING:
    from wye.backends.types import Progress
    from wye.router.remote import OpenArms
    from wye.router.settings import Settings
    from wye.router.types import Route
    from wye.training.data import QuestionSource
    from wye.training.fit.router import Choices
    from wye.training.remote import RemoteAnswers
    from wye.training.report import Report

UNANSWERED = NOT_BETTER = 1
LATENCY_WEIGHT = 0.0001
CACHE = Path(".cache/wye")


def option(text: str, *names: str, **more: Any) -> Any:  # noqa: ANN401 - as typer.Option
    """An option with this help."""
    return typer.Option(*names, help=text, **more)


def unset(text: str, **more: Any) -> Any:  # noqa: ANN401 - as typer.Option
    """An option with this help, whose default is not shown."""
    return option(text, show_default=False, **more)


CacheFolder = Annotated[Path, option("Folder of replays, features and replies, for later runs.")]
IndexFolder = Annotated[Path | None, unset("Folder of the index. Default: WYE_INDEX.")]
_GENERATOR = "Base URL of an OpenAI-compatible API that writes; key in WYE_GENERATOR__KEY."
GeneratorUrl = Annotated[str, option(_GENERATOR, envvar="WYE_GENERATOR__URL")]
GeneratorModel = Annotated[str, option("Its model.", envvar="WYE_GENERATOR__MODEL")]
_PRESET = (
    "A published system: ea-graphrag, linearrag, clue-rag or zoom-rag. `wye train` with "
    "ea-graphrag takes the paper's recipe for the label, the features, --simple, --elsewhere and "
    "--latency-weight."
)
Preset = Annotated[str | None, unset(_PRESET)]


def register(
    app: typer.Typer, progress: Callable[[], "Progress"], open_arms: "OpenArms"
) -> type[TrainingError]:
    """Add this folder's commands to `wye`; returns the base of errors that the user can fix."""
    _add_eval(app, progress)
    _add_train(app, progress, open_arms)
    return TrainingError


def _add_eval(app: typer.Typer, progress: Callable[[], "Progress"]) -> None:
    @app.command(name="eval", epilog="Example: wye eval DATASET --index my-index")
    def evaluate(
        dataset: Annotated[
            Path,
            typer.Argument(
                metavar="DATASET", help="A folder in BEIR's layout; with --advise, any questions."
            ),
        ],
        *,
        index: IndexFolder = None,
        routes: Annotated[
            str,
            option(
                "Routes to compare, separated by commas: auto (what --preset takes, if there is "
                "one), dense, lexical, hybrid, graph, fusion, steps."
            ),
        ] = "dense,lexical,graph,fusion,auto",
        split: Annotated[str, option("Split of the judged questions.")] = "test",
        batch: Annotated[int, option("Number of questions asked together.", min=1)] = 32,
        as_json: Annotated[bool, option("Print all numbers as JSON instead.", "--json")] = False,
        advice: Annotated[
            bool,
            option(
                "DATASET has questions without judgements, one in each line or as JSON lines: "
                "say how often the routes differ, what they cost, and whether hybrid is enough.",
                "--advise",
            ),
        ] = False,
        preset: Preset = None,
    ) -> None:
        """Ask every judged question by each route, and score the results.

        Prints means with 95 % bootstrap intervals, paired differences, and latency. The exit code
        is 0 only if every question was answered.
        """
        from wye.backends.files import rounded_json
        from wye.router.session import Session
        from wye.router.settings import load_settings
        from wye.training.data import lacking, read_dataset, read_unjudged
        from wye.training.evaluate import advise, as_markdown, latency, metrics
        from wye.training.evaluate import evaluate as evaluate_routes
        from wye.training.markdown import show

        compared = parse_routes(routes)
        settings = load_settings(index=index, preset=preset)
        if settings.index is None:
            raise EvaluationError("Which index? Give --index DIR, or set WYE_INDEX.")
        if advice:
            unjudged = read_unjudged(dataset)
            with Session.open(settings, settings.index) as session:
                show(advise(session.gateway, unjudged, progress()))
            return
        questions = read_dataset(dataset, split)
        if warning := lacking(questions, settings.index):
            typer.echo(f"Warning: {warning}", err=True)
        with Session.open(settings, settings.index) as session:
            result = evaluate_routes(
                session.gateway, questions, compared, batch=batch, progress=progress()
            )
        if as_json:
            typer.echo(rounded_json({**metrics(result), "latency": latency(result)}))
        else:
            show(as_markdown(result))
        if unanswered := sorted({*result.unanswered_by(*result.runs)}):
            ids = ", ".join(unanswered)
            typer.echo(f"{len(unanswered)} questions went unanswered: {ids}", err=True)
            raise typer.Exit(UNANSWERED)


def parse_routes(text: str) -> "list[Route]":
    """Parse route names between commas, each counted once; an `EvaluationError` for none."""
    from wye.router.types import Route, route_named

    names = dict.fromkeys(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise EvaluationError(f"No route was named; use one of {', '.join(Route)}.")
    return [route_named(name) for name in names]


def _add_train(app: typer.Typer, progress: Callable[[], "Progress"], open_arms: "OpenArms") -> None:
    @app.command(epilog="Example: wye train --questions my-questions --index my-index --name mine")
    def train(
        *,
        questions: Annotated[
            list[str] | None,
            unset(
                "Dataset in BEIR's layout with train and dev judgements, and test ones to "
                "evaluate the router; DATASET=INDEX gives it an index of its own. May be repeated."
            ),
        ] = None,
        index: IndexFolder = None,
        name: Annotated[str, option("Name of the router.")] = "router",
        models: Annotated[Path, option("Folder that routers are written to.")] = Path("models"),
        write_questions: Annotated[
            int | None,
            unset(
                "Instead of training, have a language model write N questions about passages "
                "of the index into the folder of --questions. An interrupted run resumes.",
                min=1,
            ),
        ] = None,
        generator_url: GeneratorUrl = "",
        generator_model: GeneratorModel = "",
        preset: Preset = None,
        simple: Annotated[
            Literal["dense", "lexical", "hybrid"] | None,
            unset("Simple route: dense, lexical or hybrid. Default: the best."),
        ] = None,
        elsewhere: Annotated[
            bool, option("Whether the thresholds must also hold for questions unlike these.")
        ] = True,
        latency_weight: Annotated[
            float, option("Quality given up for a millisecond less on average.", min=0)
        ] = LATENCY_WEIGHT,
        arms: Annotated[
            Path | None,
            unset(
                "File that declares remote arms, of which the first collection's are asked "
                "every question, beside the index; their replies are kept in the cache."
            ),
        ] = None,
        yes: Annotated[
            bool, option("Agree to the calls of remote arms, which are printed first.", "--yes")
        ] = False,
        relevance: Annotated[
            bool,
            option(
                "Instead of a router, fit how likely passages are relevant and answers exist.",
                "--relevance",
            ),
        ] = False,
        cache: CacheFolder = CACHE,
    ) -> None:
        """Train a router on judged questions, and write it with its card.

        The summary begins with a verdict. The exit code is 1 if the router is no better on the
        test split than always taking fusion; it is written all the same.
        """
        from wye.router.evidence import PARSELESS_SIGNALS
        from wye.router.model_files import require_name
        from wye.router.presets import EA_GRAPHRAG
        from wye.router.settings import load_settings
        from wye.router.types import Route
        from wye.training.data import parse_source
        from wye.training.fit.router import UNFAMILIAR, Choices, published
        from wye.training.fit.scorers import RouterRecipe
        from wye.training.markdown import show
        from wye.training.relevance import fit_for_user
        from wye.training.remote import RemoteAnswers
        from wye.training.run import TrainingRun
        from wye.training.thresholds import ThresholdObjective

        require_name(name)  # before anything takes time
        settings = load_settings(index=index, preset=preset)
        if not questions:
            raise FitError("Learn from what? Give --questions.")
        if write_questions is not None:
            model = generator_url, generator_model
            _write_questions(settings, questions, model, write_questions, progress())
            return
        sources = [parse_source(text, settings.index) for text in questions]
        if relevance:
            folder = models / f"relevance-{name}"
            show(fit_for_user(settings, sources, folder))
            typer.echo(f"Wrote {folder}. Use it with WYE_RELEVANCE__MODEL={folder}")
            return
        choices = Choices(
            recipe=RouterRecipe(among=PARSELESS_SIGNALS, unfamiliar=UNFAMILIAR),
            simple=Route(simple) if simple else None,
            goal=ThresholdObjective(latency_weight),
            elsewhere=elsewhere,
        )
        if settings.preset == EA_GRAPHRAG:
            choices = published(choices)
        with ExitStack() as stack:
            remote = None
            if arms is not None:
                asker = stack.enter_context(open_arms(arms))
                remote = RemoteAnswers(asker, cache / "remote" / "answers.jsonl", settings.fusion)
                choices = _ask_arms(remote, sources, choices, progress(), yes=yes)
            run = TrainingRun(settings, sources, choices, cache, progress, remote)
            fitted = run.learn(lambda text: typer.echo(text, err=True))
            for warning in fitted.disagreement.warnings:
                typer.echo(f"Warning: {warning}", err=True)
            _print_verdict(*run.write(fitted, run.evaluate(fitted), models, name))


def _write_questions(
    settings: "Settings",
    folders: list[str],
    endpoint: tuple[str, str],
    count: int,
    progress: "Progress",
) -> None:
    from wye.router.session import Session
    from wye.training.questions import ChatClient, QuestionWriter

    if settings.index is None or len(folders) != 1:
        raise TrainingError("Name one index with --index, and one folder with --questions.")
    model = ChatClient(*endpoint, os.environ.get("WYE_GENERATOR__KEY", ""))
    with Session.open(settings, settings.index) as session, model:
        writer = QuestionWriter(Path(folders[0]), session.snapshot, model)
        writer.write(count, progress)
    typer.echo(str(writer))


def _ask_arms(
    remote: "RemoteAnswers",
    sources: "Sequence[QuestionSource]",
    choices: "Choices",
    progress: "Progress",
    *,
    yes: bool,
) -> "Choices":
    """Ask remote arms what is missing in the cache, once the user agreed, by `yes` or when asked.

    Returns the choices with a latency weight that fits these calls, unless the user gave one.
    """
    from wye.training.remote import MS_PER_PRICE

    splits = ("train", "dev", "test")
    datasets = (source.read(split) for source in sources for split in splits if source.has(split))
    if missing := remote.missing(datasets):
        typer.echo(remote.announcement(missing), err=True)
        if not yes and not sys.stdin.isatty():
            raise TrainingError("There is no terminal to confirm at; agree with --yes.")
        if not yes and not typer.confirm("Go on?", err=True):
            raise TrainingError("Nothing was asked.")
    remote.collect(missing, progress)
    if failures := remote.failures():
        typer.echo(failures, err=True)
    goal, usual = choices.goal, ""
    if goal.latency_weight == LATENCY_WEIGHT:
        goal = replace(goal, latency_weight=remote.usual_weight)
        usual = ", so that asking for every question is worth .01"
    typer.echo(
        f"A price of {remote.price:g} counts as {remote.price * MS_PER_PRICE:g} ms; a millisecond "
        f"is worth {goal.latency_weight:.2g} of nDCG@10{usual} (--latency-weight).",
        err=True,
    )
    return replace(choices, goal=goal)


def _print_verdict(folder: Path, report: "Report") -> None:
    """Print the verdict on a router, and its folder; ends with `NOT_BETTER` if it is not better."""
    from wye.training.markdown import show
    from wye.training.report import judged, verdict

    better = True
    if report.evaluation is None:
        typer.echo("No dataset has a test split, so the router was not evaluated.", err=True)
    else:
        better, says = verdict(report.fitted, report.evaluation)
        typer.echo(says)
        show(judged(report.evaluation))
    if not better:
        typer.echo(f"Wrote {folder}, which is not better; its card compares all candidates.")
        raise typer.Exit(NOT_BETTER)
    typer.echo(f"Wrote {folder}. Use it with WYE_ROUTER__MODEL={folder}")
