"""`wye features`: the features that routers read from a question."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree as Drawing

from wye.service.commands.options import JsonOption
from wye.service.terminal import messages, output

if TYPE_CHECKING:
    from wye.featurizer.constituency.tree import Tree
    from wye.featurizer.types import Syntax


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
    from wye.backends.files import rounded_json

    described = None if question is None else _describe(question)
    if as_json:
        typer.echo(rounded_json(_registry() if described is None else _values(described)))
    elif described is None:
        _list_features(output())
    else:
        _show(output(), described)


@dataclass(frozen=True, slots=True)
class DescribedQuestion:
    """A question with its features.

    Attributes:
        values: Values of the features, in the order of the registry.
        notes: Sentences about anything unusual.
    """

    question: str
    syntax: "Syntax"
    values: Sequence[float]
    schema_id: str
    notes: Sequence[str]


def _describe(question: str) -> DescribedQuestion:
    from wye.featurizer.analyser import open_syntax_parser
    from wye.featurizer.registry import feature_row, schema_id
    from wye.router.gateway import check
    from wye.service.settings import load_settings

    check([question], 1)
    settings = load_settings().analyser
    with messages().status("Loading the models"):
        parser = open_syntax_parser(settings)
    (syntax,) = parser.parse([question])
    values = feature_row(syntax)
    notes = []
    if syntax.unread:
        notes.append(f"The last {syntax.unread:,} characters were not read; shorten the question.")
    if flat := sum(syntax.flat):
        notes.append(
            f"{flat} of {len(syntax.flat)} sentences have no tree, since they are too long or the "
            "model failed: all their words are under one X."
        )
    return DescribedQuestion(question, syntax, values, schema_id(parser.fingerprint), notes)


def _registry() -> list[dict[str, object]]:
    from wye.featurizer.registry import FEATURES

    return [
        {
            "name": feature.name,
            "group": feature.group,
            "unit": feature.unit,
            "meaning": feature.doc,
            "source": feature.source,
            "version": feature.version,
        }
        for feature in FEATURES
    ]


def _values(described: DescribedQuestion) -> dict[str, object]:
    from wye.featurizer.plan import plan_by_dependencies
    from wye.featurizer.registry import FEATURES

    text, syntax = described.question, described.syntax
    sentences = zip(syntax.sentences, syntax.trees, syntax.flat, strict=True)
    return {
        "question": text,
        "schema_id": described.schema_id,
        "notes": described.notes,
        "sentences": [
            {
                "text": text[syntax.tokens[start].span[0] : syntax.tokens[end - 1].span[1]],
                "tree": str(tree),
                "flat": flat,
            }
            for (start, end), tree, flat in sentences
        ],
        "plan": asdict(plan_by_dependencies(syntax.tokens, syntax.sentences)),
        "features": [
            {"name": feature.name, "group": feature.group, "value": value}
            for feature, value in zip(FEATURES, described.values, strict=True)
        ],
    }


def _list_features(console: Console) -> None:
    from wye.featurizer.registry import FEATURES

    rows = [
        (Text(feature.unit, style="dim"), feature.doc, Text(feature.source, style="dim"))
        for feature in FEATURES
    ]
    console.print(_table(("feature", "unit", "meaning", "source"), rows))
    console.print(f"{len(FEATURES)} features. wye features QUESTION shows those of a question.")


def _show(console: Console, described: DescribedQuestion) -> None:
    from wye.featurizer.plan import plan_by_dependencies
    from wye.featurizer.registry import FEATURES
    from wye.service.render import show_plan

    for tree in described.syntax.trees:
        console.print(draw(tree))
    syntax = described.syntax
    plan = plan_by_dependencies(syntax.tokens, syntax.sentences)
    show_plan(console, described.question, plan)
    rows = [
        (f"{value:.6g}", Text(feature.unit, style="dim"))
        for feature, value in zip(FEATURES, described.values, strict=True)
    ]
    styles = ["" if value else "dim" for value in described.values]
    table = _table(("feature", "value", "unit"), rows, styles)
    table.columns[1].justify = "right"
    console.print(table)
    for note in described.notes:
        console.print(f"note: {note}", style="yellow")


def _table(
    columns: Sequence[str],
    rows: Iterable[Sequence[str | Text]],
    styles: Sequence[str] | None = None,
) -> Table:
    """A table of features by group; each row has the feature's name, then its cells."""
    from wye.featurizer.registry import FEATURES

    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    group = ""
    for feature, cells, style in zip(FEATURES, rows, styles or [""] * len(FEATURES), strict=True):
        if feature.group != group:
            group = feature.group
            table.add_section()
            table.add_row(Text(group, style="bold cyan"))
        table.add_row(feature.name, *cells, style=style)
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


def _line(node: "Tree") -> Text:
    if node.is_preterminal:
        return _leaf_text(node)
    line = Text(node.label, style="bold cyan")
    if all(child.is_preterminal for child in node.children):
        for child in node.children:
            line.append("  ").append_text(_leaf_text(child))
    return line


def _leaf_text(node: "Tree") -> Text:
    return Text(node.children[0].label).append(f" {node.label}", style="dim")
