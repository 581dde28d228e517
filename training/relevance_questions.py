"""Questions with and without an answer, asked of indexes, as evidence for relevance.

Each index is asked five kinds of questions: its own; the same in a copy without their relevant
passages; its own in copies with few passages; questions of other datasets; and near misses, which
name what the index knows and ask what it does not say.
"""

import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from rich import print as say

from wye.backends.store.documents import Removal, remove
from wye.backends.text import content_terms
from wye.backends.types import Float64
from wye.router.answers import names_in
from wye.router.match import RouteRanking
from wye.router.relevance import Judgement, evidence_on
from wye.router.session import ModelCache, Session
from wye.router.settings import Settings
from wye.router.types import USUAL, Ask, Route
from wye.training.data import judged_id, lacking, read_dataset, read_objects
from wye.training.errors import DatasetError

HITS = 10
BATCH = 32
MOST = 100  # questions of a dataset that are asked, chosen by their hash
FOREIGN = 20  # questions of each other dataset that an index is asked
SIZES = (28, 60, 120, 200)  # passages of the copies with few of them
ROUTES = tuple(route for route in USUAL if route != Route.AUTO)
TRIES = 60  # names or patterns that are tried for each near miss

Texts = tuple[str, str]  # title and text of a passage


@dataclass(frozen=True, slots=True)
class Example:
    """One route's answer to one question, as evidence."""

    route: str  # name of the curves that judge it: the route's, or `wye.router.relevance.FEW`
    family: str  # the dataset that the question comes from
    kind: str  # "own", or a key of `wye.training.relevance.UNANSWERED` without an answer
    passages: Float64  # (m, d) evidence of the first hits
    relevant: Float64  # (m,) 1 where the passage is relevant
    answer: Float64  # (d,) evidence for an answer


class Questions:
    """The questions of some splits of a dataset, with the index that answers them.

    Beside BEIR's files, a folder may have `near_misses.jsonl` and `other_subjects.jsonl` with
    questions that have no answer; each line has `text` and `split`.
    """

    def __init__(self, folder: Path, index: Path | None, splits: Sequence[str]) -> None:
        """Read the questions of splits that there are; without an index only others are asked them.

        A `DatasetError` if the dataset cannot be read, or the index has no passage that is
        relevant.
        """
        self.index = index
        names = [split for split in splits if (folder / "qrels" / f"{split}.tsv").exists()]
        data = [read_dataset(folder, split) for split in names]
        if index:
            for part in data:
                lacking(part, index)
        questions = {q.id: (q, q.group or part.name) for part in data for q in part.questions}
        ids = sorted(questions, key=_hash)[:MOST]
        self.texts = {id_: questions[id_][0].text for id_ in ids}
        self.families = {id_: questions[id_][1] for id_ in ids}
        self.rows = {id_: questions[id_][0].row for id_ in ids}
        self.gold = {
            id_: frozenset(key for key, value in part.judgements[id_].items() if value > 0)
            for part in data
            for id_ in part.judgements.keys() & self.texts.keys()
        }
        self.near, self.other = (
            _without_answer(folder / file, splits)
            for file in ("near_misses.jsonl", "other_subjects.jsonl")
        )

    @property
    def family(self) -> str:
        """The dataset of its first question; "" without any."""
        return next(iter(self.families.values()), "")

    def is_relevant(self, id_: str, passage: str, text: str) -> bool:
        """Whether a judge marks a passage with such a text, or its document, for a question.

        Of a table, only the rows that have the texts of the question's `row` are relevant.
        """
        document = judged_id(passage, self.gold[id_])
        cells = self.rows[id_].get(document, ())
        return document in self.gold[id_] and all(c.lower() in text.lower() for c in cells)


def _without_answer(path: Path, splits: Sequence[str]) -> list[str]:
    """The questions of some splits in a file of such lines; none if there is no file."""
    texts = []
    for number, row in read_objects(path) if path.is_file() else ():
        if not isinstance(text := row.get("text"), str):
            raise DatasetError(f'{path}:{number} needs "text" and "split", both strings.')
        texts += [text] * (row.get("split") in splits)
    return texts


