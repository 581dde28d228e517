"""`wye eval` measures quality and latency of the routes; `wye train` trains a router."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wye.training import options
from wye.training.errors import EvaluationError, FitError, TrainingError
from wye.training.remote_cli import remote_answers
from wye.training.tune_cli import register as register_tuning

if TYPE_CHECKING:
    from wye.backends.progress import Progress
    from wye.router.remote import OpenArms
    from wye.router.settings import Settings
    from wye.router.types import Route
    from wye.training.data.remote import RemoteAnswers
    from wye.training.evaluation.answers import Judge, Writer
    from wye.training.fit.router import Choices
    from wye.training.judge import JudgeClient
    from wye.training.questions import QuestionWriter
    from wye.training.report import Report

UNANSWERED = 1
NOT_BETTER = 1


def register(
    app: typer.Typer, progress: Callable[[], "Progress"], open_arms: "OpenArms"
) -> type[TrainingError]:
    """Add this folder's commands to the `wye` command.

    Returns:
        The base class of errors that the user can fix.
    """
    _add_eval(app, progress)
    _add_train(app, progress, open_arms)
    register_tuning(app, progress)
    return TrainingError


def _add_eval(app: typer.Typer, progress: Callable[[], "Progress"]) -> None:
    @app.command(name="eval", epilog="Example: wye eval DATASET --index my-index")
    def evaluate(
        dataset: Annotated[
            Path, typer.Argument(metavar="DATASET", help="A folder in BEIR's layout.")
        ],
        *,
        index: options.Index = None,
        routes: Annotated[
            str,
            typer.Option(
                help="Routes to compare, separated by commas: auto, dense, lexical, hybrid, graph, "
                "fusion, steps."
            ),
        ] = "dense,lexical,graph,fusion,auto",
        split: Annotated[str, typer.Option(help="Split of the judged questions.")] = "test",
        k: Annotated[
            int, typer.Option("-k", "--top-k", min=1, help="Passages per question; 10 or more.")
        ] = 10,
        limit: Annotated[
            int | None, typer.Option(min=1, help="Ask only the first N questions.")
        ] = None,
        batch: Annotated[int, typer.Option(min=1, help="Number of questions asked together.")] = 32,
        seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
        run_dir: Annotated[
            Path | None,
            typer.Option(
                help="Write ROUTE.trec, metrics.json and latency.json here.", show_default=False
            ),
        ] = None,
        baseline: Annotated[
            str, typer.Option(help="Compare the others with this route only.")
        ] = "",
        as_json: Annotated[
            bool, typer.Option("--json", help="Print all numbers as JSON instead.")
        ] = False,
        answers: Annotated[
            bool,
            typer.Option(
                "--answers",
                help="Also answer each question from the first five passages, and compare with the "
                "right answers: contained, exact match, F1 of words.",
            ),
        ] = False,
        generator_url: options.GeneratorUrl = "",
        generator_model: options.GeneratorModel = "",
        judge_url: options.JudgeUrl = "",
        judge_model: options.JudgeModel = "",
        cache: options.Cache = options.CACHE,
    ) -> None:
        """Ask every judged question by each route, and score the results.

        Prints means with 95 % bootstrap intervals, paired differences, and latency. The exit code
        is 0 only if every question was answered.
        """
        from wye.backends.files import rounded_json
        from wye.router.session import Session
        from wye.router.settings import load_settings
        from wye.training.data.dataset import read_dataset
        from wye.training.data.sources import lacking
        from wye.training.evaluation import answers as answer_report
        from wye.training.evaluation.evaluate import as_markdown, latency, metrics, write_runs
        from wye.training.evaluation.evaluate import evaluate as evaluate_routes
        from wye.training.evaluation.measures import write_json
        from wye.training.markdown import show

        compared = parse_routes(routes)
        questions = read_dataset(dataset, split, limit)
        settings = load_settings(index=index)
        if settings.index is None:
            raise EvaluationError("Which index? Give --index DIR, or set WYE_INDEX.")
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
                baseline=baseline,
                progress=progress(),
            )
            answered = None
            if answers:
                endpoints = (generator_url, generator_model), (judge_url, judge_model)
                with answering(*endpoints, cache) as (writers, judge):
                    texts = session.snapshot.texts
                    answered = answer_report.evaluate_answers(
                        result, texts, writers, judge, progress()
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
        if result.unanswered:
            ids = ", ".join(result.unanswered)
            typer.echo(f"{len(result.unanswered)} questions went unanswered: {ids}", err=True)
            raise typer.Exit(UNANSWERED)


@contextmanager
def answering(
    generator: tuple[str, str], judge: tuple[str, str], cache: Path
) -> "Iterator[tuple[dict[str, Writer], Judge | None]]":
    """Yield the writers of answers by name, and the judge of answers if there is one.

    Args:
        generator: Address and model of an endpoint; an empty address means none.
        judge: Likewise.
    """
    from wye.training.evaluation.answers import LOCAL_WRITERS, answered_by, judged_by
    from wye.training.judge import REPLIES, JudgeClient, ReplyCache

    with ExitStack() as opened:

        def replies(endpoint: tuple[str, str], key: str) -> ReplyCache:
            client = opened.enter_context(JudgeClient(*endpoint, os.environ.get(key, "")))
            return ReplyCache(client, cache / REPLIES)

        writers = dict(LOCAL_WRITERS)
        if generator[0]:
            writers[generator[1]] = answered_by(replies(generator, "WYE_GENERATOR__KEY"))
        yield writers, judged_by(replies(judge, "JUDGE_API_KEY")) if judge[0] else None


def _checked_name(name: str) -> str:
    """The name of a router, checked before anything takes time."""
    from wye.router.model_files import require_name

    require_name(name)
    return name


def _add_train(app: typer.Typer, progress: Callable[[], "Progress"], open_arms: "OpenArms") -> None:
    @app.command(epilog="Example: wye train --questions my-questions --index my-index --name mine")
    def train(
        *,
        questions: Annotated[
            list[str] | None,
            typer.Option(
                "--questions",
                help="Dataset in BEIR's layout with train and dev judgements, and test ones to "
                "evaluate the router; DATASET=INDEX gives it an index of its own. May be repeated.",
                show_default=False,
            ),
        ] = None,
        hurried: Annotated[
            bool,
            typer.Option(
                "--hurried",
                help="Ask every dataset's questions a second time, without capitals and question "
                "mark, and learn from both.",
            ),
        ] = False,
        index: options.Index = None,
        name: Annotated[
            str, typer.Option(help="Name of the router.", callback=_checked_name)
        ] = "router",
        models: Annotated[Path, typer.Option(help="Folder that routers are written to.")] = Path(
            "models"
        ),
        success: Annotated[
            str,
            typer.Option(
                help="What is learned: graph-helps, whether fusion beats the simple route and by "
                "how much; or which of the simple route and the graph alone succeeds by "
                "all-gold@5, any-gold@5, answer-in-context@5, better-ndcg@10, or judge, where an "
                "endpoint answers from each arm's passages."
            ),
        ] = "graph-helps",
        judge_url: options.JudgeUrl = "",
        judge_model: options.JudgeModel = "",
        write_questions: Annotated[
            int | None,
            typer.Option(
                min=1,
                help="Instead of training, have a language model write N questions about passages "
                "of the index into the folder of --questions. An interrupted run resumes.",
                show_default=False,
            ),
        ] = None,
        generator_url: options.GeneratorUrl = "",
        generator_model: options.GeneratorModel = "",
        quality: options.Quality = "nDCG@10",
        kind: Annotated[
            str, typer.Option(help="Kind of scorer: auto, extra-trees, attention-mlp or linear.")
        ] = "extra-trees",
        features: Annotated[
            str,
            typer.Option(
                help="Features of the scorer: text, what the text arms found, which needs no "
                "parse; syntax, the question's structure alone; or all."
            ),
        ] = "text",
        as_published: Annotated[
            bool,
            typer.Option(
                "--as-published",
                help="Use EA-GraphRAG's recipe instead of --success, --kind, --features and "
                "--simple: the attention-MLP on syntax alone, from questions on which only dense "
                "or only graph succeeds.",
            ),
        ] = False,
        start_from: Annotated[
            str,
            typer.Option(
                help="Router to start from, such as router-en/v1: its scorer is corrected as far "
                "as the questions allow, its thresholds are kept. For few questions, 50 or more.",
                show_default=False,
            ),
        ] = "",
        simple: Annotated[
            str | None,
            typer.Option(
                help="Simple route: dense, lexical or hybrid. Default: the best.",
                show_default=False,
            ),
        ] = None,
        elsewhere: Annotated[
            bool,
            typer.Option(
                help="Whether the thresholds must also hold for questions unlike these; otherwise "
                "they are solved for these alone."
            ),
        ] = True,
        latency_weight: options.Weight = options.LATENCY_WEIGHT,
        steps_weight: Annotated[
            float,
            typer.Option(
                min=0,
                help="Quality given up for a millisecond less that steps take beyond fusion; it "
                "decides which questions with a plan go in steps.",
            ),
        ] = options.STEPS_WEIGHT,
        max_latency_ms: options.Latency = None,
        max_graph_share: options.Share = None,
        arms: options.Arms = None,
        arms_of: options.Collection = "",
        yes: options.Yes = False,
        ms_per_price: options.Exchange = options.MS_PER_PRICE,
        relevance: Annotated[
            bool,
            typer.Option(
                "--relevance",
                help="Instead of a router, fit how likely passages are relevant and answers exist.",
            ),
        ] = False,
        cache: options.Cache = options.CACHE,
        seed: Annotated[
            int, typer.Option(help="Seed of folds, bootstrap and passages to write questions on.")
        ] = 0,
    ) -> None:
        """Train a router on judged questions, and write it with its card.

        The summary begins with a verdict. The exit code is 1 if the router is no better on the
        test split than always taking fusion; it is written all the same.
        """
        from wye.router.settings import load_settings
        from wye.router.types import route_named
        from wye.training.data.sources import parse_source
        from wye.training.fit.router import UNFAMILIAR, Choices, columns_named, published
        from wye.training.judge import JudgeClient
        from wye.training.run import TrainingRun, open_start
        from wye.training.thresholds.outcomes import ThresholdObjective

        settings = load_settings(index=index)
        if not questions:
            raise FitError("Learn from what? Give --questions.")
        if write_questions is not None:
            from wye.training.questions import ANSWER_TOKENS

            key = os.environ.get("WYE_GENERATOR__KEY", "")
            model = JudgeClient(generator_url, generator_model, key, tokens=ANSWER_TOKENS)
            with question_writer(settings, questions, model, seed) as writer:
                writer.write(write_questions, progress())
            typer.echo(str(writer))
            return
        sources = [parse_source(text, settings.index, required=arms is None) for text in questions]
        if relevance:
            from wye.training.markdown import show
            from wye.training.relevance import fit_for_user

            folder = models / f"relevance-{name}"
            pairs = [f"{source.dataset}={source.index}" for source in sources]
            show(fit_for_user(settings, pairs, folder))
            typer.echo(f"Wrote {folder}. Use it with WYE_RELEVANCE__MODEL={folder}")
            return
        sources += [replace(source, hurried=True) for source in sources if hurried]
        has_index = sources[0].index is not None
        if any((source.index is not None) != has_index for source in sources):
            raise FitError("Some datasets have an index and some have none; train one by one.")
        if not has_index and (as_published or features != "text" or judge_url):
            raise FitError(
                "Without an index a router uses what the simple arm returned; leave "
                "--as-published, --features and --judge-url out."
            )
        choices = Choices(
            success=success,
            quality=quality,
            kind=kind,
            among=columns_named(features) if has_index else None,
            unfamiliar=UNFAMILIAR,
            simple=None if simple is None else route_named(simple),
            goal=ThresholdObjective(latency_weight, max_latency_ms, max_graph_share, steps_weight),
            fusion=settings.fusion,
            elsewhere=elsewhere,
            seed=seed,
        )
        if as_published:
            choices = published(choices)
        start = open_start(settings, start_from, has_index=has_index) if start_from else None
        with ExitStack() as stack:
            whom = judge_url, judge_model, os.environ.get("JUDGE_API_KEY", "")
            judge = stack.enter_context(JudgeClient(*whom)) if judge_url else None
            remote = None
            if arms is not None:
                asker = stack.enter_context(
                    open_arms(arms, collection=arms_of, has_index=has_index)
                )
                remote = remote_answers(
                    asker, settings, sources, cache, progress(), ms_per_price=ms_per_price, yes=yes
                )
                choices = weighed_for(remote, choices, has_index=has_index)
            run = TrainingRun(
                settings, sources, choices, cache, progress, judge=judge, start=start, remote=remote
            )
            fitted = run.learn(lambda text: typer.echo(text, err=True))
            for warning in fitted.training.warnings:
                typer.echo(f"Warning: {warning}", err=True)
            _print_verdict(*run.write(fitted, run.evaluate(fitted), models, name))


def _print_verdict(folder: Path, report: "Report") -> None:
    """Print the verdict on a router, and its folder; ends with `NOT_BETTER` if it is not better."""
    from wye.training.card import judged
    from wye.training.markdown import show
    from wye.training.report import verdict

    comparison = verdict(report)
    if comparison is None or report.evaluation is None:
        typer.echo("No dataset has a test split, so the router was not evaluated.", err=True)
    else:
        typer.echo(comparison.says)
        show(judged(report.evaluation))
    if comparison is not None and not comparison.better:
        typer.echo(f"Wrote {folder}, which is not better; its card compares all candidates.")
        raise typer.Exit(NOT_BETTER)
    typer.echo(f"Wrote {folder}. Use it with WYE_ROUTER__MODEL={folder}")


def weighed_for(remote: "RemoteAnswers", choices: "Choices", *, has_index: bool) -> "Choices":
    """Choices with a latency weight that fits these arms' calls, unless the user gave one.

    Prints the weight, and what a call's price counts as.
    """
    from wye.router.types import Route

    goal, usual = choices.goal, ""
    if goal.latency_weight == options.LATENCY_WEIGHT:
        goal = replace(goal, latency_weight=remote.usual_weight)
        usual = ", so that asking for every question is worth .01"
    typer.echo(
        f"A price of {remote.price:g} counts as {remote.price * remote.ms_per_price:g} ms "
        f"(--ms-per-price); a millisecond is worth {goal.latency_weight:.2g} of {choices.quality}"
        f"{usual} (--latency-weight).",
        err=True,
    )
    simple = choices.simple if has_index else Route.HYBRID
    return replace(choices, goal=goal, simple=simple)


@contextmanager
def question_writer(
    settings: "Settings", folders: list[str], model: "JudgeClient", seed: int
) -> "Iterator[QuestionWriter]":
    """Open the index of the settings, and yield a writer of questions about it.

    Raises:
        TrainingError: There is no index, or not exactly one folder.
    """
    from wye.router.session import Session
    from wye.training.questions import QuestionWriter

    if settings.index is None or len(folders) != 1:
        raise TrainingError("Name one index with --index, and one folder with --questions.")
    with Session.open(settings, settings.index) as session, model:
        yield QuestionWriter(Path(folders[0]), session.snapshot, model, seed)


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
