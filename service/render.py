"""What commands print: decisions, explanations and hits, for people and as JSON."""

from collections.abc import Collection, Sequence
from dataclasses import asdict

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from wye import Hit, Hits
from wye.backends.files import plain, rounded_json
from wye.backends.trigraph.explanation import EntityNote, Explanation
from wye.backends.types import RankedHit
from wye.featurizer.plan import Plan
from wye.router.policy import bands
from wye.router.relevance import ABSTAIN_BELOW
from wye.router.types import ChainStep, Contribution, Decision, FusedHit, Route, Thresholds
from wye.service.terminal import excerpt, passage_line

GAUGE = 40
SHOWN_FEATURES = 10
SHOWN_ENTITIES = 15
SHOWN_NAMES = 5
STYLES = {Route.GRAPH: "magenta", Route.FUSION: "yellow", Route.STEPS: "green"}
SIMPLE_STYLE = "cyan"


def show_decision(console: Console, decision: Decision) -> None:
    """Print a decision: the score on the scale of the thresholds and, if asked for, why."""
    console.print(_headline(decision))
    if decision.summary:
        console.print(Text(decision.summary))
    if decision.score is not None and decision.thresholds is not None:
        console.print(_gauge(decision.score, decision.thresholds))
    if decision.nearest_change is not None:
        console.print(Text(change_of(decision), style="dim"))
    if decision.contributions:
        console.print(_contributions(decision.contributions))


def show_plan(console: Console, question: str, plan: Plan) -> None:
    """Print a line for each step of a plan, innermost first."""
    for level, steps in enumerate(plan.levels(), 1):
        for step in steps:
            phrase, facts = question[slice(*step.span)], f"  {step.wanted}, {step.kind}"
            console.print(Text.assemble((f"step {level}  ", "dim"), phrase, (facts, "dim")))


def change_of(decision: Decision) -> str:
    """A sentence on the smallest change of the score that changes the route; "" for none."""
    change = decision.nearest_change
    if change is None:
        return ""
    direction = "higher" if change.score > 0 else "lower"
    return (
        f"A score {abs(change.score):.3f} {direction}, at {change.threshold:.3f}, "
        f"would make it {change.route}."
    )


def _headline(decision: Decision) -> Text:
    line = Text("route ", style="dim")
    line.append(str(decision.route), style=f"bold {STYLES.get(decision.route, SIMPLE_STYLE)}")
    if decision.score is not None:
        line.append(f"  score {decision.score:.3f}")
    if decision.reason != "score":
        line.append(f"  {decision.reason}", style="yellow")
    if decision.model:
        line.append(f"  {decision.model}", style="dim")
    return line


def _gauge(score: float, thresholds: Thresholds) -> Text:
    """The scale from 0 to 1 with the bands of simple, fusion and graph, and the score on it."""
    styles = (SIMPLE_STYLE, "yellow", "magenta")
    line = Text("  0 ", style="dim")
    for cell, band in enumerate(bands((np.arange(GAUGE) + 0.5) / GAUGE, thresholds).tolist()):
        style = styles[band]
        is_score = cell == min(int(score * GAUGE), GAUGE - 1)
        line.append("●" if is_score else "━", style=f"bold {style}" if is_score else style)
    line.append(f" 1  low {thresholds.low:.3f}, high {thresholds.high:.3f}", style="dim")
    return line


def _contributions(contributions: tuple[Contribution, ...]) -> Table:
    baseline, *features = contributions
    others = features[SHOWN_FEATURES:]
    columns = ("feature", _right("value"), _right("logit"))
    table = _table("Why: what each feature adds to the score's logit", *columns)
    table.add_row(Text(baseline.name, style="dim"), "", f"{baseline.logit:+.3f}")
    for each in features[:SHOWN_FEATURES]:
        value = "" if each.value is None else f"{each.value:.4g}"
        table.add_row(each.name, value, f"{each.logit:+.3f}")
    if others:
        total = sum(each.logit for each in others)
        table.add_row(Text(f"({len(others)} more)", style="dim"), "", f"{total:+.3f}")
    total = sum(each.logit for each in contributions)
    table.add_row(Text("sum", style="bold"), "", f"{total:+.3f}", style="bold")
    return table


def show_chain(console: Console, chain: Sequence[ChainStep]) -> None:
    """Print each phrase that was resolved, with the names found for it and their sentences."""
    table = _table(
        "Steps: names put in the place of phrases",
        *(_right("level"), "searched for", "name", _right("confidence")),
        Column("found in", overflow="fold"),
    )
    for step in chain:
        cells: tuple[str | Text, str | Text] = (str(step.level), Text(step.asked))
        for name in step.candidates[:SHOWN_NAMES]:
            source = Text(f"{name.passage}: {name.sentence}" if name.sentence else name.passage)
            table.add_row(*cells, Text(name.name), f"{name.confidence:.2f}", source)
            cells = "", ""
        if not step.candidates:
            table.add_row(*cells, Text("nothing", style="yellow"))
    console.print(table)


def show_explanation(console: Console, explanation: Explanation) -> None:
    """Print the seeds, the activated entities with their bridges, and the passages' shares."""
    console.print(_seeds(explanation))
    if explanation.entities:
        console.print(_entities(explanation))
    console.print(_passages(explanation))


def _seeds(explanation: Explanation) -> Table:
    columns = ("question", "entity", "found by", _right("value"))
    table = _table("Seeds: what the question names", *columns)
    for seed in explanation.seeds:
        table.add_row(Text(seed.mention), Text(seed.entity), seed.origin, f"{seed.value:.2f}")
    if not explanation.seeds:
        table.add_row(Text("nothing that the graph knows", style="yellow"))
    return table


