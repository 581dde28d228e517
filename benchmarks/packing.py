"""Compares ways to choose sentences for a language model: how often half the room has an answer.

Sentences are those stored for the graph's first ten passages, for questions with a right answer in
one of them. Every way fills the same room, half of all characters, with its best sentences. `pack`
is the one in use; Chunk-Zoom is ZoomRAG's, from the entities that the graph activates.
"""

import argparse
from collections.abc import Mapping, Sequence
from time import process_time

import numpy as np

from backends.types import Float32, Float64, Int64
from benchmarks import harness
from benchmarks.harness import Table
from router.answers.pack import pack
from router.batch import Batch
from router.reading import QuestionReading
from router.session import Session
from router.settings import load_settings
from router.types import Route
from training.data.dataset import Question, read_dataset
from training.data.sources import index_of, parse_source
from training.evaluation.answer_measures import contained

_DEPTH = 10
_BATCH = 16
_RESTART = 0.9
_WEIGHT = 0.5


def chunk_zoom(
    vectors: Float64, passage: Int64, mentions: Float64, active: Float64, question: Float32
) -> Float64:
    """(s,) scores of sentences by ZoomRAG's equation 10, with restart 0.9.

    Links between sentences are half by similarity and half by distance, with a deviation of one
    sentence.

    Args:
        vectors: (s, d) vectors of the sentences.
        passage: (s,) the passage of each sentence, ascending.
        mentions: (s, e) 1 where a sentence mentions an entity.
        active: (e,) restart mass of the entities; if all 0, the sentences have e^cos instead.
        question: (d,) vector of the question.
    """
    size = len(vectors)
    place = np.arange(size)
    near = np.where(passage[:, None] == passage, np.exp(-((place[:, None] - place) ** 2) / 2), 0)
    alike = _columns(np.exp(vectors @ vectors.T))
    chunks = _level(_WEIGHT * _columns(near) + (1 - _WEIGHT) * alike)
    links = _level(mentions)
    walk = _columns(np.block([[chunks, links], [links.T, np.zeros((len(active),) * 2)]]))
    start = np.concatenate([np.zeros(size), active])
    if not active.any():
        start[:size] = np.exp(vectors @ question)
    solved = np.linalg.solve(np.eye(len(walk)) - (1 - _RESTART) * walk, start / start.sum())
    return np.asarray(solved[:size], np.float64)


def _columns(matrix: Float64) -> Float64:
    shares: Float64 = matrix / np.maximum(matrix.sum(axis=0), 1e-12)
    return shares


def _level(matrix: Float64) -> Float64:
    """Scale a matrix so that its nonzero entries average 1."""
    return matrix * (np.count_nonzero(matrix) / matrix.sum()) if matrix.any() else matrix


def _filled(texts: Sequence[str], scores: Sequence[float] | Float64, room: int) -> list[str]:
    """The best texts that fit into `room` characters."""
    kept = []
    for at in np.argsort(-np.asarray(scores), kind="stable").tolist():
        if len(texts[at]) <= room:
            room -= len(texts[at])
            kept.append(texts[at])
    return kept


def _kept(session: Session, part: Sequence[Question]) -> list[tuple[Mapping[str, float], float]]:
    """For each question with an answer, the ways that keep it, and the milliseconds of `pack`."""
    reading = QuestionReading([one.text for one in part], lambda: session.analyser)
    batch = Batch(session.snapshot, reading, None, (Route.GRAPH,), session.settings.fusion)
    results = batch.results((Route.GRAPH,), range(len(part)), _DEPTH)
    graph, corpus = session.snapshot.graph, session.snapshot.corpus
    traced = graph.batch([result.query for result in results])
    found: list[tuple[Mapping[str, float], float]] = []
    for place, (one, result) in enumerate(zip(part, results, strict=True)):
        rows = corpus.rows([hit.id for hit in result.rankings[Route.GRAPH].hits])
        spans = [np.searchsorted(corpus.sentence_passage, [row, row + 1]).tolist() for row in rows]
        chosen = np.concatenate([np.arange(start, end) for start, end in spans])
        passage = np.repeat(np.arange(len(rows)), [end - start for start, end in spans])
        if not len(chosen):
            continue
        texts = corpus.sentence_texts(chosen)
        if not any(contained(text, one.answers) for text in texts):
            continue
        vectors = corpus.sentence_vectors[chosen].astype(np.float64)
        activation = traced.trace(place).activation
        weights = dict(zip(activation.entities.tolist(), activation.weight.tolist(), strict=True))
        own = [graph.graph.mentions.entities_of(int(row)) for row in chosen]
        entities = sorted({int(entity) for each in own for entity in each})
        mentions = np.array([[float(e in each) for e in entities] for each in own])
        active = np.array([weights.get(entity, 0.0) for entity in entities])
        nth = np.concatenate([np.arange(end - start) for start, end in spans])
        vector = result.query.vector
        zoom = chunk_zoom(vectors, passage, mentions.reshape(len(own), -1), active, vector)
        room = sum(map(len, texts)) // 2
        ways = {
            "cosine": _filled(texts, vectors @ vector, room),
            "first sentences": _filled(texts, -nth - passage / len(rows), room),
            "first passages": _filled(texts, -np.arange(len(texts), dtype=np.float64), room),
            "Chunk-Zoom": _filled(texts, zoom, room),
        }
        whole = [
            " ".join(text for text, at in zip(texts, passage, strict=True) if at == number)
            for number in range(len(rows))
        ]
        started = process_time()
        ways["pack"] = pack(one.text, whole, room)
        spent = 1000 * (process_time() - started)
        kept = {
            way: float(any(contained(text, one.answers) for text in own_texts))
            for way, own_texts in ways.items()
        }
        found.append((kept, spent))
    return found


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add options for sources."""
    parser.add_argument("sources", nargs="+", metavar="DATASET=INDEX")
    parser.add_argument("--limit", type=int, help="most questions per split")


def run(given: argparse.Namespace) -> None:
    """Print a row for each dataset, over its train and dev questions."""
    harness.print_header("Packing", seed=None, data=", ".join(given.sources))
    table: Table | None = None
    for source in given.sources:
        named = parse_source(source, None)
        found: dict[str, list[tuple[Mapping[str, float], float]]] = {}
        with Session.open(load_settings(), index_of(named)) as session:
            for split in ("train", "dev"):
                questions = read_dataset(named.dataset, split, given.limit).questions
                for group in dict.fromkeys(one.group or named.name for one in questions):
                    own = [one for one in questions if (one.group or named.name) == group]
                    for start in range(0, len(own), _BATCH):
                        kept = _kept(session, own[start : start + _BATCH])
                        found.setdefault(group, []).extend(kept)
        for group, rows in found.items():
            ways = [*rows[0][0]]
            table = table or Table(("dataset", "questions", *ways, "ms of pack"), width=16)
            shares = [float(np.mean([kept[way] for kept, _ in rows])) for way in ways]
            table.row(group, len(rows), *shares, float(np.median([spent for _, spent in rows])))