@dataclass(frozen=True, slots=True)
class Pattern:
    """A question with a gap where its name was."""

    before: str
    after: str
    name: str
    others: frozenset[str]  # content terms of all its names
    attributes: frozenset[str]  # its other terms that its passages have

    def __str__(self) -> str:
        return self.with_name("…")  # the same in every run, which the order of a set is not

    def with_name(self, name: str) -> str:
        """The question about something else."""
        return f"{self.before}{name}{self.after}"


def pattern_of(question: str, passages: Iterable[Texts]) -> Pattern | None:
    """The pattern "Who founded …?" of a question; None if its passages have nothing of it."""
    whole = "\n".join(f"{title}\n{text}" for title, text in passages)
    names = names_in(question)
    name = next((name for name in names if name in whole and content_terms(name)), None)
    if name is None:
        return None
    others = frozenset(content_terms(" ".join(names)))
    attributes = frozenset(content_terms(question)) - others
    before, _, after = question.partition(name)
    pattern = Pattern(before, after, name, others, attributes & frozenset(content_terms(whole)))
    return pattern if pattern.attributes else None


def near_misses(
    patterns: Sequence[Pattern], foreign: Sequence[Pattern], passages: Iterable[Texts]
) -> list[str]:
    """Questions about the names of some patterns that no passage of a corpus answers.

    Each pattern gives at most two: it takes the name of another, and its name goes into one of the
    foreign patterns, those of other corpora. The new question has no answer if no passage that has
    the name has any of the pattern's attributes. Nothing is drawn by chance: the order of names and
    patterns is that of a hash.
    """
    terms = [frozenset(content_terms(f"{title}\n{text}")) for title, text in passages]
    rows: dict[str, set[int]] = {}
    for row, of_passage in enumerate(terms):
        for term in of_passage:
            rows.setdefault(term, set()).add(row)

    def is_near_miss(pattern: Pattern, name: str) -> bool:
        of_name = frozenset(content_terms(name))
        if of_name & (pattern.others | pattern.attributes):
            return False
        having = set[int].intersection(*(rows.get(term, set()) for term in of_name))
        return bool(having) and not any(pattern.attributes & terms[row] for row in having)

    def shuffled(values: Iterable[Any], seed: str) -> list[Any]:
        return sorted(values, key=lambda value: _hash(f"{seed}\n{value}"))

    questions: dict[str, None] = {}
    names = sorted({pattern.name for pattern in patterns})
    for pattern in patterns:
        with_names = ((pattern, name) for name in shuffled(names, pattern.before))
        of_foreign = ((one, pattern.name) for one in shuffled(foreign, pattern.name))
        for pairs in (with_names, of_foreign):
            fits = (pair for pair in islice(pairs, TRIES) if is_near_miss(*pair))
            questions.update((one.with_name(name), None) for one, name in islice(fits, 1))
    return [*questions]


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
    """Yield examples of every route for questions by id; unknown ids have the first family."""
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
            found = evidence_on(ranking, session.settings.fusion.depth)
            pairs = zip(ranking.ranking.ids(), ranking.texts, strict=True)
            relevant = [
                kind == "own" and source.is_relevant(id_, hit, "\n".join(text_of_hit))
                for hit, text_of_hit in pairs
            ]
            family = source.families.get(id_, source.family)
            outcome = np.array(relevant, np.float64)
            yield Example(found.curves, family, kind, found.passages, outcome, found.answer)


