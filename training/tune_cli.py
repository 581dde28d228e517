"""`wye tune`: a router's thresholds, anew: on replays of judged questions, or on a request log."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from training.errors import LogError, ReplayError
from training.train_cli import CACHE, LatencyOption, QualityOption, ShareOption

if TYPE_CHECKING:
    from backends.progress import Progress

OUT = Path("thresholds.json")


def register(app: typer.Typer, progress: "Callable[[], Progress]") -> None:
    """Add the command to `wye`."""

    @app.command()
    def tune(
        replays: Annotated[
            list[Path] | None,
            typer.Argument(
                help="Replay files of dev splits, as `wye train` keeps them in its cache; those of "
                "train splits flatter the router that learned from them.",
                show_default=False,
            ),
        ] = None,
        *,
        router: Annotated[
            str, typer.Option(help="name/version or a folder. Default: WYE_ROUTER__MODEL.")
        ] = "",
        out: Annotated[
            Path | None,
            typer.Option(
                help=f"The thresholds file to write. Default: {OUT}; with --from-log, none.",
                show_default=False,
            ),
        ] = None,
        quality: QualityOption = "nDCG@10",
        elsewhere: Annotated[
            bool,
            typer.Option(help="Whether the thresholds have to hold for questions unlike these."),
        ] = True,
        max_latency_ms: LatencyOption = None,
        max_graph_share: ShareOption = None,
        moved: Annotated[int, typer.Option(min=0, help="Changed routes to list.")] = 10,
        from_log: Annotated[
            list[Path] | None,
            typer.Option(
                help="A request log, as WYE_SERVE__REQUEST_LOG names it, instead of replays: what "
                "thresholds make of the requests in it. May be repeated, for rotated logs; .gz is "
                "read as it is.",
                show_default=False,
            ),
        ] = None,
        collection: Annotated[
            str, typer.Option(help="Of the log; needed where it has several.")
        ] = "",
        try_: Annotated[
            list[str] | None,
            typer.Option(
                "--try",
                help="Thresholds to try on the log, LOW,HIGH or a file. May be repeated.",
                show_default=False,
            ),
        ] = None,
        index: Annotated[
            Path | None,
            typer.Option(
                help="Folder of the collection's index, to replay the questions of the log whose "
                "feedback names passages, and to solve thresholds on them.",
                show_default=False,
            ),
        ] = None,
        cache: Annotated[Path, typer.Option(help="Features and replays, used again.")] = CACHE,
        seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
    ) -> None:
        """Solve a router's thresholds anew, and write them to a file to review.

        Nothing changes until the file is reviewed and named in WYE_ROUTER__THRESHOLDS, or put in
        place of one that a server uses: it follows the file.

        With --from-log, prints what thresholds make of requests that were served.
        A bound finds the ones that keep it with the fewest changes of route.
        With --index too, feedback that names passages stands for judgements.
        """
        from training.markdown import wide_console
        from training.thresholds.outcomes import ThresholdObjective

        goal = ThresholdObjective(max_mean_ms=max_latency_ms, max_graph_share=max_graph_share)
        if from_log:
            from training.traffic.run import Tuner

            if replays:
                raise ReplayError("Give replays or --from-log, not both.")
            if out is not None and index is None and goal == ThresholdObjective():
                raise LogError(
                    "There is nothing to write: bound --max-latency-ms or --max-graph-share, or "
                    "have the questions with feedback replayed with --index."
                )
            tuner = Tuner.load(
                from_log,
                console=wide_console(),
                router=router,
                collection=collection,
                goal=goal,
                out=out,
            )
            tuner.show(try_ or [])
            wrote = False
            if index is not None:
                from training.traffic.judging import Judging, tune_judged

                judging = Judging(index, quality, elsewhere, moved, cache, seed)
                wrote = tune_judged(tuner, judging, progress())
            elif goal != ThresholdObjective():
                wrote = tuner.bounded()
            if not wrote:
                return
        else:
            from training.thresholds.retuning import retune, show_retuned
            from training.thresholds.tuning import Tuning

            for given, name in ((collection, "--collection"), (try_, "--try"), (index, "--index")):
                if given:
                    raise LogError(f"{name} is about a request log; give one with --from-log.")
            if not replays:
                raise ReplayError(
                    "Tune on what? Name replays of dev splits, or a request log with --from-log."
                )
            tuning = Tuning.load(replays, router, cache=cache / "features", measure=quality)
            found = retune(tuning, goal, elsewhere=elsewhere, seed=seed)
            show_retuned(wide_console(), tuning, found, most=moved)
            out = out or OUT
            tuning.save(out, found.solution.thresholds, found.notes())
        typer.echo(f"Wrote {out}. Review it, then use it with WYE_ROUTER__THRESHOLDS={out}")
