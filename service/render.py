"""What commands print: decisions, explanations and hits, for people and as JSON."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from wye.backends.files import plain, rounded_json
from wye.backends.types import RankedHit, Source
from wye.hits import Hit, Hits
from wye.router.types import Answered, ChainStep, Contribution, Decision, Route, answered

if TYPE_CHECKING:
    from wye.backends.trigraph.explanation import EntityNote, Explanation
    from wye.featurizer.plan import Plan

SHOWN_FEATURES = 10
SHOWN_ENTITIES = 15
SHOWN_NAMES = 5
EXCERPT = 240
INDENT = 14
HIT_FIELDS = ("id", "rank", "score", "relevance", "title", "text", "metadata")
STYLES = {Route.GRAPH: "magenta", Route.FUSION: "yellow", Route.STEPS: "green"}
SIMPLE_STYLE = "cyan"
Cell = str | Text


def show_decision(console: Console, decision: Decision) -> None:
    """Print a decision with its score and thresholds and, if asked for, why."""
    line = Text("route ", style="dim")
    line.append(str(decision.route), style=f"bold {STYLES.get(decision.route, SIMPLE_STYLE)}")
    if decision.score is not None:
        line.append(f"  score {decision.score:.3f}")
    if decision.reason != "score":
        line.append(f"  {decision.reason}", style="yellow")
    if decision.model:
        line.append(f"  {decision.model}", style="dim")
    console.print(line)
    if decision.summary:
        console.print(Text(decision.summary))
    if decision.score is not None and (thresholds := decision.thresholds) is not None:
        scale = f"Simple up to {thresholds.low:.3f}, the graph from {thresholds.high:.3f} on."
        console.print(Text(scale, style="dim"))
    if decision.contributions:
        console.print(_contributions(decision.contributions))


def show_plan(console: Console, question: str, plan: "Plan") -> None:
    """Print a line for each step of a plan, innermost first."""
    for level, steps in enumerate(plan.levels(), 1):
        for step in steps:
            phrase, facts = question[slice(*step.span)], f"  {step.wanted}, {step.kind}"
            console.print(Text.assemble((f"step {level}  ", "dim"), phrase, (facts, "dim")))


def _contributions(contributions: tuple[Contribution, ...]) -> Table:
    baseline, *features = contributions
    rows: list[tuple[Cell, ...]] = [(baseline.name, "", f"{baseline.logit:+.3f}")]
    for each in features[:SHOWN_FEATURES]:
        value = "" if each.value is None else f"{each.value:.4g}"
        rows.append((each.name, value, f"{each.logit:+.3f}"))
    if others := features[SHOWN_FEATURES:]:
        rows.append((f"({len(others)} more)", "", f"{sum(each.logit for each in others):+.3f}"))
    rows.append(("sum", "", f"{sum(each.logit for each in contributions):+.3f}"))
    title = "Why: what each feature adds to the score's logit"
    return _table(title, ("feature", ">value", ">logit"), rows)


def show_chain(console: Console, chain: Sequence[ChainStep]) -> None:
    """Print each phrase that was resolved, with the names found for it and their sentences."""
    rows: list[tuple[Cell, ...]] = []
    for step in chain:
        cells: tuple[Cell, Cell] = (str(step.level), step.asked)
        for name in step.candidates[:SHOWN_NAMES]:
            source = f"{name.passage}: {name.sentence}" if name.sentence else name.passage
            rows.append((*cells, name.name, f"{name.confidence:.2f}", source))
            cells = "", ""
        if not step.candidates:
            rows.append((*cells, Text("nothing", style="yellow")))
    columns = (">level", "searched for", "name", ">confidence", "found in")
    console.print(_table("Steps: names put in the place of phrases", columns, rows))


def show_explanation(console: Console, explanation: "Explanation") -> None:
    """Print the seeds, the activated entities with their bridges, and the passages' shares."""
    seeds: list[Sequence[Cell]] = [
        (seed.mention, seed.entity, seed.origin, f"{seed.value:.2f}") for seed in explanation.seeds
    ]
    seeds = seeds or [(Text("nothing that the graph knows", style="yellow"),)]
    columns = ("question", "entity", "found by", ">value")
    console.print(_table("Seeds: what the question names", columns, seeds))
    if explanation.entities:
        more = len(explanation.entities) - SHOWN_ENTITIES
        title = "Entities: what became active" + (f" (and {more} more)" if more > 0 else "")
        reached = (
            (str(each.level), each.entity, f"{each.value:.2f}", _bridge(each))
            for each in explanation.entities[:SHOWN_ENTITIES]
        )
        console.print(_table(title, (">level", "entity", ">value", "reached over"), reached))
    shares = (
        (p.id, f"{p.prior:.2%}", f"{p.pagerank:.2%}", p.named_in, ", ".join(p.entities))
        for p in explanation.passages
    )
    shown = ("passage", ">prior", ">PageRank", "named in", "active entities in it")
    console.print(_table("Passages: shares of the mass before and after the walk", shown, shares))


