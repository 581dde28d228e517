"""Questions with and without an answer, asked of indexes, as evidence for relevance.

Each index is asked five kinds of questions: its own; the same in a copy without their relevant
passages; its own in copies with few passages; questions of other datasets; and near misses, which
name what the index knows and ask what it does not say.
"""

import shutil
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import numpy as np
from rich import print as say

from wye.backends.store.documents import Removal, remove
from wye.backends.types import Float64
from wye.router.relevance import Judgement, RouteRanking, evidence_on
from wye.router.session import ModelCache, Session
from wye.router.settings import Settings
from wye.router.types import USUAL, Ask, Route
from wye.training.data import judged_id, lacking, read_dataset, readable_lines
from wye.training.near_misses import Pattern, near_misses, pattern_of

HITS = 10
BATCH = 32
MOST = 100
"""Questions of a dataset that are asked, chosen by their hash."""
FOREIGN = 20
"""Questions of each other dataset that an index is asked."""
SIZES = (28, 60, 120, 200)
"""Passages of the copies with few of them."""
ROUTES = tuple(route for route in USUAL if route != Route.AUTO)


@dataclass(frozen=True, slots=True)
class Example:
    """One route's answer to one question, as evidence.

    Attributes:
        route: Name of the curves that judge it: the route's, or `wye.router.relevance.FEW`.
        family: The dataset that the question comes from.
        kind: "own", or a key of `wye.training.relevance.UNANSWERED` without an answer.
        passages: (m, d) evidence of the first hits.
        relevant: (m,) 1 where the passage is relevant.
        answer: (d,) evidence for an answer.
    """

    route: str
    family: str
    kind: str
    passages: Float64
    relevant: Float64
    answer: Float64


class Questions:
    """The questions of some splits of a dataset, with the index that answers them.

    Beside BEIR's files, a folder may have `near_misses.jsonl` and `other_subjects.jsonl` with
    questions that have no answer; each line has `text` and `split`.
    """

    def __init__(self, pair: str, splits: Sequence[str]) -> None:
        """Read the questions; a dataset with none of the splits has none, but its index is asked.

        Args:
            pair: "DATASET=INDEX", or "DATASET" for questions that only other indexes are asked.

        Raises:
            DatasetError: The dataset cannot be read, or the index has no passage that is relevant.
        """
        name, _, index = pair.partition("=")
        folder, self.index = Path(name), Path(index)
        names = [split for split in splits if (folder / "qrels" / f"{split}.tsv").exists()]
        data = [read_dataset(folder, split) for split in names]
        for part in data if index else ():
            lacking(part, self.index)
        questions = {q.id: (q, q.group or part.name) for part in data for q in part.questions}
        ids = sorted(questions, key=_hash)[:MOST]
        self.texts = {id_: questions[id_][0].text for id_ in ids}
        self.families = {id_: questions[id_][1] for id_ in ids}
        self.gold = {
            id_: frozenset(key for key, value in part.judgements[id_].items() if value > 0)
            for part in data
            for id_ in part.judgements.keys() & self.texts.keys()
        }
        metadata = (
            (row["_id"], row.get("metadata") or {})
            for row in readable_lines(folder / "queries.jsonl")
        )
        self._rows = {id_: fields["row"] for id_, fields in metadata if "row" in fields}
        self.near, self.other = (
            [row["text"] for row in readable_lines(folder / file) if row["split"] in splits]
            for file in ("near_misses.jsonl", "other_subjects.jsonl")
        )

    @property
    def family(self) -> str:
        """The dataset of its first question; "" without any."""
        return next(iter(self.families.values()), "")

    def is_relevant(self, id_: str, passage: str, text: str) -> bool:
        """Whether a judge marks a passage, or the document that it is part of.

        Of a table, only the rows that have the texts of the question's `row` are relevant.

        Args:
            id_: Id of the question.
            passage: Id of the passage.
            text: Its title and text.
        """
        document = judged_id(passage, self.gold[id_])
        cells: Iterable[str] = self._rows.get(id_, {}).get(document, ())
        return document in self.gold[id_] and all(c.lower() in text.lower() for c in cells)


@dataclass(frozen=True, slots=True)
class _Stored:
    """The passages of an index, and which of them answer each question."""

    source: Questions
    ids: list[str]
    texts: list[tuple[str, str]]
    relevant: dict[str, set[int]]

    def patterns(self, ids: Iterable[str]) -> list[Pattern]:
        """The patterns of some questions."""
        patterns = (
            pattern_of(self.source.texts[id_], [self.texts[row] for row in self.relevant[id_]])
            for id_ in ids
        )
        return [pattern for pattern in patterns if pattern]


def _stored(session: Session, source: Questions) -> _Stored:
    corpus = session.snapshot.corpus
    ids, texts = list(corpus.ids), list(corpus.iter_texts())
    judged = frozenset[str]().union(*source.gold.values())
    rows: dict[str, list[int]] = {}
    for row, id_ in enumerate(ids):
        rows.setdefault(judged_id(id_, judged), []).append(row)
    relevant = {
        id_: {
            row
            for document in gold
            for row in rows.get(document, ())
            if source.is_relevant(id_, ids[row], "\n".join(texts[row]))
        }
        for id_, gold in source.gold.items()
    }
    return _Stored(source, ids, texts, relevant)


@dataclass
class _Recorder:
    """Takes the place of a model of relevance, and keeps what it should judge."""

    rankings: dict[str, RouteRanking] = field(default_factory=dict)

    def judge(self, rankings: Sequence[RouteRanking]) -> list[Judgement]:
        """Keep the rankings by question."""
        self.rankings.update((ranking.question, ranking) for ranking in rankings)
        return [Judgement()] * len(rankings)


