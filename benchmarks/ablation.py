"""What each extension of the graph arm gives: switched off alone, and added one by one.

`python -m benchmarks.ablation DATASET --index DIR [--index DIR ...]`. The second table starts
at LinearRAG as published. How sentences were encoded is settled when a corpus is indexed, so that
is compared by naming several indexes of it. Means have 95 % bootstrap intervals. The last column is
the change of R@5, question by question: against the default where something is switched off,
against the row above where something is added.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from backends.errors import BackendError
from backends.store.index import Index
from backends.trigraph.retriever import PUBLISHED, TriGraphRetriever, TriGraphSettings
from backends.types import Float64, Query
from benchmarks import report
from benchmarks.questions import Analyse, with_models
from router.session import Snapshot
from router.settings import load_settings
from training.data.dataset import Dataset, read_dataset
from training.evaluation.bootstrap import Interval, interval, resampled_means
from training.evaluation.measures import ALL_EVIDENCE, MEASURES, score

BATCH = 32
DEPTH = 10
SHOWN = ("R@5", ALL_EVIDENCE, "Success@1", "nDCG@10")
CHANGE = "change of R@5"
CELL = 20


@dataclass(frozen=True, slots=True)
class Variant:
    """The graph arm with some settings.

    Attributes:
        name: What is different.
        settings: All of them.
    """

    name: str
    settings: TriGraphSettings


def without() -> Iterator[Variant]:
    """The defaults, and each extension switched off alone."""
    default = TriGraphSettings()
    plain = PUBLISHED
    yield Variant("default", default)
    yield from (
        Variant(f"- {name}", settings)
        for name, settings in (
            ("title entities", _assembly(default, title_entities=False)),
            ("linked text", _assembly(default, link_text=False)),
            ("noun phrases", _assembly(default, noun_phrases="off")),
            ("seeds from vocabulary", _seeds(default, vocabulary=False)),
            ("bridging", replace(default, steps=1)),
            ("sums: largest value", replace(default, summed=False)),
            ("degree power", replace(default, degree_power=plain.degree_power)),
            ("title prior", replace(default, title_weight=plain.title_weight)),
            ("lexical prior", _lexical(default, PUBLISHED)),
            ("similarity: weight 1.5", replace(default, similarity_weight=1.5)),
            ("threshold: 0.5", replace(default, threshold=plain.threshold)),
        )
    )
    yield Variant("+ noun phrases always", _assembly(default, noun_phrases="on"))
    yield Variant("local walks", replace(default, walk="local"))


def added() -> Iterator[Variant]:
    """LinearRAG as published, and each extension on top of those before; ends at the defaults."""
    default = TriGraphSettings()
    settings = PUBLISHED
    yield Variant("published", settings)
    settings = replace(settings, seeds=replace(default.seeds, vocabulary=False))
    yield Variant("seeds by name, not by vector", settings)
    settings = _assembly(settings, title_entities=True)
    yield Variant("+ title entities", settings)
    settings = _assembly(settings, link_text=True)
    yield Variant("+ linked text", settings)
    settings = replace(settings, seeds=default.seeds)
    yield Variant("+ seeds from vocabulary", settings)
    settings = replace(settings, degree_power=default.degree_power)
    yield Variant("+ degree power", settings)
    settings = replace(settings, title_weight=default.title_weight)
    yield Variant("+ title prior", settings)
    settings = _lexical(settings, default)
    yield Variant("+ lexical prior", settings)
    settings = replace(settings, similarity_weight=default.similarity_weight)
    yield Variant("+ similarity weight", settings)
    settings = replace(settings, threshold=default.threshold)
    yield Variant("+ threshold", settings)
    settings = replace(settings, assembly=default.assembly)
    yield Variant("+ noun phrases = default", settings)


def main(argv: Sequence[str] | None = None, analyse: Analyse = with_models) -> None:
    """Print the tables."""
    parser = report.parser(__doc__)
    parser.add_argument("dataset", type=Path, help="folder in BEIR's layout")
    parser.add_argument("--index", type=Path, action="append", required=True, help="of its corpus")
    parser.add_argument("--split", default="dev", help="whose questions are asked")
    parser.add_argument("--resamples", type=int, default=10_000, help="of the bootstrap")
    arguments = parser.parse_args(argv)
    dataset = read_dataset(arguments.dataset, arguments.split)
    report.print_header(
        "Graph arm: what each extension gives",
        seed=arguments.seed,
        data=f"{dataset.name} ({dataset.split}), {len(dataset.questions)} questions",
    )
    texts = [question.text for question in dataset.questions]
    for folder in arguments.index:
        index = Index.open(folder)
        sentences = index.fingerprint.get("sentence_vectors", "?")
        print(f"# index    {folder.resolve().name}, sentence vectors: {sentences}\n")
        queries = analyse(folder, texts)
        snapshot = Snapshot(index, load_settings())
        judge = _Judge(snapshot, dataset, queries, arguments.resamples, arguments.seed)
        for variants, against_first in ((without(), True), (added(), False)):
            judge.print(variants, against_first=against_first)
            print()


@dataclass(frozen=True, slots=True)
class _Judge:
    """Scores variants on one index."""

    snapshot: Snapshot
    dataset: Dataset
    queries: Sequence[Query]
    resamples: int
    seed: int

    def print(self, variants: Iterator[Variant], *, against_first: bool) -> None:
        """Print a table of variants."""
        columns = [name.rjust(CELL) for name in (*SHOWN, CHANGE)]
        table = report.Table(["variant", *columns], width=30)
        before: Float64 | None = None
        for variant in variants:
            try:
                values = self._values(variant.settings)
            except BackendError as error:
                print(f"{variant.name}: not measured. {error}", flush=True)
                continue
            change = "-" if before is None else self._cells(values[:, :1] - before[:, :1])[0]
            table.row(variant.name, *self._cells(values), change)
            if before is None or not against_first:
                before = values

    def _values(self, settings: TriGraphSettings) -> Float64:
        """(questions, measures shown)."""
        lexical = self.snapshot.lexical.scores if settings.weighs_lexical else None
        graph = TriGraphRetriever(self.snapshot.corpus, settings, lexical)
        run: dict[str, list[str]] = {}
        for start in range(0, len(self.queries), BATCH):
            asked = self.dataset.questions[start : start + BATCH]
            found = graph.search(self.queries[start : start + BATCH], DEPTH)
            for question, ranking in zip(asked, found, strict=True):
                run[question.id] = [hit.id for hit in ranking.hits]
        values = score({q.id: self.dataset.judgements[q.id] for q in self.dataset.questions}, run)
        return values[:, [MEASURES.index(name) for name in SHOWN]]

    def _cells(self, values: Float64) -> list[str]:
        drawn = resampled_means(values, resamples=self.resamples, seed=self.seed)
        columns = zip(values.T, drawn.T, strict=True)
        return [_cell(interval(column, means)) for column, means in columns]


def _cell(found: Interval) -> str:
    mean, low, high = (_short(value) for value in (found.mean, found.low, found.high))
    return f"{mean} [{low}, {high}]"


def _short(value: float) -> str:
    """Three decimals, without the zero in front."""
    return f"{value:.3f}".replace("0.", ".", 1)


def _assembly(settings: TriGraphSettings, **changes: object) -> TriGraphSettings:
    return replace(settings, assembly=replace(settings.assembly, **changes))  # type: ignore[arg-type]


def _seeds(settings: TriGraphSettings, **changes: object) -> TriGraphSettings:
    return replace(settings, seeds=replace(settings.seeds, **changes))  # type: ignore[arg-type]


def _lexical(settings: TriGraphSettings, like: TriGraphSettings) -> TriGraphSettings:
    return replace(
        settings,
        lexical_weight=like.lexical_weight,
        lexical_weight_titled=like.lexical_weight_titled,
    )


if __name__ == "__main__":
    main()