def _bridge(entity: "EntityNote") -> Text:
    bridge = entity.bridge
    if bridge is None:
        return Text("the question", style="dim")
    origin = bridge.source or "the question"
    source = f"from {origin}, similarity {bridge.similarity:.2f}, in {bridge.passage}: "
    return Text.assemble((source, "dim"), _flat(bridge.sentence))


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Table:
    """A table; columns that begin with > are numbers, and the last one may be folded."""
    headings = [
        Column(name.removeprefix(">"), justify="right" if name[0] == ">" else "left")
        for name in columns
    ]
    headings[-1].overflow = "fold"
    table = Table(
        *headings, title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD
    )
    for row in rows:
        table.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row))
    return table


def show_hits(console: Console, hits: Hits, *, explain: bool = False) -> None:
    """Print hits with excerpts, the decision and, if asked for, how they were found."""
    console.print(Text(hits.question, style="bold"), _facts(hits))
    if hits.reply.decision is not None:
        show_decision(console, hits.reply.decision)
        show_plan(console, hits.reply.searched or hits.question, hits.reply.decision.plan)
    for hit, ranked in zip(hits, hits.reply.ranking.hits, strict=True):
        console.print(_line_of(hit, ranked.sources))
        _show_excerpt(console, hit.text)
    if explain and hits.reply.chain:
        show_chain(console, hits.reply.chain)
    if hits.explanation is not None:
        show_explanation(console, hits.explanation)
    console.print()


def show_reply(console: Console, reply: Mapping[str, Any]) -> None:
    """Print a reply of `/v1/retrieve`; a `KeyError` or `TypeError` if it is none."""
    route, chance = reply["route"], reply["answerability"]
    notes = _notes(reply["degraded"], answered(chance), chance, len(reply["passages"]))
    notes += _of_search(reply.get("searched", ""), reply.get("folded", 0))
    facts = f"{route['path']}, {reply['timings_ms']['total']:.1f} ms"
    console.print(Text(reply["question"], style="bold"), _with_notes(facts, notes))
    if route["summary"]:
        console.print(Text(route["summary"]))
    for passage in reply["passages"]:
        hit = Hit(**{name: passage[name] for name in HIT_FIELDS})
        sources = [Source(*each.values()) for each in passage["sources"]]
        console.print(_line_of(hit, sources if len(sources) > 1 else ()))
        _show_excerpt(console, hit.text)
    console.print()


def _show_excerpt(console: Console, text: str) -> None:
    text = _flat(text)
    excerpt = text if len(text) <= EXCERPT else text[:EXCERPT].rsplit(" ", 1)[0] + " ..."
    console.print(Padding(Text(excerpt), (0, 0, 0, INDENT)))


