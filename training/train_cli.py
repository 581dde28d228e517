"""The command `wye train`, and the options that other commands have too."""

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wye.training.errors import FitError, TrainingError

if TYPE_CHECKING:
    from wye.backends.types import Progress
    from wye.router.remote import OpenArms
    from wye.router.settings import Settings
    from wye.training.data import QuestionSource
    from wye.training.fit.router import Choices
    from wye.training.remote import RemoteAnswers
    from wye.training.report import Report

NOT_BETTER = 1
CACHE = Path(".cache/wye")
LATENCY_WEIGHT, MS_PER_PRICE = 0.0001, 100_000.0


def option(text: str, *names: str, **more: Any) -> Any:  # noqa: ANN401 - as typer.Option
    """An option with this help."""
    return typer.Option(*names, help=text, **more)


def unset(text: str, **more: Any) -> Any:  # noqa: ANN401 - as typer.Option
    """An option with this help, whose default is not shown."""
    return option(text, show_default=False, **more)


Cache = Annotated[Path, option("Folder of replays, features and replies, for later runs.")]
Index = Annotated[Path | None, unset("Folder of the index. Default: WYE_INDEX.")]
_GENERATOR = "Base URL of an OpenAI-compatible API that writes; key in WYE_GENERATOR__KEY."
GeneratorUrl = Annotated[str, option(_GENERATOR, envvar="WYE_GENERATOR__URL")]
GeneratorModel = Annotated[str, option("Its model.", envvar="WYE_GENERATOR__MODEL")]
Quality = Annotated[str, option("Measure that thresholds are solved for.")]
Preset = Annotated[
    str | None,
    unset(
        "A published system: ea-graphrag, linearrag, clue-rag or zoom-rag. `wye train` with "
        "ea-graphrag takes the paper's recipe for --success, --features, --simple, --elsewhere "
        "and --latency-weight."
    ),
]
Elsewhere = Annotated[
    bool, option("Whether the thresholds must also hold for questions unlike these.")
]
Weight = Annotated[
    float,
    option(
        "Quality given up for a millisecond less on average, at the point `balanced`; 0 at "
        "`quality`, ten times as much at `fast`.",
        min=0,
    ),
]
Latency = Annotated[float | None, unset("Highest mean latency, in milliseconds.")]
Share = Annotated[
    float | None, unset("Highest share of questions for which the graph runs.", min=0, max=1)
]


def add_train(app: typer.Typer, progress: Callable[[], "Progress"], open_arms: "OpenArms") -> None:
    """Add `wye train`."""

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
        index: Index = None,
        name: Annotated[str, option("Name of the router.")] = "router",
        models: Annotated[Path, option("Folder that routers are written to.")] = Path("models"),
        success: Annotated[
            str,
            option(
                "What is learned: graph-helps, whether the better of fusion and steps ranks "
                "higher than the simple route and completes the evidence; or all-gold@5, which of "
                "the simple route and the graph alone has all evidence among the first five."
            ),
        ] = "graph-helps",
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
        quality: Quality = "nDCG@10",
        features: Annotated[
            str,
            option(
                "Features of the scorer: text, of the text arms' hits, which needs no parse; "
                "syntax, the question's structure alone; or all."
            ),
        ] = "text",
        preset: Preset = None,
        simple: Annotated[
            str | None, unset("Simple route: dense, lexical or hybrid. Default: the best.")
        ] = None,
        elsewhere: Elsewhere = True,
        latency_weight: Weight = LATENCY_WEIGHT,
        max_latency_ms: Latency = None,
        max_graph_share: Share = None,
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
        ms_per_price: Annotated[
            float, option("Milliseconds that a unit of price counts as.", min=0)
        ] = MS_PER_PRICE,
        relevance: Annotated[
            bool,
            option(
                "Instead of a router, fit how likely passages are relevant and answers exist.",
                "--relevance",
            ),
        ] = False,
        cache: Cache = CACHE,
        seed: Annotated[int, option("Seed of folds, bootstrap and written questions.")] = 0,
    ) -> None:
        """Train a router on judged questions, and write it with its card.

        The summary begins with a verdict. The exit code is 1 if the router is no better on the
        test split than always taking fusion; it is written all the same.
        """
        from wye.router.model_files import require_name
        from wye.router.presets import EA_GRAPHRAG
        from wye.router.settings import load_settings
        from wye.router.types import route_named
        from wye.training.data import parse_source
        from wye.training.fit.router import UNFAMILIAR, Choices, columns_named, published
        from wye.training.fit.scorers import RouterRecipe
        from wye.training.remote import RemoteAnswers
        from wye.training.run import TrainingRun
        from wye.training.thresholds import ThresholdObjective

        require_name(name)  # before anything takes time
        settings = load_settings(index=index, preset=preset)
        as_published = settings.preset == EA_GRAPHRAG
        if not questions:
            raise FitError("Learn from what? Give --questions.")
        if write_questions is not None:
            endpoint = generator_url, generator_model
            _write_questions(
                settings, questions, endpoint, write_questions, seed=seed, progress=progress()
            )
            return
        sources = [parse_source(text, settings.index) for text in questions]
        if relevance:
            _fit_relevance(settings, sources, models / f"relevance-{name}")
            return
        choices = Choices(
            success=success,
            quality=quality,
            among=columns_named(features),
            recipe=RouterRecipe(unfamiliar=UNFAMILIAR),
            simple=None if simple is None else route_named(simple),
            goal=ThresholdObjective(latency_weight, max_latency_ms, max_graph_share),
            elsewhere=elsewhere,
            seed=seed,
        )
        if as_published:
            choices = published(choices)
        with ExitStack() as stack:
            remote = None
            if arms is not None:
                asker = stack.enter_context(open_arms(arms))
                file = cache / "remote" / "answers.jsonl"
                remote = RemoteAnswers(asker, file, settings.fusion, ms_per_price)
                ask_arms(remote, sources, progress(), yes=yes)
                choices = weighed_for(remote, choices)
            run = TrainingRun(settings, sources, choices, cache, progress, remote=remote)
            fitted = run.learn(lambda text: typer.echo(text, err=True))
            for warning in fitted.disagreement.warnings:
                typer.echo(f"Warning: {warning}", err=True)
            _print_verdict(*run.write(fitted, run.evaluate(fitted), models, name))


