"""`wye tune` solves a router's thresholds again, on replays or on a request log."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wye.training import options
from wye.training.errors import LogError, ReplayError

if TYPE_CHECKING:
    from rich.console import Console

    from wye.backends.progress import Progress
    from wye.router.policy import Policy
    from wye.training.log_replay.reading import DecisionLog
    from wye.training.thresholds.outcomes import ThresholdObjective

OUT = Path("thresholds.json")
_WROTE = "Wrote {out}. Review it, then use it with WYE_ROUTER__THRESHOLDS={out}"


def register(app: typer.Typer, progress: "Callable[[], Progress]") -> None:
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
        from wye.training.markdown import wide_console
        from wye.training.thresholds.outcomes import ThresholdObjective
        from wye.training.thresholds.tuning import Tuning, retune, retuned_points, show_retuned

        console = wide_console()
        goal = ThresholdObjective(max_mean_ms=max_latency_ms, max_graph_share=max_graph_share)
        if not from_log:
            for value, name in ((collection, "--collection"), (try_, "--try"), (index, "--index")):
                if value:
                    raise LogError(f"{name} needs a request log; give one with --from-log.")
            tuning = Tuning.load(replays or [], router, cache=cache / "features", measure=quality)
            weighed = replace(goal, latency_weight=latency_weight)
            retuned = retune(tuning, weighed, elsewhere=elsewhere, seed=seed)
            show_retuned(console, tuning, retuned, most=moved)
            if retuned.stays and out is None:
                typer.echo(
                    "Nothing is written; --out FILE writes them with latencies measured here."
                )
                return
            out = out or OUT
            points = retuned_points(tuning, weighed, elsewhere=elsewhere)
            tuning.save(out, retuned.solution.thresholds, retuned.notes(), points)
            typer.echo(_WROTE.format(out=out))
            return

        from wye.training.log_replay.feedback import replay_feedback, show_feedback
        from wye.training.log_replay.replay import (
            load,
            notes,
            parse_policy,
            router_settings,
            show_replay,
        )

        if replays:
            raise ReplayError("Give replays or --from-log, not both.")
        bounded = goal != ThresholdObjective()
        if out is not None and index is None and not bounded:
            raise LogError(
                "There is nothing to write: set --max-latency-ms or --max-graph-share, or replay "
                "questions with feedback with --index."
            )
        settings = router_settings(router)
        log = load(from_log, settings, collection)
        # Mistakes in --try are told before a replay takes time.
        policies = {text: parse_policy(text, log.router.policy) for text in try_ or []}
        if index is None:
            if not _proposed(console, log, policies, goal, out):
                return
        else:
            tuning, dataset = replay_feedback(
                log, index, settings, cache=cache, measure=quality, progress=progress()
            )
            retuned = retune(tuning, goal, elsewhere=elsewhere, seed=seed)
            policies["proposed"] = tuning.policy(retuned.solution.thresholds)
            show_replay(console, log, policies)
            show_feedback(console, tuning, dataset, retuned, most=moved)
            if out is not None:
                source = "feedback in a request log: partial, and of passages that were shown"
                facts = {**retuned.notes(), **notes(log, source)}
                tuning.save(out, retuned.solution.thresholds, facts)
        if out is None:
            console.print("Nothing is written; --out FILE writes the proposed thresholds.")
        else:
            typer.echo(_WROTE.format(out=out))


def _proposed(
    console: "Console",
    log: "DecisionLog",
    policies: "Mapping[str, Policy]",
    goal: "ThresholdObjective",
    out: Path | None,
) -> bool:
    """Show policies on a log, with thresholds that keep the bounds if there are any.

    Returns:
        Whether other thresholds than the present ones are proposed.
    """
    from wye.router.model_files import save_policy
    from wye.training.log_replay.replay import effect, notes, show_replay, within_bounds

    policy = within_bounds(log, goal)
    if policy == log.router.policy:
        show_replay(console, log, policies)
        if goal != type(goal)():
            console.print("The present thresholds keep the bounds; nothing is proposed.")
        return False
    show_replay(console, log, {**policies, "proposed": policy})
    console.print(
        "The proposed thresholds keep the bounds with the fewest changes of route. No answer was "
        "judged, so their quality is unknown."
    )
    if out is not None:
        facts = {
            **notes(log, "a request log; no answer was judged"),
            "expected mean_ms": effect(log, policy).mean_ms,
            "max_mean_ms": goal.max_mean_ms,
            "max_graph_share": goal.max_graph_share,
        }
        save_policy(out, replace(policy, router=log.router.name), facts)
    return True