def list_hits(console: Console, hits: Hits, *, gold: Collection[str]) -> None:
    """Print the route and one line for each hit; hits in `gold` are marked."""
    route = f"{Route.AUTO}, which takes {hits.route}" if hits.reply.decision else str(hits.route)
    console.print(Text(route, style="bold cyan"), _facts(hits, route=False))
    for hit, ranked in zip(hits, hits.reply.ranking.hits, strict=True):
        console.print(_line_of(hit, ranked.sources, marked=hit.id in gold))


def hits_json(replies: Sequence[Hits], *, explain: bool) -> str:
    """Hits as JSON, without timings, so that the same index and questions give the same bytes."""
    return rounded_json([_value(hits, explain=explain) for hits in replies])


def decision_value(decision: Decision, *, explain: bool) -> dict[str, object]:
    """A decision as plain values; without `explain`, its details are None, as over HTTP."""
    details = () if explain else ("contributions", "trees", "plan")
    return {**asdict(decision), **dict.fromkeys(details)}


_DOUBTS = {"no": "probably not in this corpus", "unsure": "not sure that this is here"}


def _facts(hits: Hits, *, route: bool = True) -> Text:
    total = f"{1000 * sum(hits.seconds.values()):.1f} ms"
    notes = _notes(hits.degraded, hits.answered, hits.answerability, len(hits))
    notes += _of_search(hits.reply.searched, sum(map(len, hits.reply.duplicates.values())))
    return _with_notes(f"{hits.route}, {total}" if route else total, notes)


def _notes(degraded: str, verdict: Answered | None, chance: float | None, count: int) -> list[str]:
    notes = [f"note: {degraded}"] if degraded else []
    if verdict in _DOUBTS:
        notes.append(f"{_DOUBTS[verdict]} (probability of an answer {chance:.2f})")
    return notes if count else [*notes, "nothing found"]


def _of_search(searched: str, folded: int) -> list[str]:
    behind = f"{folded} near-duplicates were put behind the other passages"
    return [f"searched for: {searched}"] * bool(searched) + [behind] * bool(folded)


def _with_notes(facts: str, notes: Iterable[str]) -> Text:
    return Text.assemble((facts, "dim"), *((f"\n  {note}", "yellow") for note in notes))


def _line_of(hit: Hit, sources: Sequence[Source], *, marked: bool = False) -> Text:
    line = Text(f"{hit.rank:>3}  ")
    line.append(f"{hit.score:.4f} ", style="cyan")
    line.append("* " if marked else "  ", style="bold green")
    line.append(_flat(hit.title or hit.id), style="bold green" if marked else "bold")
    line.append(f"  {_flat(hit.id)}", style="dim")
    if hit.relevance is not None:
        line.append(f"  relevance {hit.relevance:.2f}", style="dim")
    if sources:
        ranks = ", ".join(f"{source.retriever} {source.rank}" for source in sources)
        line.append(f"  ({ranks})", style="dim")
    return line


def _flat(text: str) -> str:
    return " ".join(text.split())


def _value(hits: Hits, *, explain: bool) -> dict[str, object]:
    reply = hits.reply
    value: dict[str, object] = {
        "question": hits.question,
        "route": str(hits.route),
        "index_version": reply.version,
        "candidates": reply.ranking.candidates,
        "degraded": hits.degraded,
        "answerability": hits.answerability,
        "answered": hits.answered,
        "hits": [_hit_value(*pair) for pair in zip(hits, reply.ranking.hits, strict=True)],
    }
    if reply.searched:
        value["searched"] = reply.searched
    if reply.decision is not None:
        value["decision"] = plain(decision_value(reply.decision, explain=explain))
    if hits.explanation is not None:
        value["explanation"] = plain(hits.explanation)
    if explain and reply.chain:
        value["steps"] = plain(reply.chain)
    return value


def _hit_value(hit: Hit, ranked: RankedHit) -> dict[str, object]:
    sources = {"sources": [*map(plain, ranked.sources)]} if ranked.sources else {}
    values = {name: getattr(hit, name) for name in HIT_FIELDS}
    return {**values, "metadata": dict(hit.metadata), **sources}
