"""`wye demo`: index both demo corpora, and ask each some questions over several routes.

With `--serve`, the first is served with the console instead.
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wye.router.routes import Route
from wye.service.commands.index import BadLines, ingest, open_sources
from wye.service.terminal import PortOption, output

if TYPE_CHECKING:
    from rich.console import Console

    from wye.service.settings import ServiceSettings

FOLDER = Path("demo-index")
COLLECTION = "demo"
SHOWN = 3
ROUTES = (Route.AUTO, Route.DENSE, Route.HYBRID, Route.GRAPH, Route.STEPS)
"""Routes that are shown for a question of each kind."""
WORK = "-work"  # the folder of the second corpus' index ends like this
WORK_KINDS = ("multi-step", "identifier", "row", "mail", "latest-version")
"""Kinds of questions about the second corpus that are shown."""


@dataclass(frozen=True, slots=True)
class JudgedQuestion:
    """A question of the demo with the passages that answer it."""

    kind: str
    text: str
    gold: frozenset[str]

    def is_gold(self, passage: str) -> bool:
        """Whether a passage answers it: judgements may name its document or its file."""
        parts = (f"{id_}{mark}" for id_ in self.gold for mark in "#:")
        return passage in self.gold or passage.startswith(tuple(parts))


def demo(
    *,
    index: Annotated[Path, typer.Option(help="Folder of the demo's index.")] = FOLDER,
    serves: Annotated[
        bool, typer.Option("--serve", help="Serve it with the console instead of searching it.")
    ] = False,
    port: PortOption = None,
) -> None:
    """Index two small corpora that ship with Wye, and search them by several routes.

    One is an encyclopedia's, the other a company's folder of files in thirteen formats.
    """
    from wye.service.commands.serve import refuse_taken_address
    from wye.service.settings import load_settings

    settings = load_settings(index=index)
    if serves:
        refuse_taken_address(settings.serve.host, settings.serve.port if port is None else port)
    console = output()
    with as_file(files("wye.service") / "demo") as corpus:
        _index(settings, index, corpus, console)
        if serves:
            from wye.service.commands.serve import serve

            os.environ.setdefault("WYE_SERVE__LOGS", "text")
            # This name tells the console to offer the demo's examples.
            serve(index=[f"{COLLECTION}={index}"], port=port)
            return
        questions = judged_questions(corpus, ("train", "dev"))
    with as_file(files("wye.service") / "demo_steps") as folder:
        nested = judged_questions(folder, ("test",))
    _ask(settings, index, one_of_each_kind(questions + nested), console)
    work = index.with_name(index.name + WORK)
    settings = settings.model_copy(update={"index": work})
    with as_file(files("wye.service") / "demo_work") as folder:
        _index(settings, work, folder / "files", console)
        judged = judged_questions(folder, ("dev",))
    kinds = [question for question in judged if question.kind in WORK_KINDS]
    _ask(settings, work, one_of_each_kind(kinds), console)
    console.print(
        "* marks a passage that answers the question. The nested question is one of twelve chosen "
        "because only steps find all of it; half of the demo's questions go in steps, so `auto` "
        "takes longer than fusion here. Ask your own:\n"
        f'  wye search "Who ...?" --index {index} --explain\n'
        f"  wye index YOUR-FOLDER --index my-index"
    )


def _ask(
    settings: "ServiceSettings", index: Path, judged: Iterable[JudgedQuestion], console: "Console"
) -> None:
    import wye
    from wye.service.render import list_hits

    with wye.open(index, settings=settings) as opened:
        for question in judged:
            console.rule(f"a question of kind {question.kind}", style="dim")
            console.print(question.text, style="bold")
            for route in ROUTES:
                hits = opened.search(question.text, k=SHOWN, route=route)
                list_hits(console, hits, gold=[hit.id for hit in hits if question.is_gold(hit.id)])
            console.print()


def _index(settings: "ServiceSettings", folder: Path, corpus: Path, console: "Console") -> None:
    bad = BadLines()
    report = ingest(settings, open_sources([corpus], bad), bad, {})
    if report.interrupted:
        raise typer.Exit(130)
    total = report.added + report.updated + report.unchanged
    seconds = sum(report.seconds.values())
    outcome = "indexed" if report.unchanged < total else "were there already"
    console.print(f"{total} passages {outcome} in {folder} ({seconds:.1f} s).")


def judged_questions(corpus: Path, splits: Sequence[str]) -> list[JudgedQuestion]:
    """Read the demo's judged questions of some splits."""
    lines = (corpus / "queries.jsonl").read_text(encoding="utf-8").splitlines()
    paths = [corpus / "qrels" / f"{split}.tsv" for split in splits]
    judged = [line for path in paths for line in path.read_text("utf-8").splitlines()[1:]]
    gold: dict[str, set[str]] = {}
    for line in judged:
        question, passage, relevance = line.split("\t")
        if int(relevance) > 0:
            gold.setdefault(question, set()).add(passage)
    rows = {row["_id"]: row for row in map(json.loads, lines)}
    return [
        JudgedQuestion(rows[id_]["metadata"]["type"], rows[id_]["text"], frozenset(answers))
        for id_, answers in gold.items()
    ]


def one_of_each_kind(questions: list[JudgedQuestion]) -> Iterator[JudgedQuestion]:
    """The first judged question of each kind, in the order of kinds."""
    first = {question.kind: question for question in reversed(questions)}
    yield from (first[kind] for kind in sorted(first))
