"""`wye refine` has a language model extract knowledge units or facts from an index."""

import os
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from training import options
from training.errors import TrainingError
from training.remote_cli import confirm

if TYPE_CHECKING:
    from backends.progress import Progress

INTERRUPTED = 130


def register(app: typer.Typer, progress: "Callable[[], Progress]") -> None:
    """Add `wye refine`."""

    @app.command(epilog="Example: wye refine units --index my-index --alpha 0.5")
    def refine(
        kind: Annotated[
            str,
            typer.Argument(
                metavar="KIND",
                help="units, for the route clue, or facts, for the graph if WYE_GRAPH__ACTIVATION "
                "is facts.",
            ),
        ] = "units",
        *,
        index: options.Index = None,
        generator_url: options.GeneratorUrl = "",
        generator_model: options.GeneratorModel = "",
        alpha: Annotated[
            float, typer.Option(min=0, max=1, help="Highest share of all words to read.")
        ] = 1.0,
        by: Annotated[
            str,
            typer.Option(
                "--by",
                help="Which passages are read if not all are: bleu, those with most in common with "
                "others; cosine, those closest to another; or random.",
            ),
        ] = "bleu",
        seed: Annotated[int, typer.Option(help="Seed of --by random.")] = 0,
        at_once: Annotated[int, typer.Option(min=1, help="Number of concurrent requests.")] = 4,
        price_sent: Annotated[
            float, typer.Option(min=0, help="Price of a million request tokens, for the estimate.")
        ] = 0.0,
        price_received: Annotated[
            float, typer.Option(min=0, help="Price of a million reply tokens.")
        ] = 0.0,
        yes: Annotated[bool, typer.Option("--yes", help="Agree to what will be asked.")] = False,
        drop: Annotated[
            bool, typer.Option("--drop", help="Delete what was extracted, and ask nothing.")
        ] = False,
        as_json: Annotated[bool, typer.Option("--json", help="Print all numbers as JSON.")] = False,
    ) -> None:
        """Have a language model extract knowledge units or facts from the passages of an index.

        What was extracted is kept beside the index. An interrupted run resumes, and a later run
        asks only about new and changed passages.
        """
        from backends.files import rounded_json
        from backends.selection import SELECTIONS
        from backends.store.extracted import KINDS, ExtractedStore
        from router.session import Session
        from router.settings import load_settings
        from training.judge import JudgeClient, JudgeSettings
        from training.refine import REPLY_TOKENS, Refiner

        what = next((one for one in KINDS if one == kind), None)
        way = next((one for one in SELECTIONS if one == by), None)
        if what is None or way is None:
            raise TrainingError(
                f"KIND is one of {', '.join(KINDS)}, and --by one of {', '.join(SELECTIONS)}; "
                f"not '{kind}' and '{by}'."
            )
        settings = load_settings(index=index)
        if settings.index is None:
            raise TrainingError("Which index? Give --index DIR, or set WYE_INDEX.")

        with Session.open(settings, settings.index) as session:
            store = ExtractedStore(session.folder, session.index.fingerprint)
            if drop:
                typer.echo(f"Deleted the {kind} of {store.drop(what):,} passages.")
                return
            if session.fault:
                raise TrainingError(f"{session.fault} Run `wye repair` first.")
            if not generator_url:
                raise TrainingError(
                    "Which language model? Give --generator-url and --generator-model, or set "
                    "WYE_GENERATOR__URL and WYE_GENERATOR__MODEL."
                )
            endpoint = JudgeSettings(
                generator_url,
                generator_model,
                os.environ.get("WYE_GENERATOR__KEY", ""),
                tokens=REPLY_TOKENS,
            )
            with JudgeClient(endpoint) as model:
                prices = price_sent, price_received
                refiner = Refiner(
                    what, session.snapshot.corpus, store, session.analyser, model, prices=prices
                )
                try:
                    found = refiner.run(
                        alpha,
                        way,
                        lambda extent: confirm(str(extent) if extent else "", yes=yes),
                        progress(),
                        seed=seed,
                        at_once=at_once,
                    )
                except TrainingError:
                    typer.echo(str(refiner.report), err=True)
                    raise
        typer.echo(rounded_json(asdict(found)) if as_json else str(found))
        if found.interrupted:
            raise typer.Exit(INTERRUPTED)
