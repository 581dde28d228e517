"""`wye features`: the features that routers read from a question."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.tree import Tree as Drawing

from wye.service.commands.options import JsonOption
from wye.service.terminal import messages, output

if TYPE_CHECKING:
    from wye.featurizer.constituency.tree import Tree


def features(
    question: Annotated[
        str | None,
        typer.Argument(
            metavar="QUESTION", help="Question whose features to show; without one, all are listed."
        ),
    ] = None,
    *,
    as_json: JsonOption = False,
) -> None:
    """List the features of questions, or show one question's values, tree and plan."""
    if question is None:
        _list(as_json=as_json)
    else:
        _describe(question, as_json=as_json)


def _list(*, as_json: bool) -> None:
    from wye.backends.files import rounded_json
    from wye.featurizer.registry import FEATURES

    if as_json:
        names = ("name", "group", "unit", "source", "version")
        typer.echo(
            rounded_json(
                [
                    {**{name: getattr(each, name) for name in names}, "meaning": each.doc}
                    for each in FEATURES
                ]
            )
        )
        return
    rows = ((each.group, each.name, each.unit, each.doc, each.source) for each in FEATURES)
    output().print(_table(("feature", "unit", "meaning", "source"), rows))
    output().print(f"{len(FEATURES)} features. wye features QUESTION shows those of a question.")


def _describe(question: str, *, as_json: bool) -> None:
    from wye.backends.files import rounded_json
    from wye.featurizer.analyser import open_syntax_parser
    from wye.featurizer.plan import plan_by_dependencies
    from wye.featurizer.registry import FEATURES, feature_row, schema_id
    from wye.router.gateway import check
    from wye.service.render import show_plan
    from wye.service.settings import load_settings

    check([question], 1)
    with messages().status("Loading the models"):
        parser = open_syntax_parser(load_settings().analyser)
    (syntax,) = parser.parse([question])
    values = zip(FEATURES, feature_row(syntax), strict=True)
    plan = plan_by_dependencies(syntax.tokens, syntax.sentences)
    notes = []
    if syntax.unread:
        notes.append(f"The last {syntax.unread:,} characters were not read; shorten the question.")
    if flat := sum(syntax.flat):
        notes.append(
            f"{flat} of {len(syntax.flat)} sentences have no tree, since they are too long or the "
            "model failed: all their words are under one X."
        )
    if as_json:
        sentences = []
        for (start, end), tree, is_flat in zip(
            syntax.sentences, syntax.trees, syntax.flat, strict=True
        ):
            text = question[syntax.tokens[start].span[0] : syntax.tokens[end - 1].span[1]]
            sentences.append({"text": text, "tree": str(tree), "flat": is_flat})
        described = {
            "question": question,
            "schema_id": schema_id(parser.fingerprint),
            "notes": notes,
            "sentences": sentences,
            "plan": asdict(plan),
            "features": [
                {"name": each.name, "group": each.group, "value": value} for each, value in values
            ],
        }
        typer.echo(rounded_json(described))
        return
    console = output()
    for tree in syntax.trees:
        console.print(draw(tree))
    show_plan(console, question, plan)
    rows = ((each.group, each.name, f"{value:.6g}", each.unit) for each, value in values)
    console.print(_table(("feature", "value", "unit"), rows))
    for note in notes:
        console.print(f"note: {note}", style="yellow")


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table of features; the first cell of a row is the group, which has a line of its own."""
    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    group = ""
    for row in rows:
        if row[0] != group:
            group = row[0]
            table.add_row(group, style="bold cyan")
        table.add_row(*row[1:])
    return table


def draw(tree: "Tree") -> Drawing:
    """Draw a tree with a line for each phrase; a phrase of words alone is a single line."""
    top = Drawing(_line(tree), guide_style="dim")
    pending = [(tree, top)]
    while pending:
        node, drawing = pending.pop()
        if node.is_preterminal or all(child.is_preterminal for child in node.children):
            continue
        # Rich draws branches in the order in which they were added.
        pending += [(child, drawing.add(_line(child))) for child in node.children]
    return top


def _line(node: "Tree") -> str:
    if node.is_preterminal:
        return f"{node.children[0].label} {node.label}"
    if all(child.is_preterminal for child in node.children):
        return "  ".join([node.label, *map(_line, node.children)])
    return node.label
