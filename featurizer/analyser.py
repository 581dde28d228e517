"""The analyser: the one place that runs the parser and the encoder."""

import os
import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from time import perf_counter
from typing import Literal, TypeVar

import numpy as np

from wye.featurizer.constituency.parser import ConstituencySettings, SyntaxParser, open_decoder
from wye.featurizer.encoder import EncodedText, Encoder, EncoderSettings, pool_spans
from wye.featurizer.errors import ModelError
from wye.featurizer.spacy.parser import QUESTION_CHARACTERS, QUESTION_TOKENS, SpacyParser
from wye.featurizer.spacy.pipeline import DEFAULT_PIPELINE
from wye.featurizer.types import (
    EntityMention,
    Float32,
    NounPhrase,
    Parse,
    PassageAnalysis,
    SentenceAnalysis,
    Span,
    Steps,
    Syntax,
    TitledText,
    finished,
)

T = TypeVar("T")
SentenceVectors = Literal["pooled", "contextual", "plain"]
_Begun = Mapping[str, Future[list[EncodedText]]]
Mentioned = TypeVar("Mentioned", EntityMention, NounPhrase)

# Raise this when a change alters what is stored for the same passage and the same models.
ANALYSIS_VERSION = "1"
# Passages that are parsed, then encoded, together: few at first, since the encoder waits for their
# parses, then more, so that more of them have one length.
FIRST_SLICE, SLICE_PASSAGES = 32, 128
# No real text has more characters per token than this on average over a whole page.
CHARACTERS_PER_TOKEN = 20
STEP_TOKENS = 1_024  # tokens encoded between two pauses
_WORD_OR_SIGN = re.compile(r"[^\W_]+|[^\w\s]|_")


@dataclass(frozen=True, slots=True)
class AnalyserSettings:
    """Which models, and how sentences become vectors.

    Attributes:
        pipeline: Name of an installed spaCy pipeline, or a folder.
        fast_parser: Whether the pipeline's slow parts are replaced by faster ones of Wye that give
            the same annotations in a third of the time; false runs spaCy's own code.
        processes: Processes that parse long lists of passages while the encoder runs, which takes
            longer; 0 means one for every two processors, 1 parses in the encoder's process.
        sentence_vectors: "pooled" averages a sentence's tokens in its passage (one pass instead of
            two); "contextual" encodes "title: sentence"; "plain" encodes the sentence alone, as
            LinearRAG does.
    """

    pipeline: str = DEFAULT_PIPELINE
    fast_parser: bool = True
    processes: int = 0
    sentence_vectors: SentenceVectors = "pooled"
    title_in_text: bool = False  # parse "title newline text" as one text, as LinearRAG
    encoder: EncoderSettings = field(default_factory=EncoderSettings)
    constituency: ConstituencySettings = field(default_factory=ConstituencySettings)