def _write_questions(
    settings: "Settings",
    folders: list[str],
    endpoint: tuple[str, str],
    count: int,
    *,
    seed: int,
    progress: "Progress",
) -> None:
    from wye.router.session import Session
    from wye.training.judge import JudgeClient
    from wye.training.questions import ANSWER_TOKENS, QuestionWriter

    if settings.index is None or len(folders) != 1:
        raise TrainingError("Name one index with --index, and one folder with --questions.")
    key = os.environ.get("WYE_GENERATOR__KEY", "")
    model = JudgeClient(*endpoint, key, longest=ANSWER_TOKENS)
    with Session.open(settings, settings.index) as session, model:
        writer = QuestionWriter(Path(folders[0]), session.snapshot, model, seed)
        writer.write(count, progress)
    typer.echo(str(writer))


def _fit_relevance(settings: "Settings", sources: "Sequence[QuestionSource]", folder: Path) -> None:
    from wye.training.markdown import show
    from wye.training.relevance import fit_for_user

    pairs = [f"{source.dataset}={source.index}" for source in sources]
    show(fit_for_user(settings, pairs, folder))
    typer.echo(f"Wrote {folder}. Use it with WYE_RELEVANCE__MODEL={folder}")


def ask_arms(
    remote: "RemoteAnswers", sources: "Sequence[QuestionSource]", progress: "Progress", *, yes: bool
) -> None:
    """Ask remote arms what is missing in the cache, once the user agreed to it.

    Args:
        yes: Agree to the calls without being asked; those of no known price may cost too.

    Raises:
        TrainingError: The user did not agree.
    """
    missing = remote.missing(
        source.read(split)
        for source in sources
        for split in ("train", "dev", "test")
        if source.has(split)
    )
    if missing:
        typer.echo(remote.announcement(missing), err=True)
        if not yes and not sys.stdin.isatty():
            raise TrainingError("There is no terminal to confirm at; agree with --yes.")
        if not yes and not typer.confirm("Go on?", err=True):
            raise TrainingError("Nothing was asked.")
    remote.collect(missing, progress)
    if failures := remote.failures():
        typer.echo(failures, err=True)


def weighed_for(remote: "RemoteAnswers", choices: "Choices") -> "Choices":
    """Choices with a latency weight that fits these arms' calls, unless the user gave one.

    Prints the weight, and what a call's price counts as.
    """
    goal, usual = choices.goal, ""
    if goal.latency_weight == LATENCY_WEIGHT:
        goal = replace(goal, latency_weight=remote.usual_weight)
        usual = ", so that asking for every question is worth .01"
    typer.echo(
        f"A price of {remote.price:g} counts as {remote.price * remote.ms_per_price:g} ms "
        f"(--ms-per-price); a millisecond is worth {goal.latency_weight:.2g} of {choices.quality}"
        f"{usual} (--latency-weight).",
        err=True,
    )
    return replace(choices, goal=goal)


def _print_verdict(folder: Path, report: "Report") -> None:
    """Print the verdict on a router, and its folder; ends with `NOT_BETTER` if it is not better."""
    from wye.training.markdown import show
    from wye.training.report import judged, verdict

    better = True
    if report.evaluation is None or (comparison := verdict(report)) is None:
        typer.echo("No dataset has a test split, so the router was not evaluated.", err=True)
    else:
        better, says = comparison
        typer.echo(says)
        show(judged(report.evaluation))
    if not better:
        typer.echo(f"Wrote {folder}, which is not better; its card compares all candidates.")
        raise typer.Exit(NOT_BETTER)
    typer.echo(f"Wrote {folder}. Use it with WYE_ROUTER__MODEL={folder}")
