"""Reads judged questions from a folder in BEIR's layout, and files of JSON lines."""

import json
import os
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wye.backends.documents import is_chunk_id
from wye.backends.store.index import PassageStore
from wye.backends.text import is_blank
from wye.training.errors import DatasetError, TrainingError

Judgements = Mapping[str, Mapping[str, int]]
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a dataset."""

    id: str
    text: str
    answers: tuple[str, ...] = ()  # texts that count as its answer, from `answers` in its metadata
    group: str = ""  # the dataset it comes from, from `dataset` in its metadata
    hops: int = 0  # how many passages have to be joined to answer it, from `hops`; 0 if not said
    row: Mapping[str, Sequence[str]] = field(default_factory=dict, hash=False)  # by document


@dataclass(frozen=True, slots=True)
class Dataset:
    """The judged questions of one split."""

    name: str
    split: str  # train, dev, test, or the name of any other file of judgements
    questions: tuple[Question, ...]  # in file order; each has at least one relevant passage
    judgements: Judgements  # question id -> passage id -> relevance; above 0 is relevant
    without_gold: tuple[str, ...] = ()  # judged, but nothing is relevant to these


def read_dataset(folder: Path, split: str, limit: int | None = None) -> Dataset:
    """Read `queries.jsonl` and `qrels/<split>.tsv` of a BEIR folder, or its first questions.

    A `DatasetError` if a file is missing, a line cannot be read, a question occurs twice, a
    judgement names an unknown question, or no question is left.
    """
    questions_by_id = _read_questions(folder)
    judgements, without_gold = _read_judgements(_judgements_file(folder, split), questions_by_id)
    questions = [question for id_, question in questions_by_id.items() if id_ in judgements][:limit]
    if not questions:
        raise DatasetError(
            f"Split '{split}' of '{folder}' has no question with a relevant passage; "
            "check its qrels, or choose another --split."
        )
    judged = {question.id: judgements[question.id] for question in questions}
    return Dataset(folder.resolve().name, split, tuple(questions), judged, tuple(without_gold))


def read_unjudged(path: Path) -> list[Question]:
    """The different questions of a file: one in each line, or the `question` or `text` of JSON.

    So a request log will do, and the queries of a folder in BEIR's layout. A `DatasetError` if
    there is none, or a line of JSON has no question.
    """
    path = path / "queries.jsonl" if path.is_dir() else path
    texts: dict[str, None] = {}
    for number, line in read_lines(path):
        try:
            row = json.loads(line) if line.lstrip().startswith("{") else {"text": line.strip()}
        except ValueError:
            row = {}
        text = row.get("question", row.get("text"))
        if row.get("kind") == "feedback":
            continue
        if not isinstance(text, str) or is_blank(text):
            raise DatasetError(f'{path}:{number} has no "question" or "text"; correct the line.')
        texts[text] = None
    if not texts:
        raise DatasetError(f"'{path}' has no question; write one in each line.")
    return [Question(str(n), text) for n, text in enumerate(texts)]


def respell(text: str) -> str:
    """A question without capitals, question mark or blanks at its end, if anything is left."""
    return text.lower().rstrip("? \t") or text


@dataclass(frozen=True, slots=True)
class QuestionSource:
    """A dataset with the folder of the index that answers it."""

    dataset: Path
    index: Path

    @property
    def name(self) -> str:
        """Name of the dataset."""
        return self.dataset.resolve().name

    def has(self, split: str) -> bool:
        """Whether the dataset has judgements for a split."""
        return (self.dataset / "qrels" / f"{split}.tsv").is_file()

    def read(self, split: str) -> Dataset:
        """Read the questions of a split, or raise a `DatasetError`."""
        return read_dataset(self.dataset, split)


def parse_source(text: str, index: Path | None) -> QuestionSource:
    """Parse DATASET, whose index is `index`, or DATASET=INDEX; a `TrainingError` without it."""
    dataset, _, named_index = text.partition("=")
    if not Path(dataset).is_dir():
        raise TrainingError(f"There is no folder '{dataset}'; give a dataset in BEIR's layout.")
    if named_index:
        index = Path(named_index)
    if index is None:
        raise TrainingError(
            f"Which index answers '{dataset}'? Give --index DIR, or '{dataset}=INDEX'."
        )
    return QuestionSource(Path(dataset), index)


def lacking(dataset: Dataset, index: Path) -> str:
    """Describe the relevant passages that an index lacks, or ""; a `DatasetError` for all."""
    judgements = dataset.judgements.values()
    relevant = {id_ for grades in judgements for id_, relevance in grades.items() if relevance > 0}
    stored = PassageStore.open(index).snapshot().to_table(columns=["id"])["id"].to_pylist()
    missing = sorted(relevant.difference(judged_id(id_, relevant) for id_ in stored))
    if not missing:
        return ""
    says = (
        f"The index {index} lacks {len(missing)} of the {len(relevant)} passages that split "
        f"'{dataset.split}' of '{dataset.name}' judges relevant, such as '{missing[0]}'. A "
        "passage's id is what `wye search` prints behind its title."
    )
    if len(missing) == len(relevant):
        raise DatasetError(says)
    return says


def _read_questions(folder: Path) -> dict[str, Question]:
    path = folder / "queries.jsonl"
    if not folder.is_dir():
        raise DatasetError(f"There is no folder '{folder}'; name one in BEIR's layout.")
    if not path.is_file():
        raise DatasetError(
            f"'{folder}' has no queries.jsonl; name a folder in BEIR's layout "
            "(corpus.jsonl, queries.jsonl, qrels/<split>.tsv)."
        )
    questions: dict[str, Question] = {}
    for number, row in read_objects(path):
        id_, text = row.get("_id"), row.get("text")
        if not isinstance(id_, str) or not isinstance(text, str):
            raise DatasetError(f'{path}:{number} needs "_id" and "text", both strings.')
        if id_ in questions:
            raise DatasetError(f"{path}:{number} has question '{id_}' again; ids must be unique.")
        questions[id_] = _question(id_, text, row.get("metadata"))
    return questions


def _question(id_: str, text: str, metadata: object) -> Question:
    fields = metadata if isinstance(metadata, dict) else {}

    def field_of(name: str, kind: type) -> Any:  # noqa: ANN401 - of that kind
        value = fields.get(name)
        return value if isinstance(value, kind) else kind()

    answers = tuple(each for each in field_of("answers", list) if isinstance(each, str))
    group, hops, row = field_of("dataset", str), field_of("hops", int), field_of("row", dict)
    return Question(id_, text, answers, group, hops, row)


def _judgements_file(folder: Path, split: str) -> Path:
    path = folder / "qrels" / f"{split}.tsv"
    if not path.is_file():
        splits = sorted(other.stem for other in (folder / "qrels").glob("*.tsv"))
        names = ", ".join(splits) if splits else "none"
        raise DatasetError(f"'{folder}' has no split '{split}' ({path}); its splits: {names}.")
    return path


def judged_id(passage: str, judged: Collection[str]) -> str:
    """The id by which a passage is judged: its own, else its document's, else its file's.

    `notes/a.md#0003` is a part of the document `notes/a.md`, and `a.xlsx:Staff:12` a row of a file.
    """
    if passage in judged:
        return passage
    name = passage.rpartition("#")[0] if is_chunk_id(passage) else passage
    while name and name not in judged:
        name = name.rpartition(":")[0]
    return name or passage


def _read_judgements(
    path: Path, questions: Mapping[str, Question]
) -> tuple[dict[str, dict[str, int]], list[str]]:
    judged: dict[str, dict[str, int]] = {}
    for number, line in read_lines(path):
        fields = line.split("\t")
        if number == 1 and fields[0] == "query-id":
            continue
        try:
            question, passage, relevance = fields
            value = int(relevance)
        except ValueError:
            raise DatasetError(
                f"{path}:{number} is not a judgement; it needs a question id, a passage id and a "
                "whole number, separated by tabs."
            ) from None
        if question not in questions:
            raise DatasetError(
                f"{path}:{number} judges question '{question}', which queries.jsonl does not have."
            )
        if passage in judged.setdefault(question, {}):
            raise DatasetError(
                f"{path}:{number} judges passage '{passage}' for question '{question}' again."
            )
        judged[question][passage] = value
    gold = {id_: grades for id_, grades in judged.items() if any(v > 0 for v in grades.values())}
    return gold, sorted(judged.keys() - gold.keys())


def read_lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield lines that are not blank, with 1-based numbers; a `DatasetError` if it cannot."""
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise DatasetError(f"'{path}' is not UTF-8 ({error}); convert it.") from None
    except OSError as error:
        raise DatasetError(
            f"'{path}' cannot be read ({error}); name folders in BEIR's layout."
        ) from None


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the JSON objects of lines, with 1-based numbers; a `DatasetError` if one is none."""
    for number, line in read_lines(path):
        try:
            yield number, dict(json.loads(line))
        except (ValueError, TypeError, RecursionError) as error:
            says = f"{path}:{number} is not a JSON object ({error}); correct the line."
            raise DatasetError(says) from None


def words(text: str) -> str:
    """The case-folded words of a text, in order, with a blank before and after each.

    The blanks make substrings match whole words: "Ur" does not match "Uruguay".
    """
    tokens = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    return f" {' '.join(tokens)} "


def contains_any(text: str, answers: Sequence[str]) -> bool:
    """Whether a text contains one of the answers, word for word; both are results of `words`.

    This is how retrieval for open-domain questions is judged: Karpukhin et al., Dense Passage
    Retrieval (EMNLP 2020), section 5.1. An answer without a word is in no text.
    """
    return any(answer.strip() and answer in text for answer in answers)


def json_line(row: Mapping[str, object]) -> bytes:
    """A line of JSON; half a surrogate pair, which UTF-8 cannot encode, is replaced."""
    return json.dumps(row, ensure_ascii=False).encode(errors="replace") + b"\n"


def keep_line(path: Path, row: Mapping[str, object]) -> None:
    """Add a line, after the end of one that was cut off; it is on the disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        os.write(descriptor, b"\n" * torn + json_line(row))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
