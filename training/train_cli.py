"""`wye train`: a router from one's own questions."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from backends.progress import Progress
    from router.types import Route

CACHE = Path(".cache/wye")

QualityOption = Annotated[str, typer.Option(help="The measure that thresholds are solved for.")]
LatencyOption = Annotated[
    float | None,
    typer.Option(help="Highest mean latency, in milliseconds.", show_default=False),
]
ShareOption = Annotated[
    float | None,
    typer.Option(help="Highest share of questions that walk the graph.", show_default=False),
]


def register(app: typer.Typer, progress: "Callable[[], Progress]") -> None:
    """Add the command to `wye`."""

    @app.command()
    def train(
        *,
        questions: Annotated[
            list[str],
            typer.Option(
                "--questions",
                help="A dataset in BEIR's layout with train and dev judgements, and test ones if "
                "the router is to be judged; DATASET=INDEX asks it of an index of its own. "
                "May be repeated.",
            ),
        ],
        index: Annotated[
            Path | None,
            typer.Option(help="Folder of the index. Default: WYE_INDEX.", show_default=False),
        ] = None,
        name: Annotated[str, typer.Option(help="Of the router.")] = "router",
        models: Annotated[Path, typer.Option(help="Folder that routers are written to.")] = Path(
            "models"
        ),
        success: Annotated[
            str,
            typer.Option(
                help="When an arm succeeds: all-gold@5, any-gold@5, answer-in-context@5, "
                "better-ndcg@10, or judge, where an endpoint answers from each arm's passages."
            ),
        ] = "all-gold@5",
        judge_url: Annotated[
            str,
            typer.Option(help="Base of an OpenAI-compatible API; its key is in JUDGE_API_KEY."),
        ] = "",
        judge_model: Annotated[str, typer.Option(help="Name of the model there.")] = "",
        quality: QualityOption = "nDCG@10",
        kind: Annotated[
            str, typer.Option(help="Of scorer: auto, attention-mlp or linear.")
        ] = "auto",
        simple: Annotated[
            str | None,
            typer.Option(
                help="The simple route: dense, lexical or hybrid. Default: the best.",
                show_default=False,
            ),
        ] = None,
        elsewhere: Annotated[
            bool,
            typer.Option(
                help="Whether the thresholds have to hold for questions unlike these as well; "
                "otherwise they are made for these alone."
            ),
        ] = True,
        max_latency_ms: LatencyOption = None,
        max_graph_share: ShareOption = None,
        cache: Annotated[Path, typer.Option(help="Replays and features, used again.")] = CACHE,
        seed: Annotated[int, typer.Option(help="Of folds and bootstrap.")] = 0,
    ) -> None:
        """Train a router on judged questions, and write it with its report."""
        from router.settings import load_settings
        from training.data.sources import parse_source
        from training.judge import JudgeSettings
        from training.markdown import show
        from training.pipeline import Choices
        from training.publishing import publish
        from training.report import overall_markdown
        from training.run import Run
        from training.thresholds.outcomes import ThresholdObjective

        settings = load_settings(index=index)
        choices = Choices(
            success=success,
            quality=quality,
            kind=kind,
            simple=None if simple is None else simple_route(simple),
            goal=ThresholdObjective(max_mean_ms=max_latency_ms, max_graph_share=max_graph_share),
            fusion=settings.fusion,
            elsewhere=elsewhere,
            seed=seed,
        )
        sources = [parse_source(text, settings.index) for text in questions]
        judge = None
        if judge_url:
            judge = JudgeSettings(judge_url, judge_model, os.environ.get("JUDGE_API_KEY", ""))
        run = Run(settings, sources, choices, cache, progress, judge=judge)
        learned = run.learn()
        for warning in learned.warnings:
            typer.echo(f"Warning: {warning}", err=True)
        verdict = run.judge(learned)
        folder, report = publish(run, learned, verdict, models, name)
        if report.evaluation is None:
            typer.echo("No dataset has a test split, so the router was not judged.", err=True)
        else:
            show(overall_markdown(report.evaluation, narrow=True))
        typer.echo(f"Wrote {folder}. Use it with WYE_ROUTER__MODEL={folder}")


def simple_route(name: str) -> "Route":
    """A simple route by name.

    Raises:
        FitError: There is none of that name.
    """
    from router.types import Route
    from training.data.evaluation_set import SIMPLE_ROUTES
    from training.errors import FitError

    if name not in SIMPLE_ROUTES:
        raise FitError(f"'{name}' is no simple route; choose among {', '.join(SIMPLE_ROUTES)}.")
    return Route(name)
