"""How the graph arm came to a ranking, for people."""

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from backends.explanation import EntityNote, Explanation

SHOWN_ENTITIES = 15


def show_explanation(console: Console, explanation: Explanation) -> None:
    """Print seeds, activated entities with the sentences that led to them, and passage shares.

    Args:
        console: Where to.
        explanation: Of one ranking.
    """
    console.print(_seeds(explanation))
    if explanation.entities:
        console.print(_entities(explanation))
    console.print(_passages(explanation))


def _seeds(explanation: Explanation) -> Table:
    table = _table("Seeds: what the question names")
    for heading in ("question", "entity", "found by"):
        table.add_column(heading)
    table.add_column("value", justify="right")
    for seed in explanation.seeds:
        table.add_row(Text(seed.mention), Text(seed.entity), seed.origin, f"{seed.value:.2f}")
    if not explanation.seeds:
        table.add_row(Text("nothing that the graph knows", style="yellow"))
    return table


def _entities(explanation: Explanation) -> Table:
    shown = explanation.entities[:SHOWN_ENTITIES]
    more = len(explanation.entities) - len(shown)
    table = _table("Entities: what became active" + (f" (and {more} more)" if more else ""))
    table.add_column("level", justify="right")
    table.add_column("entity")
    table.add_column("value", justify="right")
    table.add_column("reached over", overflow="fold")
    for entity in shown:
        name, value = Text(entity.entity), f"{entity.value:.2f}"
        table.add_row(str(entity.level), name, value, _bridge(entity))
    return table


def _bridge(entity: EntityNote) -> Text:
    bridge = entity.bridge
    if bridge is None:
        return Text("the question", style="dim")
    source = f"from {bridge.source}, similarity {bridge.similarity:.2f}, in {bridge.passage}: "
    return Text.assemble((source, "dim"), " ".join(bridge.sentence.split()))


def _passages(explanation: Explanation) -> Table:
    table = _table("Passages: shares of the mass before and after the walk")
    table.add_column("passage")
    table.add_column("prior", justify="right")
    table.add_column("PageRank", justify="right")
    table.add_column("active entities in it", overflow="fold")
    for passage in explanation.passages:
        shares = f"{passage.prior:.2%}", f"{passage.pagerank:.2%}"
        table.add_row(Text(passage.id), *shares, Text(", ".join(passage.entities)))
    return table


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
