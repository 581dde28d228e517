"""Fits the router that ships for corpora without an index.

`python -m wye.training.passages DATASET=INDEX ... --out models` treats our own arms as remote ones:
it uses only the passages and their order in the text arms' list and in the graph's. Each question
counts twice, once with hybrid and once with dense search. If passages have no titles, the router
sees none of a question's names covered, and so asks the graph.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from wye.backends.types import Ranking, Silent
from wye.router.evidence import FIRST_PASSAGES
from wye.router.fusion import fuse_text
from wye.router.remote import RemoteList, ReturnedPassages, fuse_remote, passage_schema
from wye.router.scorer import Trees
from wye.router.settings import Settings, load_settings
from wye.router.types import Route
from wye.training.data.evaluation_set import EvaluationSet
from wye.training.data.replay import RemoteReplay, Replayed, TrainingReplay
from wye.training.data.replaying import Replays, parse_source
from wye.training.fit.router import Choices, Fitted, TrainingSet, fit
from wye.training.labels import HELPS, disagreements
from wye.training.run import DEV, TRAIN, command_line, write_router
from wye.training.thresholds.solve import ThresholdObjective

NAME = "router-passages-en"
CALL_WORTH = 0.01
"""What one call to the graph costs, in nDCG@10; without a price, every question would be asked."""
_DEPTH = 20


def as_if_remote(
    replay: TrainingReplay, simple: Route, texts: dict[str, tuple[str, str]], settings: Settings
) -> TrainingReplay:
    """A replay in which our own arms take the place of remote ones.

    Args:
        simple: Hybrid or dense.
        texts: Title and text of the first passages, by id.
    """

    def as_remote(row: Replayed) -> Replayed:
        ranking = _simple(row, simple, settings)
        graph = row.results.rankings[Route.GRAPH]
        graph = replace(graph, hits=graph.hits[:_DEPTH])
        returned = ReturnedPassages(
            row.question.text, [texts[hit.id] for hit in ranking.hits[:FIRST_PASSAGES]]
        )
        fused = fuse_remote(ranking, [RemoteList(graph, "rank", 1.0)], _DEPTH, by_scores=False)
        return replace(
            row, remote=RemoteReplay(fused, 1.0, simple=ranking, returned=returned), steps=None
        )

    return replace(replay, questions=tuple(map(as_remote, replay.questions)))


def _simple(row: Replayed, simple: Route, settings: Settings) -> Ranking:
    (fused,) = fuse_text([row.results], settings.fusion, _DEPTH)
    ranking = row.results.rankings.get(simple, fused)
    return replace(ranking, hits=ranking.hits[:_DEPTH])


def _variants(
    replays: Replays, replay: TrainingReplay, settings: Settings
) -> Iterator[TrainingReplay]:
    for simple in (Route.HYBRID, Route.DENSE):
        ids = {
            hit.id
            for row in replay.questions
            for hit in _simple(row, simple, settings).hits[:FIRST_PASSAGES]
        }
        texts = {
            id_: (passage.title, passage.text)
            for id_, passage in replays.passages(replay, sorted(ids)).items()
        }
        yield as_if_remote(replay, simple, texts, settings)


def fit_passages(settings: Settings, sources: Sequence[str], cache: Path) -> Fitted:
    """Fit on the train and dev splits of DATASET=INDEX sources.

    Raises:
        TrainingError: A dataset or an index is missing, or nothing can be learned.
    """
    replays = Replays(settings, cache / "replays", Silent)
    parsed = [parse_source(text, None) for text in sources]
    variants = [
        variant
        for split in (TRAIN, DEV)
        for replay in replays.training(parsed, split)
        for variant in _variants(replays, replay, settings)
    ]
    questions = EvaluationSet.load(variants, cache / "features", settings.analyser)
    disagreement = disagreements(variants, Route.HYBRID, HELPS, settings.fusion)
    choices = Choices(
        success=HELPS,
        kind=Trees.kind,
        unfamiliar=0.0,
        simple=Route.HYBRID,
        goal=ThresholdObjective(latency_weight=CALL_WORTH),
        fusion=settings.fusion,
    )
    return fit(TrainingSet.of(questions, disagreement), questions.names, choices, Silent())


def main() -> None:
    """Fit the router, write it, and print its folder."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("sources", nargs="+", help="DATASET=INDEX")
    parser.add_argument("--out", type=Path, default=Path("models"), help="folder of models")
    parser.add_argument("--name", default=NAME, help="name of the router")
    parser.add_argument("--cache", type=Path, default=Path(".cache/wye"), help="folder of replays")
    arguments = parser.parse_args()
    fitted = fit_passages(load_settings(), arguments.sources, arguments.cache)
    command = command_line(["-m wye.training.passages", *sys.argv[1:]])
    folder, _ = write_router(
        fitted,
        None,
        arguments.out,
        arguments.name,
        {"schema_id": passage_schema(), "command": command, "seconds": {}},
        policy=replace(fitted.policy, latency_ms={}),  # unknown before an arm is called
    )
    print(folder)  # noqa: T201 - a program's output


if __name__ == "__main__":
    main()
