"""`wye tune` solves a router's thresholds again, on replays or on a request log."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from training import options
from training.errors import LogError, ReplayError
from training.remote_cli import AskingTerms, told_weight

if TYPE_CHECKING:
    from rich.console import Console

    from backends.progress import Progress
    from router.remote_arms import OpenArms
    from training.log_replay.replay import LogReplay
    from training.thresholds.outcomes import ThresholdObjective
    from training.thresholds.tuning import Tuning

OUT = Path("thresholds.json")
_WROTE = "Wrote {out}. Review it, then use it with WYE_ROUTER__THRESHOLDS={out}"


def register(app: typer.Typer, progress: "Callable[[], Progress]", open_arms: "OpenArms") -> None:
    """Add `wye tune`."""

    @app.command(epilog="Example: wye tune --from-log requests.jsonl --max-graph-share 0.3")
    def tune(
        replays: Annotated[
            list[Path] | None,
            typer.Argument(
                metavar="REPLAY",
                help="Replay files of dev splits, from the cache of `wye train`; those of train "
                "splits flatter the router that learned from them.",
                show_default=False,
            ),
        ] = None,
        *,
        router: Annotated[
            str, typer.Option(help="Router: name/version or a folder. Default: WYE_ROUTER__MODEL.")
        ] = "",
        out: Annotated[
            Path | None,
            typer.Option(
                help=f"Thresholds file to write. Default: {OUT} if they change; with --from-log, "
                "none.",
                show_default=False,
            ),
        ] = None,
        questions: Annotated[
            list[str] | None,
            typer.Option(
                "--questions",
                help="With --arms, instead of replays: dataset in BEIR's layout whose dev "
                "questions the arms are asked; DATASET=INDEX adds an index. May be repeated.",
                show_default=False,
            ),
        ] = None,
        arms: options.Arms = None,
        arms_of: options.Collection = "",
        yes: options.Yes = False,
        per_second: options.Pace = 0.0,
        ms_per_price: options.Exchange = options.MS_PER_PRICE,
        quality: options.Quality = "nDCG@10",
        elsewhere: Annotated[
            bool,
            typer.Option(help="Whether the thresholds must also hold for questions unlike these."),
        ] = True,
        latency_weight: options.Weight = options.LATENCY_WEIGHT,
        max_latency_ms: options.Latency = None,
        max_graph_share: options.Share = None,
        moved: Annotated[int, typer.Option(min=0, help="Number of changed routes to list.")] = 10,
        from_log: Annotated[
            list[Path] | None,
            typer.Option(
                help="Instead of replays: request log (WYE_SERVE__REQUEST_LOG) to which thresholds "
                "are applied. May be repeated, for rotated logs; .gz is read directly.",
                show_default=False,
            ),
        ] = None,
        collection: Annotated[
            str, typer.Option(help="Collection of the log; needed if it has several.")
        ] = "",
        try_: Annotated[
            list[str] | None,
            typer.Option(
                "--try",
                help="Thresholds to try on the log: LOW,HIGH or a file. May be repeated.",
                show_default=False,
            ),
        ] = None,
        index: Annotated[
            Path | None,
            typer.Option(
                help="Folder of the collection's index, to replay logged questions whose feedback "
                "names passages, and to solve thresholds on them.",
                show_default=False,
            ),
        ] = None,
        cache: Annotated[
            Path, typer.Option(help="Folder of features and replays that later runs use again.")
        ] = options.CACHE,
        seed: Annotated[int, typer.Option(help="Seed of the bootstrap.")] = 0,
    ) -> None:
        """Solve a router's thresholds again, and write them to a file to review.

        Nothing changes until you name the file in WYE_ROUTER__THRESHOLDS, or put it in place of
        one that a server uses, which rereads it.

        With --from-log, prints how thresholds would have routed the logged requests.
        With a bound, finds the thresholds that keep it with the fewest changes of route.
        With --index too, feedback that names passages serves as judgements.
        """
        from training.markdown import wide_console
        from training.thresholds.outcomes import ThresholdObjective
        from training.thresholds.tuning import Tuning, retune, retuned_points, show_retuned

        console = wide_console()
        goal = ThresholdObjective(max_mean_ms=max_latency_ms, max_graph_share=max_graph_share)
        if not from_log:
            for given, name in ((collection, "--collection"), (try_, "--try"), (index, "--index")):
                if given:
                    raise LogError(f"{name} needs a request log; give one with --from-log.")
            terms = AskingTerms(arms_of, ms_per_price, per_second, yes)
            tuning, usual = (
                _tuned_on_arms(
                    open_arms,
                    *_arms_of(replays, arms, questions),
                    terms,
                    router,
                    cache,
                    quality,
                    progress,
                )
                if arms or questions
                else (
                    Tuning.load(_named(replays), router, cache=cache / "features", measure=quality),
                    options.LATENCY_WEIGHT,
                )
            )
            latency_weight = usual if latency_weight == options.LATENCY_WEIGHT else latency_weight
            weighed = replace(goal, latency_weight=latency_weight)
            found = retune(tuning, weighed, elsewhere=elsewhere, seed=seed)
            show_retuned(console, tuning, found, most=moved)
            if found.stays and out is None:
                typer.echo(
                    "Nothing is written; --out FILE writes them with latencies measured here."
                )
                return
            out = out or OUT
            points = retuned_points(tuning, weighed, elsewhere=elsewhere)
            tuning.save(out, found.solution.thresholds, found.notes(), points)
            typer.echo(_WROTE.format(out=out))
            return

        from training.log_replay.replay import LogReplay, router_settings
        from training.log_replay.show import show_replay

        if replays:
            raise ReplayError("Give replays or --from-log, not both.")
        bounded = goal != ThresholdObjective()
        if out is not None and index is None and not bounded:
            raise LogError(
                "There is nothing to write: set --max-latency-ms or --max-graph-share, or replay "
                "questions with feedback with --index."
            )
        settings = router_settings(router)
        replay = LogReplay.load(from_log, settings, collection)
        if index is None:
            show_replay(console, replay, try_ or [])
            if not bounded or not _keep_bounds(console, replay, goal, out):
                return
        else:
            from training.log_replay.feedback import replay_feedback, save_retuned
            from training.log_replay.show import show_feedback_replay

            list(map(replay.candidate, try_ or []))  # mistakes are told before a replay takes time
            tuning, dataset = replay_feedback(
                replay, index, settings, cache=cache, measure=quality, progress=progress()
            )
            show_replay(console, replay, try_ or [])
            found = retune(tuning, goal, elsewhere=elsewhere, seed=seed)
            show_feedback_replay(console, replay, tuning, dataset, found, most=moved)
            if out is not None:
                save_retuned(out, replay, tuning, found)
        if out is None:
            console.print("Nothing is written; --out FILE writes the proposed thresholds.")
        else:
            typer.echo(_WROTE.format(out=out))


def _named(replays: list[Path] | None) -> list[Path]:
    if not replays:
        raise ReplayError(
            "Tune on what? Name replays of dev splits, a request log with --from-log, or remote "
            "arms with --arms."
        )
    return replays


def _arms_of(
    replays: list[Path] | None, arms: Path | None, questions: list[str] | None
) -> tuple[Path, list[str]]:
    if replays or arms is None or not questions:
        raise ReplayError("Give --arms and --questions together, and no replays.")
    return arms, questions


def _tuned_on_arms(  # noqa: PLR0917 - of one command
    open_arms: "OpenArms",
    path: Path,
    questions: list[str],
    terms: AskingTerms,
    router: str,
    cache: Path,
    measure: str,
    progress: "Callable[[], Progress]",
) -> "tuple[Tuning, float]":
    """Tuning on dev questions that remote arms answer, and the quality a millisecond is worth."""
    from router.settings import load_settings
    from training.data.sources import Replays, parse_source
    from training.remote_cli import remote_answers
    from training.thresholds.tuning import Tuning

    settings = load_settings()
    sources = [parse_source(text, settings.index, required=False) for text in questions]
    with remote_answers(
        open_arms, path, settings, sources, terms, cache, progress, splits=("dev",)
    ) as remote:
        replays = Replays(settings, cache / "replays", progress, remote).training(sources, "dev")
        typer.echo(told_weight(remote.usual_weight, remote, measure), err=True)
        features = cache / "features"
        tuning = Tuning.of(replays, router, cache=features, settings=settings, measure=measure)
        return tuning, remote.usual_weight


def _keep_bounds(
    console: "Console", replay: "LogReplay", goal: "ThresholdObjective", out: Path | None
) -> bool:
    """Propose thresholds that keep the bounds.

    Returns:
        False if the present thresholds keep them.
    """
    from training.log_replay.replay import within_bounds
    from training.log_replay.show import show_proposed

    policy = within_bounds(replay.log.requests, replay.now, goal)
    if policy == replay.now:
        console.print("The present thresholds keep the bounds; nothing is proposed.")
        return False
    show_proposed(console, replay, policy)
    console.print(
        "These thresholds keep the bounds with the fewest changes of route. No answer was judged, "
        "so their quality is unknown."
    )
    if out is not None:
        bounds = {"max_mean_ms": goal.max_mean_ms, "max_graph_share": goal.max_graph_share}
        replay.save(out, policy, bounds)
    return True