class Stopwatch:
    """Adds up the wall time of stages in `seconds`, failed ones included."""

    def __init__(self, *stages: str) -> None:
        self.seconds = dict.fromkeys(stages, 0.0)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time that the body takes to a stage."""
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - start


class Analyser:
    """A parser and an encoder, with one way of analysing passages and one for questions."""

    def __init__(
        self,
        settings: AnalyserSettings,
        *,
        parser: SpacyParser | None = None,
        encoder: Encoder | None = None,
    ) -> None:
        """Load models that are not given, or a `ModelError`; that of trees when it is needed."""
        self.settings = settings
        self.parser = parser or SpacyParser(
            settings.pipeline, _others(settings.processes), fast=settings.fast_parser
        )
        self.encoder = encoder or Encoder(settings.encoder)
        if settings.sentence_vectors == "pooled" and not self.encoder.pools_mean:
            raise ModelError(
                f"The encoder '{settings.encoder.model}' does not use mean pooling, which pooled "
                "sentence vectors need. Set WYE_ANALYSER__SENTENCE_VECTORS=contextual."
            )
        self._beside = ThreadPoolExecutor(1, thread_name_prefix="encoder")
        self._ahead = ThreadPoolExecutor(1, thread_name_prefix="encoder-ahead")
        self._begun: tuple[_Begun, _Begun] = ({}, {})
        self._syntax: SyntaxParser | None = None
        self._clock = Stopwatch("parsing", "encoding")

    @property
    def seconds(self) -> Mapping[str, float]:
        """Wall time spent so far, by stage."""
        return self._clock.seconds

    @property
    def dimension(self) -> int:
        """Length d of every vector."""
        return self.encoder.dimension

    @property
    def fingerprint(self) -> dict[str, str]:
        """What stored rows depend on; an index with another fingerprint is refused."""
        return {
            **self.parser.fingerprint,
            **self.encoder.fingerprint,
            "sentence_vectors": self.settings.sentence_vectors,
            "analysis": ANALYSIS_VERSION,
            **({"title_in_text": "true"} if self.settings.title_in_text else {}),
        }

    @property
    def syntax_fingerprint(self) -> dict[str, str]:
        """What features of questions depend on, and stored rows do not, or a `ModelError`."""
        return self.syntax.fingerprint

    @property
    def syntax(self) -> SyntaxParser:
        """The parser of questions; it loads its model of trees on first use, or a `ModelError`."""
        if self._syntax is None:
            self._syntax = SyntaxParser(self.parser, open_decoder(self.settings.constituency))
        return self._syntax

    def analyse(self, passages: Sequence[TitledText]) -> Iterator[PassageAnalysis]:
        """Analyses of passages for the index, in order, yielded slice by slice."""
        items = self._items(passages)
        parses = self.parser.parse_many([text for _, text in items])
        start, size = 0, FIRST_SLICE
        while chunk := items[start : start + size]:
            start, size = start + size, min(2 * size, SLICE_PASSAGES)
            with self._clock.stage("parsing"):
                parsed = [*islice(parses, len(chunk))]
            with self._clock.stage("encoding"):
                analyses = finished(self._encode(chunk, parsed, sys.maxsize))
            yield from analyses

    def analyse_in_steps(self, passages: Sequence[TitledText]) -> Steps[list[PassageAnalysis]]:
        """As `analyse`, with pauses and in this process alone; `seconds` does not count it.

        No step takes long, whatever the texts are: at most what one component of the parser takes
        for `spacy_parser.PIECE_TOKENS` tokens, or the encoder for `STEP_TOKENS`.
        """
        items = self._items(passages)
        parses = yield from self.parser.parse_in_steps([text for _, text in items])
        return (yield from self._encode(items, parses, STEP_TOKENS))

    def encode_surfaces(self, surfaces: Sequence[str]) -> Float32:
        """(n, d) unit vectors of entity surfaces."""
        with self._clock.stage("encoding"):
            return self.encoder.encode(surfaces)

    def encode_surfaces_in_steps(self, surfaces: Sequence[str]) -> Steps[Float32]:
        """As `encode_surfaces`, with pauses."""
        none: list[list[Span]] = [[]] * len(surfaces)
        return (yield from self.encoder.encode_in_steps(surfaces, none, STEP_TOKENS))[0]

    def encode_passages_in_steps(self, passages: Sequence[TitledText]) -> Steps[Float32]:
        """(n, d) unit vectors of passages as the index has them, without parsing, with pauses."""
        prefix = self.settings.encoder.passage_prefix
        texts = [
            prefix + (f"{title}\n" if title else "") + text[: self._page]
            for title, text in self._items(passages)
        ]
        return (yield from self.encoder.encode_in_steps(texts, [()] * len(texts), STEP_TOKENS))[0]

    def encode_ahead(self, texts: Sequence[str]) -> None:
        """Start encoding the next questions in the background; only the last two calls count."""
        earlier = self._begun[1]
        missing = [text for text in texts if text not in earlier]
        future = self._ahead.submit(self._encode_questions, missing)
        started = {text: earlier.get(text, future) for text in texts}
        self._begun = earlier, started

    def encode_questions(self, texts: Sequence[str]) -> Float32:
        """(n, d) unit vectors of questions, in order."""
        vectors = [encoded.vector for encoded in self.encode_with_states(texts)]
        return np.array(vectors, np.float32).reshape(len(vectors), self.dimension)

    def encode_with_states(self, texts: Sequence[str]) -> list[EncodedText]:
        """Vectors of questions with their token states, which `encode_parts` takes."""
        begun = {**self._begun[0], **self._begun[1]}
        ahead = {begun[text] for text in texts if text in begun}
        # What is still queued or failed is encoded again here.
        done = [future.result() for future in ahead if not (future.cancel() or future.exception())]
        encoded_by_text = {encoded.text: encoded for batch in done for encoded in batch}
        missing = [text for text in texts if text not in encoded_by_text]
        encoded_by_text |= zip(missing, self._encode_questions(missing), strict=True)
        return [encoded_by_text[text] for text in texts]

    def _encode_questions(self, texts: Sequence[str]) -> list[EncodedText]:
        prefix = self.settings.encoder.question_prefix
        # The encoder never reaches text beyond a page, and tokenising that takes long.
        prefixed = self.encoder.encode_with_states([prefix + text[: self._page] for text in texts])
        questions, size = [], len(prefix)
        for encoded, text in zip(prefixed, texts, strict=True):
            offsets = tuple((start - size, end - size) for start, end in encoded.offsets)
            questions.append(replace(encoded, text=text, offsets=offsets))
        return questions

    def encode_parts(self, encoded: EncodedText, spans: Sequence[Span]) -> Float32:
        """(n, d) unit vectors of spans of a question, in its context if tokens are averaged."""
        if self.encoder.pools_mean:
            return pool_spans(encoded.states, encoded.offsets, spans)
        return self.encode_questions([encoded.text[start:end] for start, end in spans])

    def parse_questions(self, texts: Sequence[str], *, tokens: bool = False) -> list[Parse]:
        """One parse per question, in order and in bounded time; with tokens for features."""
        return self.parser.parse_questions(texts, tokens=tokens)

    def is_word(self, word: str) -> bool:
        """Whether the encoder's vocabulary has a word whole, as it has those of its languages."""
        return len(self.encoder.token_ends(word)) == 1

    @property
    def has_parser(self) -> bool:
        """Whether the parser is loaded."""
        return self.parser.pipeline is not None

    def syntax_of(self, parses: Sequence[Parse], *, trees: bool = True) -> list[Syntax]:
        """The syntax of questions by parses with tokens; a `ModelError` if trees lack a model."""
        if trees:
            return self.syntax.build(parses)
        return [Syntax(p.tokens, p.token_sentences) for p in parses]

    def beside(self, work: Callable[[], T]) -> Future[T]:
        """Run work in a background thread, one piece after another; the encoder frees the GIL."""
        return self._beside.submit(work)

    def close(self) -> None:
        """End helper processes."""
        self._beside.shutdown()
        self._ahead.shutdown(cancel_futures=True)
        self.parser.close()

    def _items(self, passages: Sequence[TitledText]) -> list[tuple[str, str]]:
        items = [(passage.title, passage.text) for passage in passages]
        if self.settings.title_in_text:
            return [("", f"{title}\n{text}" if title else text) for title, text in items]
        return items

    def _encode(
        self, items: Sequence[tuple[str, str]], parses: Sequence[Parse], tokens: int
    ) -> Steps[list[PassageAnalysis]]:
        """Analyses of parsed passages; at most `tokens` tokens are encoded between two pauses."""
        sentences = [_sentences_with_mentions(parse) for parse in parses]
        spans = [[span for span, _, _ in row] for row in sentences]
        prefix = self.settings.encoder.passage_prefix
        heads = [prefix + (f"{title}\n" if title else "") for title, _ in items]
        texts = [text for _, text in items]
        if self.settings.sentence_vectors == "pooled":
            vectors, inner = yield from self._encode_pooled(heads, texts, spans, tokens)
        else:
            vectors, inner = yield from self._encode_apart(heads, items, spans, tokens)
        analyses = []
        for row, text in enumerate(texts):
            parts = zip(sentences[row], inner[row], strict=True)
            each = [
                SentenceAnalysis(text[slice(*span)], entities, phrases, vector)
                for (span, entities, phrases), vector in parts
            ]
            analyses.append(PassageAnalysis(vectors[row], tuple(each)))
        return analyses

    def _encode_apart(
        self,
        heads: Sequence[str],
        items: Sequence[tuple[str, str]],
        spans: Sequence[Sequence[Span]],
        tokens: int,
    ) -> Steps[tuple[Float32, list[Float32]]]:
        """Vectors of passages and of sentences, each sentence encoded by itself."""
        texts = [head + text for head, (_, text) in zip(heads, items, strict=True)]
        contextual = self.settings.sentence_vectors == "contextual"
        sentences = [
            (f"{title}: " if contextual and title else "") + text[start:end]
            for (title, text), row in zip(items, spans, strict=True)
            for start, end in row
        ]
        every = [*texts, *sentences]
        vectors, _ = yield from self.encoder.encode_in_steps(every, [()] * len(every), tokens)
        ends = np.cumsum([len(texts), *map(len, spans)])
        return vectors[: len(texts)], np.split(vectors[: ends[-1]], ends[:-1])[1:]

    def _encode_pooled(
        self,
        heads: Sequence[str],
        texts: Sequence[str],
        spans: Sequence[Sequence[Span]],
        tokens: int,
    ) -> Steps[tuple[Float32, list[Float32]]]:
        """Vectors of passages and of sentences, these pooled from the passage's own pass."""
        windows: list[str] = []
        window_spans: list[list[Span]] = []
        window_rows: list[list[int]] = []
        for head, text, row in zip(heads, texts, spans, strict=True):
            window_rows.append([])
            for start, inside in self._windows(head, text, row):
                yield
                window_rows[-1].append(len(windows))
                # The first window is the passage, the others a page of it.
                windows.append(head + (text[start : start + self._page] if start else text))
                shift = len(head) - start
                window_spans.append([(a + shift, b + shift) for a, b in inside])
        vectors, inner = yield from self.encoder.encode_in_steps(windows, window_spans, tokens)
        pooled = [np.concatenate([inner[row] for row in rows]) for rows in window_rows]
        yield from self._fill_gaps(pooled, texts, spans, tokens)
        return vectors[[rows[0] for rows in window_rows]], pooled

    def _fill_gaps(
        self,
        pooled: Sequence[Float32],
        texts: Sequence[str],
        spans: Sequence[Sequence[Span]],
        tokens: int,
    ) -> Steps[None]:
        """Encode alone the sentences that no window reached, as behind a very long title."""
        unreached = [np.flatnonzero(~np.any(group, axis=1)).tolist() for group in pooled]
        gaps = [(row, position) for row, rest in enumerate(unreached) for position in rest]
        alone = [texts[row][slice(*spans[row][position])] for row, position in gaps]
        vectors, _ = yield from self.encoder.encode_in_steps(alone, [()] * len(alone), tokens)
        for (row, position), vector in zip(gaps, vectors, strict=True):
            pooled[row][position] = vector

    def _windows(
        self, head: str, text: str, spans: Sequence[Span]
    ) -> Iterator[tuple[int, list[Span]]]:
        """Cut a passage that is longer than the encoder's input into windows, between sentences.

        Yields:
            Where the window starts in the text, and the spans that belong to it: those that end
            before the encoder's limit, or a single one that is longer than the limit itself. The
            first window starts with the text, even where no sentence belongs to it.
        """
        start, rest = 0, list(spans)
        while True:
            reach = start + self._reach(head, text[start : start + self._page])
            inside = [span for span in rest if span[1] <= reach]
            if not inside and rest and rest[0][0] == start:
                inside = rest[:1]
            yield start, inside
            rest = rest[len(inside) :]
            if not rest:
                return
            start = rest[0][0]

    def _reach(self, head: str, text: str) -> int:
        limit = self.encoder.max_tokens - 2
        page = (head + text)[: self._page]
        # A token has at least one character of plain text: short ones fit.
        if len(page) <= limit and page.isascii():
            return len(text)
        ends = self.encoder.token_ends(page)
        return max(1, (ends[limit - 1] if len(ends) > limit else len(page)) - len(head))

    @property
    def _page(self) -> int:
        """Characters of a text, more than the encoder reads, that are tokenised for a window."""
        return CHARACTERS_PER_TOKEN * self.encoder.max_tokens


