"""The spaCy parser: sentences, entities, noun phrases and tokens of texts, in plain types."""

import re
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import cached_property
from itertools import groupby, tee
from operator import itemgetter
from threading import Thread
from typing import TYPE_CHECKING

from wye.featurizer.errors import ModelError
from wye.featurizer.imports import HelperContext, end_with_parent, safe_path
from wye.featurizer.spacy.pipeline import DEFAULT_PIPELINE, Pipeline, stored_meta
from wye.featurizer.types import EntityMention, NounPhrase, Parse, Span, Steps, Token

if TYPE_CHECKING:
    from spacy.language import Language
    from spacy.tokens import Doc
    from spacy.tokens import Span as SpacySpan
    from spacy.tokens import Token as SpacyToken

# Numbers name nothing that passages could share (LinearRAG leaves them out as well).
UNNAMED_LABELS = frozenset({"ORDINAL", "CARDINAL"})
# Longer texts are parsed in pieces, which bounds memory and only adds a sentence boundary at each
# cut. A component takes a tenth of a second for this many tokens; a page has hundreds.
PIECE_TOKENS = 1_500
# The tokenizer takes quadratic time for a run without whitespace, such as a row of quotation marks:
# seconds for 3,200 of them. Runs longer than this, which no language has, are cut.
RUN_CHARACTERS = 128
_RUN = re.compile(rf"\S{{0,{RUN_CHARACTERS}}}\s*")
_CHUNK_CHARACTERS = 2_000
_SENTENCE_ENDS = frozenset(".!?\n")
# The rest of a longer question is not parsed; the encoder reads even less (256 tokens).
QUESTION_CHARACTERS = 2_000
QUESTION_TOKENS = 400
# Below this, starting processes (each loads the pipeline) costs more than it saves.
PARALLEL_FROM = 256
SHARE = 32  # texts sent to a process at a time: few, since the encoder waits for the first of them
BATCH_PIECES = 16  # pieces parsed in one call, which Ctrl-C waits for
MAX_WORDS = 5
NEW_WORDS = 200_000
_DROPPED = frozenset({"DET", "PRON", "PUNCT", "SPACE"})
# The parser would take a list, a table or the head of a mail for one long sentence, and the end of
# a line and the start of the next for one name. So texts are parsed block by block: a row, an item
# of a list, a heading, or the lines of a paragraph that is broken at a fixed width.
# A line of broken prose is at least so long.
_BROKEN_FROM = 45
_LINE = re.compile(r"[^\n]+")
_BEGINS_ITEM = re.compile(r"\s*(?:[-*•\u2013>|#]|\d+[.)]\s|\(?[a-z]\)\s|[^\W\d_][^:|]{0,30}:\s)")
_HANGING = frozenset(
    """a an and are as at be by for from has have in is it of on or than that the their to was
    with""".split()  # noqa: SIM905 - words read better as words
)
_LAST_WORD = re.compile(r"([^\W\d_]+)\s*$")
_CELL = re.compile(r"\s+\|\s+|^\|\s*|\s*\|$|;\s+")
_LABEL = re.compile(r"[^\W\d_][^:;|]{0,39}:\s+")
_LIST = re.compile(r",\s+")
_LONGEST_CELL = 60
_MOST_WORDS = 6
_NUMBER = re.compile(r"[\W\d]*\d[\W\d]*(?:\s*[^\W\d_]{1,12}\.?){0,2}")
_LETTER = re.compile(r"[^\W\d_]")
_QUANTITY = re.compile(r"\d[\d.,:/-]*\s+\S")


