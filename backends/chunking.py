"""Long texts into chunks of whole sentences."""

import re
from collections.abc import Callable, Iterator

from backends.types import Passage

Splitter = Callable[[str], list[str]]

CHUNK_WORDS = 200
# A longer passage is chunked even where nobody asked: one vector says little about so much text,
# and parsers stop at a million characters.
LONGEST_WORDS = 2_000

# Letters that count as one word where spaces do not tell: Chinese text, base64, a line of dashes.
_LETTERS_PER_WORD = 16

_PARAGRAPH_END = re.compile(r"\n\s*\n")
_SENTENCE_END = re.compile(r"""(?<=[.!?…])["'”’)\]]*\s+(?=[^a-z\s])|(?<=[。！？])""")  # noqa: RUF001
_ABBREVIATION = re.compile(
    r"(?:\b[A-Z]|\b(?:al|approx|ca|cf|co|corp|dr|e\.g|etc|fig|i\.e|inc|jr|ltd|mr|mrs|ms|no|prof|sr"
    r"|st|vol|vs))\.$",
    re.IGNORECASE,
)
_LONGEST_ABBREVIATION = 8


def split_sentences(text: str) -> list[str]:
    """Sentences of a text by punctuation, without a parser: good enough to chunk by.

    Splits after ., !, ? or … before whitespace and anything but a small letter, except after an
    initial or a common abbreviation, and after the full stops of Chinese and Japanese.
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
    """Words of a text, a very long word counting as several."""
    return sum(map(_weight, text.split()))


def chunk_text(text: str, words: int, split: Splitter = split_sentences) -> list[str]:
    """Cut a text at sentence ends into chunks of at most `words` words.

    Chunks hold as many sentences as fit. A sentence that alone is longer is cut between words, and
    a word that alone is longer between letters. Joined, the chunks give all words in order; within
    one, runs of whitespace become a space, or an empty line between paragraphs.

    Args:
        text: Of any length.
        words: At least 1, as counted by `count_words`.
        split: Cuts a paragraph into sentences.

    Returns:
        The text itself if it is short enough, otherwise at least two chunks.
    """
    if count_words(text) <= words:
        return [text]
    chunks: list[str] = []
    room = 0
    for paragraph in _PARAGRAPH_END.split(text):
        joint = "\n\n"
        for piece in (piece for sentence in split(paragraph) for piece in _cut(sentence, words)):
            weight = count_words(piece)
            if weight <= room:
                chunks[-1] += joint + piece
                room -= weight
            else:
                chunks.append(piece)
                room = words - weight
            joint = " "
    return chunks


def chunk_passage(
    passage: Passage, words: int, split: Splitter = split_sentences
) -> Iterator[Passage]:
    """The chunks of a passage that is a document, or the passage itself if it is short enough.

    Chunk i has the id `<document>#<i>`, i counted from 0 with at least four digits, and the title
    and metadata of its document.

    Args:
        passage: Not a chunk itself.
        words: At most so many to a chunk.
        split: Cuts a paragraph into sentences.
    """
    texts = chunk_text(passage.text, words, split)
    if len(texts) == 1:
        yield passage
        return
    for number, text in enumerate(texts):
        id_ = f"{passage.id}#{number:04d}"
        yield Passage(id_, passage.title, text, passage.metadata, passage.id, number)


def _cut(sentence: str, words: int) -> list[str]:
    """A sentence in pieces of at most `words` words; normally just one."""
    pieces: list[list[str]] = [[]]
    room = words
    longest = words * _LETTERS_PER_WORD
    for word in sentence.split():
        for start in range(0, len(word), longest):
            part = word[start : start + longest]
            if _weight(part) > room:
                pieces.append([])
                room = words
            pieces[-1].append(part)
            room -= _weight(part)
    return [" ".join(piece) for piece in pieces if piece]


def _weight(word: str) -> int:
    """How many words a run of letters counts as."""
    return -(-len(word) // _LETTERS_PER_WORD)
