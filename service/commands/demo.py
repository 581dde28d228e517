"""`wye demo`: index the demo corpus, and ask it a question of each kind over each route.

With `--serve`, it is served instead, and the console asks.
"""

import json
import os
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.types import Route
from service.commands.index import BadLines, ingest_files
from service.commands.options import PortOption
from service.errors import ServiceError
from service.terminal import output

if TYPE_CHECKING:
    from rich.console import Console

    from service.settings import ServiceSettings

FOLDER = Path("demo-index")
COLLECTION = "demo"
SHOWN = 3


def demo(
    *,
    index: Annotated[Path, typer.Option("--index", help="Where to put the demo's index.")] = FOLDER,
    serves: Annotated[
        bool, typer.Option("--serve", help="Serve it with the console, instead of searching here.")
    ] = False,
    port: PortOption = None,
) -> None:
    """Index a small corpus that comes with Wye, and search it through every arm."""
    import wye
    from service.doctor import refuse_taken_address
    from service.render import list_hits
    from service.settings import load_settings

    settings = load_settings(index=index)
    if serves:
        refuse_taken_address(settings.serve.host, settings.serve.port if port is None else port)
    console = output()
    with as_file(files("service") / "demo") as corpus:
        _index(settings, index, corpus, console)
        if serves:
            _serve(index, port)
            return
        questions = _one_of_each_kind(corpus)
        with wye.open(index, settings=settings) as opened:
            for kind, question, gold in questions:
                console.rule(f"a question of kind {kind}", style="dim")
                console.print(question, style="bold")
                for route in (Route.DENSE, Route.LEXICAL, Route.GRAPH, Route.FUSION):
                    list_hits(console, opened.search(question, k=SHOWN, route=route), gold=gold)
                console.print()
    console.print(
        f"* marks a passage that answers the question. Ask your own:\n"
        f'  wye search "Who ...?" --index {index} --route graph --explain\n'
        f"  wye index YOUR-FOLDER --index my-index"
    )


def _serve(folder: Path, port: int | None) -> None:
    """Under a name by which the console knows that its examples fit."""
    from service.commands.serve import serve

    os.environ.setdefault("WYE_SERVE__LOGS", "text")
    serve(index=[f"{COLLECTION}={folder}"], port=port)


def _index(settings: "ServiceSettings", folder: Path, corpus: Path, console: "Console") -> None:
    report = ingest_files(settings, [corpus], BadLines(strict=True))
    if report.interrupted:
        raise typer.Exit(130)
    total = report.added + report.updated + report.unchanged
    seconds = sum(report.seconds.values())
    done = "indexed" if report.unchanged < total else "were there already"
    console.print(f"{total} passages {done} in {folder} ({seconds:.1f} s).")


def _one_of_each_kind(corpus: Path) -> list[tuple[str, str, frozenset[str]]]:
    """Kind, text and known answers of the first judged question of each kind.

    Raises:
        ServiceError: The demo's files are not there.
    """
    try:
        lines = (corpus / "queries.jsonl").read_text(encoding="utf-8").splitlines()
        judged = (corpus / "qrels" / "train.tsv").read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ServiceError(f"The demo's corpus is incomplete: {error}. Install again.") from None
    gold: dict[str, set[str]] = {}
    for line in judged[1:]:
        question, passage, relevance = line.split("\t")
        if int(relevance) > 0:
            gold.setdefault(question, set()).add(passage)
    chosen: dict[str, tuple[str, str, frozenset[str]]] = {}
    for line in lines:
        row = json.loads(line)
        kind = row["metadata"]["type"]
        if row["_id"] in gold and kind not in chosen:
            chosen[kind] = (kind, row["text"], frozenset(gold[row["_id"]]))
    return [chosen[kind] for kind in sorted(chosen)]