class SpacyParser:
    """A spaCy pipeline, None until it is used, and on demand processes that each load the same."""

    def __init__(
        self, pipeline: str = DEFAULT_PIPELINE, processes: int = 0, *, fast: bool = True
    ) -> None:
        """Prepare a parser of a package or folder, loaded on first use, and helpers, if any."""
        self._name, self._fast = pipeline, fast
        self._processes = processes
        self._pool: ProcessPoolExecutor | None = None
        self.pipeline: Pipeline | None = None
        self._renewal: Thread | None = None

    def _loaded(self) -> Pipeline:
        """The pipeline, loaded on first use: a dense search does not need it.

        spaCy keeps every word that it ever read, some 300 bytes each. After `NEW_WORDS` of them,
        another pipeline is loaded beside it, which takes a second.
        """
        if self.pipeline is None:
            self.pipeline = Pipeline(self._name, fast=self._fast)
        words = len(self.pipeline.nlp.vocab.strings) - self.pipeline.words_at_first
        if words > NEW_WORDS and (self._renewal is None or not self._renewal.is_alive()):
            self._renewal = Thread(target=self._renew, daemon=True)
            self._renewal.start()
        return self.pipeline

    def _renew(self) -> None:
        self.pipeline = Pipeline(self._name, fast=self._fast)

    @cached_property
    def fingerprint(self) -> dict[str, str]:
        """Name and version of the pipeline; a `ModelError` if it lacks a component."""
        meta = stored_meta(self._name) or self._loaded().nlp.meta
        return {"parser": f"{meta['lang']}_{meta['name']} {meta['version']}"}

    def parse_in_steps(self, texts: Sequence[str]) -> Steps[list[Parse]]:
        """As `parse_many`, here, with pauses after each component's work on a piece."""
        parses, pipeline = [], self._loaded()
        for text in texts:
            pieces = []
            for offset, doc in _pieces(pipeline.nlp, text):
                for component in pipeline.components:
                    yield
                    with pipeline.one_thread():
                        doc = component(doc)  # noqa: PLW2901 - as spaCy itself does
                yield
                pieces.append((offset, _extract(doc, offset)))
            parses.append(_join(text, pieces))
        return parses

    def parse_many(self, texts: Sequence[str]) -> Iterator[Parse]:
        """One parse per text, which depends on it alone, in order; helper processes do many."""
        if self._processes and len(texts) >= PARALLEL_FROM:
            return self._parse_in_pool(texts)
        return self._parse(texts)

    def parse_questions(self, texts: Sequence[str], *, tokens: bool = False) -> list[Parse]:
        """One parse per question, in order, here and in bounded time; with tokens if asked.

        The first `QUESTION_CHARACTERS` of a question are read, up to the last whitespace among them
        if there is any, and of those the first `QUESTION_TOKENS` tokens.
        """
        pipeline = self._loaded()
        docs = pipeline.run([_question_doc(pipeline.nlp, text) for text in texts], batch_size=64)
        return [_question(text, doc, tokens=tokens) for text, doc in zip(texts, docs, strict=True)]

    def close(self) -> None:
        """End the pool's processes, if there are any, even while they work."""
        if self._pool is not None:
            processes = [*self._pool._processes.values()]
            self._pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
            self._pool = None

    def _parse(self, texts: Sequence[str]) -> Iterator[Parse]:
        pipeline = self._loaded()
        pieces, again = tee(
            (row, offset, doc)
            for row, text in enumerate(texts)
            for offset, doc in _pieces(pipeline.nlp, text)
        )
        docs = pipeline.run((doc for _, _, doc in pieces), batch_size=BATCH_PIECES)
        piece_parses = (
            (row, offset, _extract(doc, offset))
            for doc, (row, offset, _) in zip(docs, again, strict=True)
        )
        for row, group in groupby(piece_parses, key=itemgetter(0)):
            yield _join(texts[row], [(offset, parse) for _, offset, parse in group])

    def _parse_in_pool(self, texts: Sequence[str]) -> Iterator[Parse]:
        if self._pool is None:
            with safe_path():
                self._pool = ProcessPoolExecutor(
                    self._processes, HelperContext(), _start_worker, (self._name, self._fast)
                )
        shares = (texts[i : i + SHARE] for i in range(0, len(texts), SHARE))
        # Not `map`: it cancels the rest, also of a pool that breaks, whose thread then ends early.
        return self._from_pool(deque(self._pool.submit(_parse_share, share) for share in shares))

    def _from_pool(self, shares: deque[Future[list[Parse]]]) -> Iterator[Parse]:
        try:
            while shares:
                yield from shares.popleft().result()
        except GeneratorExit:
            for share in shares:
                share.cancel()
            raise
        except BrokenProcessPool as error:
            self.close()
            raise ModelError(
                "A process that parses was ended from outside, as systems do when memory is short. "
                "Try again with WYE_ANALYSER__PROCESSES=1, which needs less; what was committed is "
                "kept."
            ) from error


def readable(question: str) -> str:
    """The beginning of a question that is parsed."""
    if len(question) <= QUESTION_CHARACTERS:
        return question
    start = question[: QUESTION_CHARACTERS + 1]
    space = max(p for p in range(len(start)) if p == 0 or start[p].isspace())
    return start[: space if start[:space].strip() else QUESTION_CHARACTERS]


def _question_doc(nlp: "Language", text: str) -> "Doc":
    docs: list[Doc] = []
    for chunk in _chunks(readable(text)):
        docs.append(nlp.make_doc(chunk))
        if sum(map(len, docs)) >= QUESTION_TOKENS:
            break
    doc = _joined(docs)
    return doc if len(doc) <= QUESTION_TOKENS else doc[:QUESTION_TOKENS].as_doc()