def _entities(explanation: Explanation) -> Table:
    entities = explanation.entities[:SHOWN_ENTITIES]
    more = len(explanation.entities) - len(entities)
    table = _table(
        "Entities: what became active" + (f" (and {more} more)" if more else ""),
        *(_right("level"), "entity", _right("value"), Column("reached over", overflow="fold")),
    )
    for entity in entities:
        name, value = Text(entity.entity), f"{entity.value:.2f}"
        table.add_row(str(entity.level), name, value, _bridge(entity))
    return table


def _bridge(entity: EntityNote) -> Text:
    bridge = entity.bridge
    if bridge is None:
        return Text("the question", style="dim")
    origin = bridge.source or "the question"
    source = f"from {origin}, similarity {bridge.similarity:.2f}, in {bridge.passage}: "
    return Text.assemble((source, "dim"), " ".join(bridge.sentence.split()))


def _passages(explanation: Explanation) -> Table:
    entities = Column("active entities in it", overflow="fold")
    columns = ("passage", _right("prior"), _right("PageRank"), "named in", entities)
    table = _table("Passages: shares of the mass before and after the walk", *columns)
    for passage in explanation.passages:
        shares = f"{passage.prior:.2%}", f"{passage.pagerank:.2%}"
        named_in, names = Text(passage.named_in), Text(", ".join(passage.entities))
        table.add_row(Text(passage.id), *shares, named_in, names)
    return table


def _table(title: str, *columns: str | Column) -> Table:
    return Table(
        *columns, title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD
    )


def _right(heading: str) -> Column:
    return Column(heading, justify="right")


def show_hits(console: Console, hits: Hits, *, explain: bool = False) -> None:
    """Print hits with excerpts, the decision and, if asked for, how they were found."""
    console.print(Text(hits.question, style="bold"), _facts(hits))
    if hits.decision is not None:
        show_decision(console, hits.decision)
        show_plan(console, hits.question, hits.decision.plan)
    for hit, ranked in zip(hits, hits.reply.ranking.hits, strict=True):
        console.print(_line_of(hit, ranked))
        console.print(excerpt(hit.text))
    if explain and hits.reply.chain:
        show_chain(console, hits.reply.chain)
    if hits.explanation is not None:
        show_explanation(console, hits.explanation)
    console.print()


def list_hits(console: Console, hits: Hits, *, gold: Collection[str]) -> None:
    """Print the route and one line for each hit; hits in `gold` are marked."""
    chosen = f"{Route.AUTO}, which takes {hits.route}" if hits.decision else str(hits.route)
    console.print(Text(chosen, style="bold cyan"), _facts(hits, route=False))
    for hit, ranked in zip(hits, hits.reply.ranking.hits, strict=True):
        console.print(_line_of(hit, ranked, marked=hit.id in gold))


def hits_json(replies: Sequence[Hits], *, explain: bool) -> str:
    """Hits as JSON, without timings, so that the same index and questions give the same bytes."""
    return rounded_json([_value(hits, explain=explain) for hits in replies])


def decision_value(decision: Decision, *, explain: bool) -> dict[str, object]:
    """A decision as plain values; without `explain`, its details are None, as over HTTP."""
    details = () if explain else ("contributions", "nearest_change", "trees", "plan")
    return {**asdict(decision), **dict.fromkeys(details)}


def _facts(hits: Hits, *, route: bool = True) -> Text:
    total = f"{1000 * sum(hits.seconds.values()):.1f} ms"
    facts = Text(f"{hits.route}, {total}" if route else total, style="dim")
    if hits.degraded:
        facts.append(f"\n  note: {hits.degraded}", style="yellow not dim")
    if hits.answerability is not None and hits.answerability < ABSTAIN_BELOW:
        facts.append(
            f"\n  probably not in this corpus (probability of an answer {hits.answerability:.2f})",
            style="yellow not dim",
        )
    if not hits:
        facts.append("\n  nothing found", style="yellow not dim")
    return facts


def _line_of(hit: Hit, ranked: RankedHit, *, marked: bool = False) -> Text:
    line = passage_line(hit.rank, hit.score, hit.title, hit.id, hit.relevance, marked=marked)
    if isinstance(ranked, FusedHit):
        ranks = ", ".join(f"{source.retriever} {source.rank}" for source in ranked.sources)
        line.append(f"  ({ranks})", style="dim")
    return line


def _value(hits: Hits, *, explain: bool) -> dict[str, object]:
    ranking = hits.reply.ranking
    value: dict[str, object] = {
        "question": hits.question,
        "route": str(hits.route),
        "index_version": hits.reply.version,
        "candidates": ranking.candidates,
        "degraded": hits.degraded,
        "answerability": hits.answerability,
        "hits": [_hit_value(*pair) for pair in zip(hits, ranking.hits, strict=True)],
    }
    if hits.decision is not None:
        value["decision"] = plain(decision_value(hits.decision, explain=explain))
    if hits.explanation is not None:
        value["explanation"] = plain(hits.explanation)
    if explain and hits.reply.chain:
        value["steps"] = plain(hits.reply.chain)
    return value


def _hit_value(hit: Hit, ranked: RankedHit) -> dict[str, object]:
    value: dict[str, object] = {
        "id": hit.id,
        "rank": hit.rank,
        "score": hit.score,
        "relevance": hit.relevance,
        "title": hit.title,
        "text": hit.text,
        "metadata": dict(hit.metadata),
    }
    if isinstance(ranked, FusedHit):
        value["sources"] = [plain(source) for source in ranked.sources]
    return value