def token_count(question: str) -> int:
    """Estimated number of tokens of a question that are parsed; needs no model."""
    read = question[:QUESTION_CHARACTERS]
    return min(QUESTION_TOKENS, 1 + len(_WORD_OR_SIGN.findall(read)))


def open_syntax_parser(settings: AnalyserSettings) -> SyntaxParser:
    """Open the parser of questions without the encoder, for features alone, or a `ModelError`."""
    parser = SpacyParser(settings.pipeline, fast=settings.fast_parser)
    return SyntaxParser(parser, open_decoder(settings.constituency))


def _others(processes: int) -> int:
    """Number of helper processes that parse, given `AnalyserSettings.processes`."""
    if processes == 0:
        return (os.cpu_count() or 1) // 2
    return processes if processes > 1 else 0


def _sentences_with_mentions(parse: Parse) -> list[tuple[Span, tuple[str, ...], tuple[str, ...]]]:
    """Span, entity surfaces and phrase keys of each sentence that mentions anything."""
    sentences = []
    for start, end in parse.sentences:
        entities = tuple(entity.text for entity in _within(parse.entities, start, end))
        phrases = tuple(phrase.key for phrase in _within(parse.phrases, start, end))
        if entities or phrases:
            sentences.append(((start, end), entities, phrases))
    return sentences


def _within(mentions: Sequence[Mentioned], start: int, end: int) -> Sequence[Mentioned]:
    """The mentions (in order) that begin between start and end."""
    first = bisect_left(mentions, start, key=_begins)
    return mentions[first : bisect_left(mentions, end, first, key=_begins)]


def _begins(mention: EntityMention | NounPhrase) -> int:
    return mention.span[0]
