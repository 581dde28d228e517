"""Cutting long documents into chunks of whole sentences."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from wye.backends.errors import SourceError
from wye.backends.readers.drafts import HEADER, ROW, Block
from wye.backends.text import HEADING_JOINT
from wye.backends.types import Passage

CHUNK_WORDS = 200
# Longer passages are always chunked: one vector says little about so much text, and parsers stop at
# a million characters.
LONGEST_WORDS = 2_000


# Sections shorter than 1 / _FEW of a chunk are joined.
_FEW = 4

# Letters that count as one word where there are no spaces: Chinese text, base64, a line of dashes.
_LETTERS_PER_WORD = 16

# Characters that are processed at a time; other threads may run in between.
_PIECE = 1 << 18


PARAGRAPH = "\n\n"
_PARAGRAPH_END = re.compile(r"\n\s*\n")
_SENTENCE_END = re.compile(r"""(?<=[.!?…])["'”’)\]]*\s+(?=[^a-z\s])|(?<=[。！？])""")  # noqa: RUF001
_ABBREVIATION = re.compile(
    r"(?:\b[A-Z]|\b(?:al|approx|ca|cf|co|corp|dr|e\.g|etc|fig|i\.e|inc|jr|ltd|mr|mrs|ms|no|prof|sr"
    r"|st|vol|vs))\.$",
    re.IGNORECASE,
)
_LONGEST_ABBREVIATION = 8

_CHUNK_ID = re.compile(r"#[0-9]{4,}\Z")


def split_sentences(text: str) -> list[str]:
    """Sentences of a text by punctuation, without a parser: good enough for chunking.

    Splits after ., !, ? or … before whitespace and anything but a lower-case letter, except after
    an initial or a common abbreviation, and after the full stops of Chinese and Japanese.
    """
    sentences = []
    start = 0
    for end in _SENTENCE_END.finditer(text):
        before = text[max(start, end.start() - _LONGEST_ABBREVIATION) : end.start()]
        if not _ABBREVIATION.search(before):
            sentences.append(text[start : end.end()].strip())
            start = end.end()
    return [sentence for sentence in (*sentences, text[start:].strip()) if sentence]


def count_words(text: str) -> int:
    """Number of words of a text; a very long word counts as several."""
    return sum(map(_weight, text.split()))


def chunk_text(text: str, words: int) -> list[str]:
    """Cut a text at sentence ends into chunks of at most `words` words.

    Chunks hold as many sentences as fit. A sentence that is too long by itself is cut between
    words, and such a word between letters. Joined, the chunks give all words in order. Within a
    chunk, a run of whitespace becomes a space, or an empty line between paragraphs.

    Args:
        words: At least 1, as counted by `count_words`.

    Returns:
        The text itself if it is short enough, otherwise at least two chunks.
    """
    return [text] if count_words(text) <= words else _packed(_pieces(text, words), words)


def _pieces(text: str, words: int) -> Iterator[tuple[str, str, str]]:
    """The sentences of a text, each with what joins it to the one before; see `_packed`."""
    for paragraph in _PARAGRAPH_END.split(text):
        joint = PARAGRAPH
        sentences = chain.from_iterable(map(split_sentences, _windows(paragraph)))
        for piece in (piece for sentence in sentences for piece in _cut(sentence, words)):
            yield joint, piece, ""
            joint = " "


def _packed(pieces: Iterable[tuple[str, str, str]], words: int) -> list[str]:
    """Chunks of as many pieces as fit.

    Args:
        pieces: Each with what joins it to the one before, and what a chunk that it begins must
            repeat before it.
    """
    chunks: list[str] = []
    budget = 0
    for joint, piece, header in pieces:
        weight = count_words(piece)
        if weight <= budget:
            chunks[-1] += joint + piece
            budget -= weight
        else:
            chunks.append(f"{header}{joint}{piece}" if header else piece)
            budget = words - weight - count_words(header)
    return chunks


def _chunks(blocks: Sequence[Block], words: int) -> list[str]:
    """Cut blocks into chunks; rows stay whole, and a chunk that one begins has the table's header.

    Returns:
        The blocks as one text if it is short enough.
    """
    if count_words(text := joined(blocks)) <= words:
        return [text]
    if not any(level in (HEADER, ROW) for level, _ in blocks):
        return chunk_text(text, words)
    return _packed(_pieces_of_blocks(blocks, words), words)


def _pieces_of_blocks(blocks: Sequence[Block], words: int) -> Iterator[tuple[str, str, str]]:
    header = ""
    for before, (level, text) in zip([(0, ""), *blocks], blocks, strict=False):
        if level not in (HEADER, ROW):
            header = ""
            yield from _pieces(text, words)
            continue
        # A header that is half a chunk would leave no room for rows.
        if level == HEADER:
            header = text if count_words(text) <= words // 2 else ""
        is_below = level == ROW and before[0] in (HEADER, ROW)
        pieces = [text] if count_words(text) <= LONGEST_WORDS else _cut(text, LONGEST_WORDS)
        for piece in pieces:
            yield "\n" if is_below else PARAGRAPH, piece, header if level == ROW else ""
            is_below = True


