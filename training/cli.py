"""The commands `wye eval` and `wye tune`; `train_cli` has `wye train`."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wye.training.errors import EvaluationError, TrainingError
from wye.training.train_cli import (
    CACHE,
    LATENCY_WEIGHT,
    Cache,
    Elsewhere,
    GeneratorModel,
    GeneratorUrl,
    Index,
    Latency,
    Preset,
    Quality,
    Share,
    Weight,
    add_train,
    option,
    unset,
)

if TYPE_CHECKING:
    from wye.backends.types import Progress
    from wye.router.remote import OpenArms
    from wye.router.types import Route

UNANSWERED = 1
THRESHOLDS = Path("thresholds.json")


def register(
    app: typer.Typer, progress: Callable[[], "Progress"], open_arms: "OpenArms"
) -> type[TrainingError]:
    """Add this folder's commands to the `wye` command.

    Returns:
        The base class of errors that the user can fix.
    """
    _add_eval(app, progress)
    add_train(app, progress, open_arms)
    _add_tune(app, progress)
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
        index: Index = None,
        routes: Annotated[
            str,
            option(
                "Routes to compare, separated by commas: auto (what --preset takes, if there is "
                "one), dense, lexical, hybrid, graph, fusion, steps."
            ),
        ] = "dense,lexical,graph,fusion,auto",
        split: Annotated[str, option("Split of the judged questions.")] = "test",
        k: Annotated[int, option("Passages a question; 10 or more.", "-k", "--top-k", min=1)] = 10,
        limit: Annotated[int | None, option("Ask only the first N questions.", min=1)] = None,
        batch: Annotated[int, option("Number of questions asked together.", min=1)] = 32,
        seed: Annotated[int, option("Seed of the bootstrap.")] = 0,
        run_dir: Annotated[
            Path | None, unset("Write ROUTE.trec, metrics.json and latency.json here.")
        ] = None,
        as_json: Annotated[bool, option("Print all numbers as JSON instead.", "--json")] = False,
        advice: Annotated[
            bool,
            option(
                "DATASET has questions without judgements, one in each line or as JSON lines: "
                "say how often the routes differ, what they cost, and whether hybrid is enough.",
                "--advise",
            ),
        ] = False,
        answers: Annotated[
            bool,
            option(
                "Also answer each question from the first five passages, and compare with the "
                "right answers: contained, exact match, F1 of words.",
                "--answers",
            ),
        ] = False,
        generator_url: GeneratorUrl = "",
        generator_model: GeneratorModel = "",
        judge_url: Annotated[
            str, option("Base URL of an OpenAI-compatible API that judges; key in JUDGE_API_KEY.")
        ] = "",
        judge_model: Annotated[str, option("Its model.")] = "",
        cache: Cache = CACHE,
        preset: Preset = None,
    ) -> None:
        """Ask every judged question by each route, and score the results.

        Prints means with 95 % bootstrap intervals, paired differences, and latency. The exit code
        is 0 only if every question was answered.
        """
        from wye.backends.files import rounded_json
        from wye.router.session import Session
        from wye.router.settings import load_settings
        from wye.training import answers as answer_report
        from wye.training.data import lacking, read_dataset, read_unjudged
        from wye.training.evaluate import advise, as_markdown, latency, metrics, write_runs
        from wye.training.evaluate import evaluate as evaluate_routes
        from wye.training.markdown import show
        from wye.training.measures import write_json

        compared = parse_routes(routes)
        settings = load_settings(index=index, preset=preset)
        if settings.index is None:
            raise EvaluationError("Which index? Give --index DIR, or set WYE_INDEX.")
        if advice:
            unjudged = read_unjudged(dataset, limit)
            with Session.open(settings, settings.index) as session:
                show(advise(session.gateway, unjudged, progress()))
            return
        questions = read_dataset(dataset, split, limit)
        if warning := lacking(questions, settings.index):
            typer.echo(f"Warning: {warning}", err=True)
        with Session.open(settings, settings.index) as session:
            result = evaluate_routes(
                session.gateway,
                questions,
                compared,
                k=k,
                batch=batch,
                seed=seed,
                progress=progress(),
            )
            answered = None
            if answers:
                answered = answer_report.evaluate_answers(
                    result,
                    session.snapshot.texts,
                    answer_report.writers_of(generator_url, generator_model, cache),
                    answer_report.judge_of(judge_url, judge_model, cache),
                    progress(),
                )
        answer_json = {} if answered is None else {"answers": answer_report.metrics(answered)}
        if as_json:
            typer.echo(rounded_json({**metrics(result), **answer_json, "latency": latency(result)}))
        else:
            show(as_markdown(result))
            if answered is not None:
                show(answer_report.as_markdown(answered))
        if run_dir is not None:
            write_runs(run_dir, result)
            if answered is not None:
                write_json(run_dir / "answers.json", answer_report.metrics(answered))
        if unanswered := sorted({*result.unanswered_by(*result.runs)}):
            ids = ", ".join(unanswered)
            typer.echo(f"{len(unanswered)} questions went unanswered: {ids}", err=True)
            raise typer.Exit(UNANSWERED)


def parse_routes(text: str) -> "list[Route]":
    """Parse route names with commas between them; each counts once, in the given order.

    Raises:
        QuestionError: A name is unknown.
        EvaluationError: No route is named.
    """
    from wye.router.types import Route, route_named

    names = dict.fromkeys(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise EvaluationError(f"No route was named; use one of {', '.join(Route)}.")
    return [route_named(name) for name in names]


def _add_tune(app: typer.Typer, progress: "Callable[[], Progress]") -> None:
    @app.command(epilog="Example: wye tune my-questions --index my-index --max-graph-share 0.3")
    def tune(
        datasets: Annotated[
            list[str] | None,
            typer.Argument(
                metavar="DATASET",
                help="Dataset in BEIR's layout, whose dev split is asked; DATASET=INDEX gives it "
                "an index of its own.",
                show_default=False,
            ),
        ] = None,
        *,
        router: Annotated[
            str, option("Router: name/version or a folder. Default: WYE_ROUTER__MODEL.")
        ] = "",
        out: Annotated[
            Path | None,
            unset(f"File to write. Default: {THRESHOLDS}, if they change."),
        ] = None,
        quality: Quality = "nDCG@10",
        elsewhere: Elsewhere = True,
        latency_weight: Weight = LATENCY_WEIGHT,
        max_latency_ms: Latency = None,
        max_graph_share: Share = None,
        index: Index = None,
        cache: Cache = CACHE,
        seed: Annotated[int, option("Seed of the bootstrap.")] = 0,
    ) -> None:
        """Solve a router's thresholds again, and write them to a file to review.

        Nothing changes until you name the file in WYE_ROUTER__THRESHOLDS, or put it in place of
        one that a server uses, which rereads it.
        """
        from wye.training.markdown import show
        from wye.training.thresholds import ThresholdObjective
        from wye.training.tuning import Tuning, as_markdown, replays_of, retune, save_retuned

        goal = ThresholdObjective(latency_weight, max_latency_ms, max_graph_share)
        replays = replays_of(datasets or [], index, cache=cache, progress=progress)
        tuning = Tuning.load(replays, router, cache=cache / "features", measure=quality)
        retuned = retune(tuning, goal, elsewhere=elsewhere, seed=seed)
        show(as_markdown(tuning, retuned))
        if retuned.stays and out is None:
            typer.echo("Nothing is written; --out FILE writes them with latencies measured here.")
            return
        path = out or THRESHOLDS
        save_retuned(path, tuning, retuned, goal, elsewhere=elsewhere)
        typer.echo(f"Wrote {path}. Review it, then use it with WYE_ROUTER__THRESHOLDS={path}")