def ask(
    session: Session, source: Questions, questions: Mapping[str, str], kind: str
) -> Iterator[Example]:
    """Yield examples of every route for some questions.

    Args:
        source: Where the questions come from.
        questions: Id -> text; ids that `source` does not know have its first family.
    """
    recorder = _Recorder()
    # The gateway calls nothing but `judge`.
    gateway = replace(session.gateway, relevance_model=recorder)  # type: ignore[arg-type]
    for route in ROUTES:
        recorder.rankings.clear()
        texts = [*dict.fromkeys(questions.values())]
        for start in range(0, len(texts), BATCH):
            gateway.search(texts[start : start + BATCH], Ask(route, HITS))
        for id_, text in questions.items():
            ranking = recorder.rankings.get(text)
            if ranking is None or not ranking.ranking.hits:
                continue
            curves, evidence = evidence_on(ranking, session.settings.fusion.depth)
            pairs = zip(ranking.ranking.ids(), ranking.texts, strict=True)
            relevant = [
                kind == "own" and source.is_relevant(id_, hit, "\n".join(text_of_hit))
                for hit, text_of_hit in pairs
            ]
            family = source.families.get(id_, source.family)
            outcome = np.array(relevant, np.float64)
            yield Example(curves, family, kind, evidence.passages, outcome, evidence.answer)


def gather(settings: Settings, data: Sequence[Questions], scratch: Path) -> list[Example]:
    """Collect examples of all kinds from all datasets.

    Args:
        scratch: Folder for copies of the indexes.
    """
    examples: list[Example] = []
    with ModelCache() as models:
        stored = []
        for source in data:
            if source.index != Path():
                with Session.open(settings, source.index, models) as session:
                    stored.append(_stored(session, source))
        patterns = {one.source.family: one.patterns(one.source.texts) for one in stored}
        for one in stored:
            foreign = [
                pattern
                for family, of_family in patterns.items()
                if family != one.source.family
                for pattern in of_family
            ]
            with Session.open(settings, one.source.index, models) as session:
                examples += _whole(session, one, foreign, data)
            for which in (0, 1):
                half = [id_ for id_ in one.source.texts if _hash(id_) % 2 == which]
                gone = {row for id_ in half for row in one.relevant[id_]}
                with _Copy(settings, models, one, gone, scratch) as session:
                    texts = {id_: one.source.texts[id_] for id_ in half}
                    examples += ask(session, one.source, texts, "removed")
            for size in SIZES:
                if size < len(one.ids) / 2:
                    examples += _few(settings, models, one, foreign, size, scratch)
            say(f"{one.source.index}: {len(one.source.texts)} questions")
    return examples


def _whole(
    session: Session, one: _Stored, foreign: Sequence[Pattern], data: Sequence[Questions]
) -> Iterator[Example]:
    """Examples from a whole index."""
    source = one.source
    yield from ask(session, source, source.texts, "own")
    made = near_misses(one.patterns(source.texts), foreign, one.texts)
    for kind, texts in (("near", [*made, *source.near]), ("foreign", source.other)):
        yield from ask(session, source, {f"{kind} {text}": text for text in texts}, kind)
    for other in data:
        if set(other.families.values()).isdisjoint(source.families.values()):
            sample = {id_: other.texts[id_] for id_ in islice(other.texts, FOREIGN)}
            yield from ask(session, other, sample, "foreign")


def _few(  # noqa: PLR0917 - one for each thing that varies
    settings: Settings,
    models: ModelCache,
    one: _Stored,
    foreign: Sequence[Pattern],
    size: int,
    scratch: Path,
) -> Iterator[Example]:
    """Examples from a copy with few passages, which answers some questions and others not."""
    kept: set[int] = set()
    own: dict[str, str] = {}
    for id_ in sorted(one.source.texts, key=lambda id_: _hash(f"{size} {id_}")):
        if len(kept | one.relevant[id_]) <= size / 2:
            kept |= one.relevant[id_]
            own[id_] = one.source.texts[id_]
    absent = ((id_, text) for id_, text in one.source.texts.items() if not one.relevant[id_] & kept)
    removed = dict(islice(absent, len(own)))
    avoided = {row for id_ in removed for row in one.relevant[id_]}
    others = (row for row in range(len(one.ids)) if row not in kept | avoided)
    by_hash = sorted(others, key=lambda row: _hash(f"{size} {one.ids[row]}"))
    kept.update(by_hash[: size - len(kept)])
    with _Copy(settings, models, one, set(range(len(one.ids))) - kept, scratch) as session:
        yield from ask(session, one.source, own, "own")
        yield from ask(session, one.source, removed, "removed")
        texts = [one.texts[row] for row in sorted(kept)]
        near = near_misses(one.patterns(own), foreign, texts)
        yield from ask(session, one.source, {f"near {text}": text for text in near}, "near")


class _Copy:
    """A copy of an index without some passages, which is deleted after use."""

    def __init__(
        self, settings: Settings, models: ModelCache, one: _Stored, gone: set[int], scratch: Path
    ) -> None:
        self._folder = scratch / "copy"
        shutil.copytree(one.source.index, self._folder)
        remove(self._folder, Removal(ids=tuple(one.ids[row] for row in sorted(gone))))
        self._session = Session.open(settings, self._folder, models)

    def __enter__(self) -> Session:
        return self._session.__enter__()

    def __exit__(self, *exception: object) -> None:
        self._session.close()
        shutil.rmtree(self._folder)


def _hash(text: str) -> int:
    return zlib.crc32(text.encode())