@dataclass(frozen=True, slots=True)
class HeadedDocument(Passage):
    """A document whose headings are known.

    Attributes:
        blocks: Its headings, its tables, and the text between them.
        has_pages: Whether each section under a heading of the highest level is a passage.
    """

    blocks: Sequence[Block] = ()
    has_pages: bool = False


def chunk_passage(passage: Passage, words: int) -> Iterator[Passage]:
    """The chunks of a passage that is a document, or the passage itself if it is short enough.

    Chunk i has the id `<document>#<i>`, with i from 0 and at least four digits, and the title and
    metadata of its document. A document whose own id ends like that is always stored as chunks, so
    no id is both a document's and another document's chunk: each id says whose passage it is.

    Where headings are known, a chunk begins at one if possible, and the headings that it stands
    under are appended to its title, as in "Handbook > Install > Linux".

    Raises:
        SourceError: `words` is below 1.
    """
    if words < 1:
        raise SourceError(f"chunk_words is {words}; a passage has at least 1 word")
    chunks: list[tuple[tuple[str, ...], str]]
    if isinstance(passage, HeadedDocument) and (
        passage.has_pages or count_words(passage.text) > words
    ):
        joint_words = 0 if passage.has_pages else words // _FEW
        chunks = [
            (headings, text)
            for headings, section in _sections(passage.blocks, words, joint_words)
            for text in _chunks(section, words)
        ]
    else:
        chunks = [((), text) for text in chunk_text(passage.text, words)]
    if passage.statements and (len(chunks) > 1 or is_chunk_id(passage.id)):
        raise SourceError(
            f"{passage.id!r:.80} has statements, so it is not cut, and it is longer than {words} "
            "words or has the id of a chunk; give it in shorter records, each with its statements"
        )
    for number, (headings, text) in enumerate(chunks):
        title = HEADING_JOINT.join(filter(None, (passage.title, *headings)))
        if len(chunks) == 1 and not is_chunk_id(passage.id):
            yield Passage(passage.id, title, text, passage.metadata, statements=passage.statements)
        else:
            id_ = f"{passage.id}#{number:04d}"
            yield Passage(id_, title, text, passage.metadata, passage.id, number)


Section = tuple[tuple[str, ...], Sequence[Block]]


def _sections(
    blocks: Sequence[Block], words: int, few: int, above: tuple[str, ...] = ()
) -> Iterator[Section]:
    """Blocks in parts, each with the headings that it stands under.

    A section that is short enough stays whole; those of fewer than `few` words are joined.
    """
    top = min((level for level, _ in blocks if level > 0), default=0)
    starts = [position for position, (level, _) in enumerate(blocks) if level == top and level]
    ends = [0, *starts, len(blocks)]
    group: Sequence[Block] = ()
    for new in (blocks[start:end] for start, end in pairwise(ends)):
        weight = sum(count_words(text) for _, text in group)
        if weight < few and weight + sum(count_words(text) for _, text in new) <= words:
            group = [*group, *new]
            continue
        yield from _section(group, words, few, above, top)
        group = new
    yield from _section(group, words, few, above, top)


def _section(
    blocks: Sequence[Block], words: int, few: int, above: tuple[str, ...], top: int
) -> Iterator[Section]:
    """The parts of one section, or of several short ones."""
    if not blocks:
        return
    levels = [level for level, _ in blocks]
    if top and levels[0] == top and levels.count(top) == 1:
        above = (*above, blocks[0][1])
        # A heading without text below becomes text itself.
        blocks = blocks[1:] or [(0, blocks[0][1])]
    if count_words(joined(blocks)) <= words or not any(level > 0 for level, _ in blocks):
        yield above, blocks
    else:
        yield from _sections(blocks, words, few, above)


def joined(blocks: Iterable[Block]) -> str:
    """Blocks as one text, with empty lines between them, but not between a table's rows."""
    pieces: list[str] = []
    before = 0
    for level, text in blocks:
        is_below = level == ROW and before in (HEADER, ROW)
        pieces += ("\n" if is_below else PARAGRAPH, text)
        before = level
    return "".join(pieces[1:])


def is_chunk_id(id_: str) -> bool:
    """Whether an id ends like that of a chunk."""
    return _CHUNK_ID.search(id_) is not None


def _windows(paragraph: str) -> Iterator[str]:
    """A paragraph in pieces of at most `_PIECE` characters; normally just one."""
    start = 0
    while len(paragraph) - start > _PIECE:
        end = paragraph.rfind(" ", start + 1, start + _PIECE)
        end = end if end > 0 else start + _PIECE
        yield paragraph[start:end]
        start = end
    yield paragraph[start:]


def _cut(sentence: str, words: int) -> list[str]:
    """A sentence in pieces of at most `words` words; normally just one."""
    pieces: list[list[str]] = [[]]
    budget = words
    longest = words * _LETTERS_PER_WORD
    for word in sentence.split():
        for start in range(0, len(word), longest):
            bit = word[start : start + longest]
            if _weight(bit) > budget:
                pieces.append([])
                budget = words
            pieces[-1].append(bit)
            budget -= _weight(bit)
    return [" ".join(piece) for piece in pieces if piece]


def _weight(word: str) -> int:
    """The number of words that a run of letters counts as."""
    return -(-len(word) // _LETTERS_PER_WORD)