class _Corpus:
    """An index with its passages, and which of them answer each question of its dataset."""

    def __init__(
        self, settings: Settings, models: ModelCache, source: Questions, index: Path
    ) -> None:
        self._settings, self._models, self.index = settings, models, index
        self.source = source
        with self._open(index) as session:
            self.ids = session.snapshot.ids
            self.texts = session.snapshot.texts(self.ids)
        judged = frozenset[str]().union(*source.gold.values())
        rows: dict[str, list[int]] = {}
        for row, id_ in enumerate(self.ids):
            rows.setdefault(judged_id(id_, judged), []).append(row)
        self.relevant = {
            id_: {
                row
                for document in gold
                for row in rows.get(document, ())
                if source.is_relevant(id_, self.ids[row], "\n".join(self.texts[row]))
            }
            for id_, gold in source.gold.items()
        }

    def _open(self, folder: Path) -> Session:
        return Session.open(self._settings, folder, self._models)

    @contextmanager
    def _without(self, gone: set[int]) -> Iterator[Session]:
        """Open a copy without some passages, which is deleted after use."""
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "copy"
            shutil.copytree(self.index, folder)
            remove(folder, Removal(ids=tuple(self.ids[row] for row in sorted(gone))))
            with self._open(folder) as session:
                yield session

    def patterns(self, ids: Iterable[str]) -> list[Pattern]:
        """The patterns of some questions."""
        patterns = (
            pattern_of(self.source.texts[id_], [self.texts[row] for row in self.relevant[id_]])
            for id_ in ids
        )
        return [pattern for pattern in patterns if pattern]

    def whole(self, foreign: Sequence[Pattern], data: Sequence[Questions]) -> Iterator[Example]:
        """Examples from the whole index, with questions of other datasets among them."""
        source = self.source
        near = near_misses(self.patterns(source.texts), foreign, self.texts)
        with self._open(self.index) as session:
            yield from ask(session, source, source.texts, "own")
            for kind, texts in (("near", [*near, *source.near]), ("foreign", source.other)):
                yield from ask(session, source, {f"{kind} {text}": text for text in texts}, kind)
            for other in data:
                if set(other.families.values()).isdisjoint(source.families.values()):
                    sample = {id_: other.texts[id_] for id_ in islice(other.texts, FOREIGN)}
                    yield from ask(session, other, sample, "foreign")

    def removed(self) -> Iterator[Example]:
        """Examples of questions whose relevant passages are gone, half of them at a time."""
        for which in (0, 1):
            half = {i: text for i, text in self.source.texts.items() if _hash(i) % 2 == which}
            with self._without({row for id_ in half for row in self.relevant[id_]}) as session:
                yield from ask(session, self.source, half, "removed")

    def few(self, foreign: Sequence[Pattern], size: int) -> Iterator[Example]:
        """Examples from a copy with few passages, which answers some questions and others not."""
        source, remaining, questions = self.source, set[int](), dict[str, str]()
        for id_ in sorted(source.texts, key=lambda id_: _hash(f"{size} {id_}")):
            if len(remaining | self.relevant[id_]) <= size / 2:
                remaining |= self.relevant[id_]
                questions[id_] = source.texts[id_]
        absent = ((i, text) for i, text in source.texts.items() if not self.relevant[i] & remaining)
        removed = dict(islice(absent, len(questions)))
        avoided = {row for id_ in removed for row in self.relevant[id_]}
        others = (row for row in range(len(self.ids)) if row not in remaining | avoided)
        by_hash = sorted(others, key=lambda row: _hash(f"{size} {self.ids[row]}"))
        remaining.update(by_hash[: size - len(remaining)])
        texts = [self.texts[row] for row in sorted(remaining)]
        near = near_misses(self.patterns(questions), foreign, texts)
        with self._without(set(range(len(self.ids))) - remaining) as session:
            yield from ask(session, source, questions, "own")
            yield from ask(session, source, removed, "removed")
            yield from ask(session, source, {f"near {text}": text for text in near}, "near")


def gather(settings: Settings, data: Sequence[Questions]) -> list[Example]:
    """Collect examples of all kinds from all datasets."""
    examples: list[Example] = []
    with ModelCache() as models:
        corpora = [
            _Corpus(settings, models, source, source.index) for source in data if source.index
        ]
        patterns = {one.source.family: one.patterns(one.source.texts) for one in corpora}
        for one in corpora:
            elsewhere = (rows for family, rows in patterns.items() if family != one.source.family)
            foreign = [*chain.from_iterable(elsewhere)]
            examples += [*one.whole(foreign, data), *one.removed()]
            for size in SIZES:
                if size < len(one.ids) / 2:
                    examples += one.few(foreign, size)
            say(f"{one.index}: {len(one.source.texts)} questions")
    return examples


def _hash(text: str) -> int:
    return zlib.crc32(text.encode())