def _question(text: str, doc: "Doc", *, tokens: bool) -> Parse:
    parse = replace(_extract(doc, 0), text=text)
    if not tokens:
        return parse
    return replace(parse, tokens=tokens_of(doc), token_sentences=sentence_ranges(doc))


def _pieces(nlp: "Language", text: str) -> Iterator[tuple[int, "Doc"]]:
    """A text's blocks of prose as documents of at most `PIECE_TOKENS` tokens, each with its start.

    A piece ends with a sentence if one ends in its second half. This depends on the text alone, so
    a parse does not depend on the batch. There is at least one piece, which may be empty.
    """
    prose = [(start, end) for start, end in blocks(text) if not cells(text[start:end])]
    for start, end in prose or [(0, 0)]:
        yield from _pieces_of(nlp, text[start:end], start)


def _pieces_of(nlp: "Language", text: str, offset: int) -> "Iterator[tuple[int, Doc]]":
    docs: list[Doc] = []
    for chunk in _chunks(text):
        docs.append(nlp.make_doc(chunk))
        while sum(map(len, docs)) > PIECE_TOKENS:
            doc = _joined(docs)
            half = range(PIECE_TOKENS, PIECE_TOKENS // 2, -1)
            cut = next((n for n in half if doc[n - 1].text[0] in _SENTENCE_ENDS), PIECE_TOKENS)
            yield offset, doc[:cut].as_doc()
            offset += doc[cut].idx
            docs = [doc[cut:].as_doc()]
    yield offset, _joined(docs)


def _chunks(text: str) -> Iterator[str]:
    """A text for the tokenizer in chunks that end before words, or in runs that are too long."""
    chunk = ""
    for run in _RUN.findall(text):
        chunk += run
        if len(chunk) > _CHUNK_CHARACTERS or (len(run) >= RUN_CHARACTERS and not run[-1].isspace()):
            yield chunk
            chunk = ""
    yield chunk


def _joined(docs: "list[Doc]") -> "Doc":
    from spacy.tokens import Doc  # noqa: PLC0415 - as in `load_pipeline`

    return docs[0] if len(docs) == 1 else Doc.from_docs(docs, ensure_whitespace=False)


def _extract(doc: "Doc", offset: int) -> Parse:
    def span(part: "SpacySpan") -> Span:
        return offset + part.start_char, offset + part.end_char

    sentences = [sentence for sentence in doc.sents if sentence.text.strip()]
    entities = [entity for entity in doc.ents if entity.label_ not in UNNAMED_LABELS]
    phrases = [(noun_phrase_key(chunk), chunk) for chunk in doc.noun_chunks]
    return Parse(
        text=doc.text,
        sentences=tuple(_trimmed(each.text, offset + each.start_char) for each in sentences),
        entities=tuple(EntityMention(e.text, e.label_, span(e)) for e in entities),
        phrases=tuple(NounPhrase(key, span(chunk)) for key, chunk in phrases if key),
    )


def _trimmed(text: str, start: int) -> Span:
    """The span of a text that starts at `start`, without surrounding whitespace."""
    return start + len(text) - len(text.lstrip()), start + len(text.rstrip())


def _row(text: str, start: int, end: int) -> Parse:
    """The parse of a row of a table: one sentence, whose names are those in its cells."""
    line = text[start:end]
    names = ((start + first, start + last) for first, last in cell_names(line))
    entities = tuple(EntityMention(text[slice(*span)], "CELL", span) for span in names)
    return Parse(text=line, sentences=(_trimmed(line, start),), entities=entities, phrases=())


def _join(text: str, pieces: list[tuple[int, Parse]]) -> Parse:
    of_rows = [(start, end) for start, end in blocks(text) if cells(text[start:end])]
    rows = [(start, _row(text, start, end)) for start, end in of_rows]
    parses = [parse for _, parse in sorted([*pieces, *rows], key=itemgetter(0))]
    return Parse(
        text=text,
        sentences=tuple(span for p in parses for span in p.sentences),
        entities=tuple(mention for p in parses for mention in p.entities),
        phrases=tuple(phrase for p in parses for phrase in p.phrases),
    )


def noun_phrase_key(chunk: "SpacySpan") -> str:
    """Lower-cased words of a spaCy noun chunk with its head lemmatised, or "" to skip it.

    Determiners, pronouns and possessive marks are dropped. Chunks that are headed by a pronoun or
    have more than `MAX_WORDS` left are skipped, since they do not recur.
    """
    if chunk.root.pos_ == "PRON":
        return ""
    words = [t for t in chunk if t.pos_ not in _DROPPED and t.tag_ != "POS"]
    if not words or len(words) > MAX_WORDS:
        return ""
    return " ".join([t.lower_ for t in words[:-1]] + [words[-1].lemma_.lower()])


def tokens_of(doc: "Doc") -> tuple[Token, ...]:
    """The tokens in order without whitespace, whose dependents go to the next word above."""
    words = [token for token in doc if not token.is_space]
    positions = {token.i: position for position, token in enumerate(words)}
    return tuple(_token(token, positions) for token in words)


def sentence_ranges(doc: "Doc") -> tuple[Span, ...]:
    """Range (start, end) of each sentence among these tokens; empty sentences are left out."""
    ranges: list[Span] = []
    start = 0
    for sentence in doc.sents:
        end = start + sum(not token.is_space for token in sentence)
        if end > start:
            ranges.append((start, end))
        start = end
    return tuple(ranges)


def _token(token: "SpacyToken", positions: dict[int, int]) -> Token:
    head = token.head
    while head.i not in positions and head.head.i != head.i:
        head = head.head
    return Token(
        text=token.text,
        lemma=token.lemma_,
        tag=token.tag_,
        pos=token.pos_,
        dep=token.dep_,
        head=positions.get(head.i, positions[token.i]),
        span=(token.idx, token.idx + len(token)),
        entity=token.ent_type_,
        begins_entity=token.ent_iob_ == "B",
        is_stop=token.is_stop,
    )


# The parser of a pool's process, as a one-element list: the pool offers no other place for it.
_worker: list[SpacyParser] = []


def _start_worker(pipeline: str, fast: bool) -> None:
    # Ctrl-C reaches the whole process group; only the parent decides what happens then.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=end_with_parent, daemon=True).start()
    _worker[:] = [SpacyParser(pipeline, fast=fast)]


def _parse_share(texts: Sequence[str]) -> list[Parse]:
    return [*_worker[0].parse_many(texts)]


def blocks(text: str) -> Iterator[Span]:
    """Spans of the blocks of a text, in order, without the line breaks around them."""
    start = end = -1
    for line in _LINE.finditer(text):
        if not line[0].strip():
            continue
        if start >= 0 and not _continues(text[start:end].rpartition("\n")[2], line[0], text, line):
            yield start, end
            start = -1
        start = line.start() if start < 0 else start
        end = line.end()
    if start >= 0:
        yield start, end


def _continues(before: str, line: str, text: str, match: re.Match[str]) -> bool:
    """Whether a line goes on with the sentence of the line before it."""
    if text[: match.start()].endswith("\n\n") or " | " in before or " | " in line:
        return False
    if len(before.strip()) < _BROKEN_FROM or before.rstrip()[-1:] in ".!?:;" or cells(before):
        return False
    if _BEGINS_ITEM.match(line):
        return False
    last = _LAST_WORD.search(before)
    hangs = before.rstrip()[-1:] == "," or (last is not None and last[1].lower() in _HANGING)
    return hangs or line.lstrip()[:1].islower()


def cells(line: str) -> list[Span]:
    """Spans of the cells of a row, "a | b | c" or "label: a; label: b", if these are short."""
    bars = " | " in line
    if not bars and not ("; " in line and _LABEL.match(line)):
        return []
    spans, start, labels = [], 0, 0
    for joint in [*_CELL.finditer(line), None]:
        end = joint.start() if joint else len(line)
        label = _LABEL.match(line, start, end)
        labels += label is not None
        begin = label.end() if label else start
        if line[begin:end].strip():
            spans.append((begin, end))
        start = joint.end() if joint else end
    is_row = bars or labels * 2 > len(spans)
    short = all(end - begin <= 4 * _LONGEST_CELL for begin, end in spans)
    return spans if is_row and short else []


def cell_names(line: str) -> list[Span]:
    """Spans of the names in the cells of a row: what is short, and no number, quantity or word."""
    names = []
    for begin, end in cells(line):
        value = line[begin:end]
        parts, at = [], begin
        for part in _LIST.split(value):
            at = line.index(part, at)
            parts.append((at, at + len(part)))
            at += len(part)
        whole = [(begin, begin + len(value.rstrip()))]
        each = parts if len(parts) > 1 and all(is_name(line[a:z]) for a, z in parts) else whole
        names += [(a, z) for a, z in each if is_name(line[a:z])]
    return names


def is_name(value: str) -> bool:
    """Whether a cell's value may be a name: short, with a capital or a code, and no quantity."""
    if not _LETTER.search(value) or len(value) > _LONGEST_CELL or len(value.split()) > _MOST_WORDS:
        return False
    if _NUMBER.fullmatch(value) or _QUANTITY.match(value):
        return False
    begins_with_capital = value.lstrip("\"'(")[:1].isupper()
    return begins_with_capital or any(c.isdigit() for c in value.split(maxsplit=1)[0])
