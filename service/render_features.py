"""Features and constituency trees for people and for programs."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree as Drawing

from backends.files import rounded_json
from featurizer.constituency.tree import Tree
from featurizer.registry import FEATURES, Reference
from featurizer.types import Syntax


@dataclass(frozen=True, slots=True)
class Described:
    """A question with its features, in the order of the registry."""

    question: str
    syntax: Syntax
    values: Sequence[float]
    schema_id: str
    reference: Reference

    @property
    def comparable(self) -> bool:
        """Whether the reference set has values of the same features, by the same models."""
        return self.schema_id == self.reference.schema_id

    def percentiles(self) -> list[float | None]:
        """Of each value; None where they cannot be compared."""
        if not self.comparable:
            return [None] * len(self.values)
        return [
            self.reference.percentile(feature.name, value)
            for feature, value in zip(FEATURES, self.values, strict=True)
        ]

    def notes(self) -> list[str]:
        """What is not as it would be expected, in sentences."""
        found = []
        if not self.comparable:
            found.append(
                f"No percentiles: the reference set has feature schema "
                f"{self.reference.schema_id}, and these values have {self.schema_id}. Unset "
                "WYE_ANALYSER__*, or compute the set anew: python -m training.feature_reference."
            )
        if self.syntax.unread:
            found.append(
                f"The last {self.syntax.unread:,} characters were not read; ask something shorter."
            )
        if flat := sum(self.syntax.flat):
            found.append(
                f"{flat} of {len(self.syntax.flat)} sentences have no tree, being too long or "
                "beyond the model: all their words stand under one X."
            )
        return found


def list_features(console: Console) -> None:
    """Print the registry."""
    table = _table("feature", "unit", "meaning", "source")
    group = ""
    for feature in FEATURES:
        if feature.group != group:
            group = feature.group
            table.add_section()
            table.add_row(Text(group, style="bold cyan"))
        dim = [Text(text, style="dim") for text in (feature.unit, feature.source)]
        table.add_row(feature.name, dim[0], feature.doc, dim[1])
    console.print(table)
    console.print(f"{len(FEATURES)} features. wye features QUESTION shows those of a question.")


def listed_json() -> str:
    """The registry as JSON, in the order of a feature matrix's columns."""
    return rounded_json(
        [
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
    )


def show_described(console: Console, described: Described) -> None:
    """Print trees, values and percentiles, and what is to be known of them."""
    for tree in described.syntax.trees:
        console.print(draw(tree))
    table = _table("feature", "value", "percentile", "unit")
    for column in table.columns[1:3]:
        column.justify = "right"
    group = ""
    for feature, value, percentile in zip(
        FEATURES, described.values, described.percentiles(), strict=True
    ):
        if feature.group != group:
            group = feature.group
            table.add_section()
            table.add_row(Text(group, style="bold cyan"))
        table.add_row(
            feature.name,
            f"{value:.6g}",
            "-" if percentile is None else f"{percentile:.0f}",
            Text(feature.unit, style="dim"),
            style="" if value else "dim",
        )
    console.print(table)
    total = sum(described.reference.sources.values())
    if described.comparable:
        console.print(f"Percentiles are among {total} questions that come with Wye.", style="dim")
    for note in described.notes():
        console.print(f"note: {note}", style="yellow")


def described_json(described: Described) -> str:
    """The same as JSON."""
    text, syntax = described.question, described.syntax
    return rounded_json(
        {
            "question": text,
            "schema_id": described.schema_id,
            "reference": {
                "schema_id": described.reference.schema_id,
                "questions": dict(described.reference.sources),
            },
            "notes": described.notes(),
            "sentences": [
                {
                    "text": text[syntax.tokens[start].span[0] : syntax.tokens[end - 1].span[1]],
                    "tree": str(tree),
                    "flat": flat,
                }
                for (start, end), tree, flat in zip(
                    syntax.sentences, syntax.trees, syntax.flat, strict=True
                )
            ],
            "features": [
                {
                    "name": feature.name,
                    "group": feature.group,
                    "value": value,
                    "percentile": percentile,
                }
                for feature, value, percentile in zip(
                    FEATURES, described.values, described.percentiles(), strict=True
                )
            ],
        }
    )


def draw(tree: Tree) -> Drawing:
    """A tree with a line for each phrase; one that holds nothing but words is a single line."""
    top = Drawing(_line(tree), guide_style="dim")
    pending = [(tree, top)]
    while pending:
        node, drawing = pending.pop()
        if node.is_preterminal or all(child.is_preterminal for child in node.children):
            continue
        # Rich draws branches in the order in which they were added.
        pending += [(child, drawing.add(_line(child))) for child in node.children]
    return top


def _line(node: Tree) -> Text:
    if node.is_preterminal:
        return _tagged(node)
    line = Text(node.label, style="bold cyan")
    if all(child.is_preterminal for child in node.children):
        for child in node.children:
            line.append("  ").append_text(_tagged(child))
    return line


def _tagged(node: Tree) -> Text:
    return Text(node.children[0].label).append(f" {node.label}", style="dim")


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name)
    return table
